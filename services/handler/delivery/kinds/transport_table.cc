#include "services/handler/delivery/kinds/transport_table.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/records/row_judge.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/handler/delivery/delivery_transport.h"
#include "services/handler/delivery/email/email_transport.h"
#include "services/handler/delivery/grpc/grpc_transport.h"
#include "services/handler/delivery/http/http_transport.h"
#include "services/handler/delivery/http/request_maker.h"
#include "services/handler/delivery/kafka/kafka_transport.h"
#include "services/handler/delivery/sqs/sqs_transport.h"

namespace escapement::handler {
namespace {

struct Row {
  storage::v1::TargetRecord::KindCase kind;
  std::unique_ptr<DeliveryTransport> (*make)(std::shared_ptr<const AddressRule> addresses);
  void (*validate_flags)(std::vector<std::string>& errors);  // null if the transport has no flags
};

using Addresses = std::shared_ptr<const AddressRule>;

std::unique_ptr<DeliveryTransport> NewHttp(Addresses addresses) {
  return std::make_unique<HttpTransport>(HttpOptionsFromFlags(std::move(addresses)));
}
std::unique_ptr<DeliveryTransport> NewGrpc(Addresses addresses) {
  GrpcTransport::Options options;
  options.addresses = std::move(addresses);
  return std::make_unique<GrpcTransport>(options);
}
std::unique_ptr<DeliveryTransport> NewSlack(Addresses addresses) {
  HttpTransport::Options options = HttpOptionsFromFlags(std::move(addresses));
  options.new_maker = [] { return std::make_unique<SlackRequests>(); };
  return std::make_unique<HttpTransport>(options);
}
// Accepts the events of kHeartbeatUri and passes the others on.
class PingTransport final : public DeliveryTransport {
 public:
  explicit PingTransport(const HttpTransport::Options& options) : http_(options) {}

  void Send(std::vector<DeliveryAttempt> attempts, std::shared_ptr<DeliverySink> sink) override {
    const auto& target = attempts.front().context->definition->delivery().target();
    if (target.ping().uri() != kHeartbeatUri)
      return http_.Send(std::move(attempts), std::move(sink));
    for (const DeliveryAttempt& attempt : attempts)
      sink->OnResult(attempt.tag, {.status = DeliveryStatus::kAccepted, .message = ""});
  }

 private:
  HttpTransport http_;
};

std::unique_ptr<DeliveryTransport> NewPing(Addresses addresses) {
  HttpTransport::Options options = HttpOptionsFromFlags(std::move(addresses));
  options.new_maker = [] { return std::make_unique<PingRequests>(); };
  return std::make_unique<PingTransport>(options);
}

constexpr std::array kTransports = {
    Row{storage::v1::TargetRecord::kHttp, &NewHttp, &ValidateHttpFlags},
    Row{storage::v1::TargetRecord::kGrpc, &NewGrpc, nullptr},
    Row{storage::v1::TargetRecord::kEmail, &NewEmailTransportFromFlags, &ValidateEmailFlags},
    Row{storage::v1::TargetRecord::kKafka, &NewKafkaTransportFromFlags, &ValidateKafkaFlags},
    Row{storage::v1::TargetRecord::kSqs, &NewSqsTransportFromFlags, &ValidateSqsFlags},
    Row{storage::v1::TargetRecord::kSlack, &NewSlack, nullptr},
    Row{storage::v1::TargetRecord::kPing, &NewPing, nullptr},
};

class TransportOfAllKinds final : public DeliveryTransport {
 public:
  explicit TransportOfAllKinds(const Addresses& addresses) {
    for (size_t row = 0; row < kTransports.size(); ++row)
      transports_[row] = kTransports[row].make(addresses);
  }

  void Send(std::vector<DeliveryAttempt> attempts, std::shared_ptr<DeliverySink> sink) override {
    if (attempts.empty()) return;
    if (AnswerClosed(attempts, *sink)) return;
    sink = RedactingSink(attempts, std::move(sink));
    // The attempts have one target key, and so one kind.
    const auto kind = attempts.front().context->definition->delivery().target().kind_case();
    for (size_t row = 0; row < kTransports.size(); ++row) {
      if (kTransports[row].kind == kind)
        return transports_[row]->Send(std::move(attempts), std::move(sink));
    }
    for (const DeliveryAttempt& attempt : attempts) {
      sink->OnResult(attempt.tag, {.status = DeliveryStatus::kRejected,
                                   .message = "no transport serves this kind of target"});
    }
  }

 private:
  // Answers the attempts whose targets cannot be used, and removes them. True if none is left.
  static bool AnswerClosed(std::vector<DeliveryAttempt>& attempts, DeliverySink& sink) {
    const auto closed = [&sink](const DeliveryAttempt& attempt) {
      if (attempt.context->closed.empty()) return false;
      sink.OnResult(attempt.tag,
                    {.status = DeliveryStatus::kFailed, .message = attempt.context->closed});
      return true;
    };
    attempts.erase(std::remove_if(attempts.begin(), attempts.end(), closed), attempts.end());
    return attempts.empty();
  }

  std::array<std::unique_ptr<DeliveryTransport>, kTransports.size()> transports_;
};

}  // namespace

void ValidateTransportFlags(std::vector<std::string>& errors) {
  for (const Row& row : kTransports) {
    if (row.validate_flags != nullptr) row.validate_flags(errors);
  }
}

std::unique_ptr<DeliveryTransport> NewTransports(std::shared_ptr<const AddressRule> addresses) {
  return std::make_unique<TransportOfAllKinds>(addresses);
}

}  // namespace escapement::handler
