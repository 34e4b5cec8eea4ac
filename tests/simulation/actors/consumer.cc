#include "tests/simulation/actors/consumer.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/stable_hash.h"
#include "common/base/uid.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement::simulation {
namespace {

SendResult ResultOf(handler::DeliveryStatus status) {
  switch (status) {
    case handler::DeliveryStatus::kAccepted:
      return SendResult::kAccepted;
    case handler::DeliveryStatus::kFailed:
      return SendResult::kFailed;
    case handler::DeliveryStatus::kRejected:
      return SendResult::kRejected;
    case handler::DeliveryStatus::kUnknown:
      return SendResult::kUnknown;
    case handler::DeliveryStatus::kUnsent:  // never of an attempt that reached the consumer
      break;
  }
  return SendResult::kNone;
}

}  // namespace

// One attempt, from the moment its sender sends it.
struct Consumer::Sending {
  handler::DeliveryAttempt attempt;
  std::shared_ptr<handler::DeliverySink> sink;
  std::shared_ptr<sim::ProcessState> handler;
  std::weak_ptr<bool> transport;
  std::string sender;
  absl::Time sent;
  bool answered = false;
  SendResult result = SendResult::kNone;
  absl::Time result_time = absl::InfiniteFuture();
  sim::SimWorld::EventId timeout = 0;
  std::optional<size_t> receipt;  // once it has arrived
  std::vector<Receipt>* receipts = nullptr;

  // Tells the sender the result; runs in the handler's process.
  void Result(sim::SimWorld& world, handler::DeliveryResult delivered) {
    if (std::exchange(answered, true) || transport.expired()) return;
    world.Forget(timeout);
    result = ResultOf(delivered.status);
    result_time = world.Now();
    WriteDown();
    sink->OnResult(attempt.tag, std::move(delivered));
  }

  // Copies the result into the receipt. The attempt may arrive after its sender has given it up.
  void WriteDown() {
    if (!receipt.has_value()) return;
    (*receipts)[*receipt].result = result;
    (*receipts)[*receipt].result_time = result_time;
  }
};

class Consumer::Transport final : public handler::DeliveryTransport {
 public:
  Transport(Consumer& consumer, sim::SimProcess& handler, std::string sender)
      : consumer_(consumer), handler_(handler.state()), sender_(std::move(sender)) {}

  void Send(std::vector<handler::DeliveryAttempt> attempts,
            std::shared_ptr<handler::DeliverySink> sink) override {
    sim::SimWorld& world = consumer_.network_.world();
    for (handler::DeliveryAttempt& attempt : attempts) {
      auto sending = std::make_shared<Sending>();
      sending->attempt = std::move(attempt);
      sending->sink = sink;
      sending->handler = handler_;
      sending->transport = alive_;
      sending->sender = sender_;
      sending->sent = world.Now();
      sending->receipts = &consumer_.receipts_;
      sending->timeout = world.At(
          world.Elapsed() + sending->attempt.context->timeout, handler_, world.NewLine(),
          "delivery timeout", [&world, sending] {
            sending->Result(world, {handler::DeliveryStatus::kUnknown, "no answer in time"});
          });
      consumer_.network_.Send(handler_, "consumer",
                              [consumer = &consumer_, sending] { consumer->Receive(sending); });
    }
  }

 private:
  Consumer& consumer_;
  const std::shared_ptr<sim::ProcessState> handler_;
  const std::string sender_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

std::unique_ptr<handler::DeliveryTransport> Consumer::NewTransport(sim::SimProcess& handler,
                                                                   std::string sender) {
  return std::make_unique<Transport>(*this, handler, std::move(sender));
}

void Consumer::Arrive(const std::shared_ptr<Sending>& sending) {
  sim::SimWorld& world = network_.world();
  const handler::DeliveryContext& context = *sending->attempt.context;
  Receipt receipt;
  receipt.time = world.Now();
  receipt.event_id = sending->attempt.event_id;
  receipt.occurrence = context.occurrence;
  if (!context.occurrence.empty()) receipt.uid = Uid::FromBytes(context.definition->uid()).ToHex();
  receipt.index = sending->attempt.index;
  receipt.run_count = context.run_count;
  receipt.attempt = sending->attempt.attempt;
  receipt.version = context.definition->version();
  receipt.nominal = context.nominal_time;
  receipt.launch = context.launch_time;
  receipt.body_hash = StableHash64(*context.payload);
  receipt.sender = sending->sender;
  receipt.sent = sending->sent;
  receipt.timeout = context.timeout;
  receipt.token = sending->attempt.token;
  receipt.throttled = context.definition->has_throttle();
  world.Note(absl::StrCat("receipt ", receipt.event_id, " ", receipt.occurrence, "[", receipt.index,
                          "] attempt ", receipt.attempt, " from ", receipt.sender));
  sending->receipt = receipts_.size();
  receipts_.push_back(std::move(receipt));
  sending->WriteDown();
}

void Consumer::Receive(const std::shared_ptr<Sending>& sending) {
  sim::SimWorld& world = network_.world();
  Arrive(sending);
  if (worker_ != nullptr && !sending->attempt.token.empty() &&
      worker_->Has(sending->attempt.event_id))
    return Accept(sending, absl::ZeroDuration());
  // Drawn from the attempt's name, so that every sender of an attempt meets the same behaviour.
  const std::string attempt =
      absl::StrCat(sending->attempt.event_id, "/", sending->attempt.attempt);
  sim::SimRandom random(world.seed(), attempt);
  uint64_t lot = random.Below(1'000'000);
  auto drawn = [&lot](uint32_t share) {
    if (lot < share) return true;
    lot -= share;
    return false;
  };
  using handler::DeliveryStatus;
  // The consumer once took this attempt without answering. It repeats that even if its habits have
  // changed since.
  if (hung_.contains(attempt)) return Hang(sending);
  if (drawn(habits_.fails))
    return Answer(sending, {DeliveryStatus::kFailed, "500"}, absl::ZeroDuration());
  if (drawn(habits_.asks_for_delay)) {
    return Answer(sending, {DeliveryStatus::kFailed, "429", absl::Milliseconds(700)},
                  absl::ZeroDuration());
  }
  if (drawn(habits_.rejects))
    return Answer(sending, {DeliveryStatus::kRejected, "400"}, absl::ZeroDuration());
  if (drawn(habits_.hangs)) {
    hung_.insert(attempt);
    return Hang(sending);
  }
  const absl::Duration after = drawn(habits_.dawdles)
                                   ? random.Between(absl::ZeroDuration(), habits_.dawdle_max)
                                   : random.Between(absl::ZeroDuration(), absl::Milliseconds(2));
  Accept(sending, after);
}

void Consumer::Hang(const std::shared_ptr<Sending>& sending) {
  const Receipt& receipt = receipts_[*sending->receipt];
  if (worker_ != nullptr && receipt.throttled) worker_->Arrived(*sending->receipt, receipt);
}

void Consumer::Accept(const std::shared_ptr<Sending>& sending, absl::Duration after) {
  const size_t index = *sending->receipt;
  handler::DeliveryResult accepted = {handler::DeliveryStatus::kAccepted, ""};
  if (worker_ != nullptr && receipts_[index].throttled) {
    if (!receipts_[index].token.empty()) {
      accepted.work = worker_->Accept(index, receipts_[index]);
    } else {
      worker_->Arrived(index, receipts_[index]);
      sim::SimWorld& world = network_.world();
      world.At(world.Elapsed() + after, process_.state(), world.NewLine(), "worker",
               [this, index] { worker_->Answered(index, receipts_[index]); });
    }
  }
  Answer(sending, std::move(accepted), after);
}

void Consumer::Answer(const std::shared_ptr<Sending>& sending, handler::DeliveryResult result,
                      absl::Duration after) {
  sim::SimWorld& world = network_.world();
  receipts_[*sending->receipt].asked = result.retry_after;
  world.At(world.Elapsed() + after, process_.state(), world.NewLine(), "consumer answers",
           [this, &world, sending, result = std::move(result)] {
             network_.Send(process_.state(), sending->handler->name, [&world, sending, result] {
               if (!sending->handler->dead) sending->Result(world, result);
             });
           });
}

}  // namespace escapement::simulation
