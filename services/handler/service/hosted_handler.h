// HostedHandler: a HandlerService with its transports and flags. The handler process and standalone
// host it.

#ifndef SERVICES_HANDLER_SERVICE_HOSTED_HANDLER_H_
#define SERVICES_HANDLER_SERVICE_HOSTED_HANDLER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/kv/kv_store.h"
#include "common/process/service_process.h"
#include "services/handler/delivery/delivery_transport.h"
#include "services/handler/service/handler_service.h"

namespace escapement::handler {

// Appends one sentence for each flag of the handler with an invalid value.
void ValidateHandlerFlags(std::vector<std::string>& errors);

class HostedHandler final : public HostedService {
 public:
  // `context` and `store` must outlive it.
  HostedHandler(const ServiceContext& context, kv::KvStore& store);

  absl::Status Start() override;
  bool Ready() override { return service_.Ready(); }
  void Drain(Closure done) override { service_.Drain(std::move(done)); }

 private:
  const std::unique_ptr<DeliveryTransport> transport_;
  HandlerService service_;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_SERVICE_HOSTED_HANDLER_H_
