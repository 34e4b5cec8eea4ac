#include "tests/e2e/chaos/live_consumer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/uid.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement::chaos {
namespace {

using handler::DeliveryResult;
using handler::DeliveryStatus;
using handler::DeliveryWork;

// Longer than any attempt. The sender's own timeout ends the attempt; here that shows as the end of
// its connection.
constexpr absl::Duration kNever = absl::Hours(24);

void Respond(AttemptPort& port, size_t number, const DeliveryResult& result) {
  switch (result.status) {
    case DeliveryStatus::kAccepted:
      return port.Answer(number, 200,
                         result.work == DeliveryWork::kSucceeded
                             ? "Escapement-Outcome: succeeded\r\n"
                         : result.work == DeliveryWork::kFailed ? "Escapement-Outcome: failed\r\n"
                                                                : "");
    case DeliveryStatus::kFailed:
      if (result.retry_after > absl::ZeroDuration())
        return port.Answer(number, 429, "Retry-After: 1\r\n");
      return port.Answer(number, 500, "");
    case DeliveryStatus::kRejected:
      return port.Answer(number, 410, "");
    default:
      return;  // no answer: the attempt hangs
  }
}

}  // namespace

class LiveConsumer::Sink final : public handler::DeliverySink {
 public:
  explicit Sink(LiveConsumer& consumer) : consumer_(consumer) {}
  void OnResult(uint64_t tag, DeliveryResult result) override {
    Respond(*consumer_.port_, tag, result);
    // Posted, since the transport is still in this call.
    consumer_.live_.Post([&consumer = consumer_, tag] { consumer.transports_.erase(tag); });
  }

 private:
  LiveConsumer& consumer_;
};

LiveConsumer::LiveConsumer(LiveWorld& live, simulation::Consumer& consumer)
    : live_(live),
      consumer_(consumer),
      process_(live.world(), "socket"),
      sink_(std::make_shared<Sink>(*this)) {}
LiveConsumer::~LiveConsumer() = default;

absl::Status LiveConsumer::Start() {
  ASSIGN_OR_RETURN(
      auto port, AttemptPort::Start([this](Attempt attempt) {
        live_.Post([this, attempt = std::move(attempt)]() mutable { Take(std::move(attempt)); });
      }));
  port_ = std::move(port);
  return absl::OkStatus();
}

void LiveConsumer::Take(Attempt attempt) {
  auto definition = std::make_shared<storage::v1::DefinitionRecord>();
  definition->set_uid(std::string(Uid::kBytes, '\0'));  // the socket does not know the uid
  // Nor whether the event is throttled; so the worker notes all events.
  definition->mutable_throttle();
  auto context = std::make_shared<handler::DeliveryContext>();
  context->definition = std::move(definition);
  context->SetPayload(attempt.body);
  context->source = attempt.source;
  context->occurrence = attempt.occurrence;
  context->nominal_time = attempt.nominal;
  context->launch_time = attempt.launch;
  context->run_count = attempt.run_count;
  context->timeout = kNever;
  handler::DeliveryAttempt delivery;
  delivery.tag = attempt.number;
  delivery.context = std::move(context);
  delivery.event_id = attempt.event_id;
  delivery.index = attempt.index;
  delivery.attempt = attempt.attempt;
  delivery.token = attempt.token;
  auto& transport = transports_[attempt.number];
  transport = consumer_.NewTransport(process_, absl::StrCat("attempt ", attempt.number));
  attempts_.push_back(std::move(attempt));
  std::vector<handler::DeliveryAttempt> deliveries;
  deliveries.push_back(std::move(delivery));
  transport->Send(std::move(deliveries), sink_);
}

}  // namespace escapement::chaos
