// The handler: delivers due events.

#include "common/process/service_process.h"
#include "common/process/sharded_service.h"
#include "common/process/store_client.h"
#include "common/secrets/sealed_value.h"
#include "services/handler/service/handler_service.h"

namespace escapement::handler {
namespace {

void Validate(std::vector<std::string>& errors) {
  ValidateStoreFlag(errors);
  ValidateLeaseFlags(errors);
  ValidateSecretKeysFlag(errors);
  ValidateHandlerFlags(errors);
}

absl::StatusOr<std::unique_ptr<HostedService>> Make(const ServiceContext& context) {
  return HostWithStore<HostedHandler>(context);
}

}  // namespace
}  // namespace escapement::handler

int main(int argc, char** argv) {
  return escapement::RunService(argc, argv,
                                {.name = "handler",
                                 .description = "delivers what is due to its consumers",
                                 .listen = "127.0.0.1:7430",
                                 .http_listen = "127.0.0.1:7431",
                                 .validate = escapement::handler::Validate,
                                 .make = escapement::handler::Make});
}
