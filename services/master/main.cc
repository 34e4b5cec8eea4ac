// The master: the public API.

#include "common/process/service_process.h"
#include "common/process/store_client.h"
#include "common/secrets/sealed_value.h"
#include "services/master/service/hosted_master.h"

int main(int argc, char** argv) {
  return escapement::RunService(
      argc, argv,
      {.name = "master",
       .description = "serves the public API: schedules, policies, events, runs",
       .listen = "127.0.0.1:7410",
       .http_listen = "127.0.0.1:7411",
       .connection_age = escapement::master::ConnectionAgeFromFlag,
       .certificates = escapement::master::KafkaIngestCertificates,
       .validate =
           [](std::vector<std::string>& errors) {
             escapement::ValidateStoreFlag(errors);
             escapement::ValidateSecretKeysFlag(errors);
             escapement::master::ValidateMasterFlags(errors);
           },
       .make =
           [](const escapement::ServiceContext& context) {
             return escapement::HostWithStore<escapement::master::HostedMaster>(context);
           }});
}
