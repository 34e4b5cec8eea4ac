// The token manager: grants tokens to waiting events and takes them back from consumers.

#include "common/process/service_process.h"
#include "common/process/sharded_service.h"
#include "common/process/store_client.h"
#include "services/token_manager/service/token_manager_service.h"

namespace escapement::token_manager {
namespace {

void Validate(std::vector<std::string>& errors) {
  ValidateStoreFlag(errors);
  ValidateLeaseFlags(errors);
}

absl::StatusOr<std::unique_ptr<HostedService>> Make(const ServiceContext& context) {
  return HostWithStore<HostedTokenManager>(context);
}

}  // namespace
}  // namespace escapement::token_manager

int main(int argc, char** argv) {
  return escapement::RunService(
      argc, argv,
      {.name = "token_manager",
       .description = "grants tokens to waiting events and takes them back from consumers",
       .listen = "127.0.0.1:7440",
       .http_listen = "127.0.0.1:7441",
       .validate = escapement::token_manager::Validate,
       .make = escapement::token_manager::Make});
}
