// TargetTransport: gives attempts to the transport of their target's kind.
//
// Threads: as the transports given.

#ifndef SERVICES_HANDLER_DELIVERY_TARGET_TRANSPORT_H_
#define SERVICES_HANDLER_DELIVERY_TARGET_TRANSPORT_H_

#include <memory>
#include <vector>

#include "services/handler/delivery/delivery_transport.h"

namespace escapement::handler {

class TargetTransport final : public DeliveryTransport {
 public:
  // A null transport: attempts of that kind are kRejected.
  TargetTransport(std::unique_ptr<DeliveryTransport> http, std::unique_ptr<DeliveryTransport> grpc);

  void Send(std::vector<DeliveryAttempt> attempts, std::shared_ptr<DeliverySink> sink) override;

 private:
  DeliveryTransport* OfKind(const DeliveryAttempt& attempt) const;

  const std::unique_ptr<DeliveryTransport> http_;
  const std::unique_ptr<DeliveryTransport> grpc_;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_TARGET_TRANSPORT_H_
