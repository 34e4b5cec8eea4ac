#include "services/handler/delivery/target_transport.h"

#include <utility>

#include "escapement/storage/v1/records.pb.h"

namespace escapement::handler {

TargetTransport::TargetTransport(std::unique_ptr<DeliveryTransport> http,
                                 std::unique_ptr<DeliveryTransport> grpc)
    : http_(std::move(http)), grpc_(std::move(grpc)) {}

DeliveryTransport* TargetTransport::OfKind(const DeliveryAttempt& attempt) const {
  switch (attempt.context->definition->delivery().target().kind_case()) {
    case storage::v1::TargetRecord::kHttp:
      return http_.get();
    case storage::v1::TargetRecord::kGrpc:
      return grpc_.get();
    case storage::v1::TargetRecord::KIND_NOT_SET:
      break;
  }
  return nullptr;
}

void TargetTransport::Send(std::vector<DeliveryAttempt> attempts,
                           std::shared_ptr<DeliverySink> sink) {
  if (attempts.empty()) return;
  // They have one target key, and so one kind.
  if (DeliveryTransport* transport = OfKind(attempts.front())) {
    return transport->Send(std::move(attempts), std::move(sink));
  }
  for (const DeliveryAttempt& attempt : attempts) {
    sink->OnResult(attempt.tag, {.status = DeliveryStatus::kRejected,
                                 .message = "no transport serves this kind of target"});
  }
}

}  // namespace escapement::handler
