// The emitter: writes the events of schedules into the queue, ahead of time.

#include "common/process/service_process.h"
#include "common/process/sharded_service.h"
#include "common/process/store_client.h"
#include "services/emitter/service/emitter_service.h"

namespace escapement::emitter {
namespace {

void Validate(std::vector<std::string>& errors) {
  ValidateStoreFlag(errors);
  ValidateLeaseFlags(errors);
  ValidateEmitterFlags(errors);
}

absl::StatusOr<std::unique_ptr<HostedService>> Make(const ServiceContext& context) {
  return HostWithStore<HostedEmitter>(context);
}

}  // namespace
}  // namespace escapement::emitter

int main(int argc, char** argv) {
  return escapement::RunService(
      argc, argv,
      {.name = "emitter",
       .description = "writes what schedules set off into the queue, ahead of time",
       .listen = "127.0.0.1:7420",
       .http_listen = "127.0.0.1:7421",
       .validate = escapement::emitter::Validate,
       .make = escapement::emitter::Make});
}
