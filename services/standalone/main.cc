// Standalone: the whole platform in one process.

#include "services/master/service/hosted_master.h"
#include "services/standalone/service/standalone_process.h"
#include "services/store/service/store_tasks.h"

int main(int argc, char** argv) {
  return escapement::RunService(
      argc, argv,
      {.name = "standalone",
       .description = "the whole platform in one process, with its own store",
       .listen = "127.0.0.1:7410",
       .http_listen = "127.0.0.1:7411",
       .connection_age = escapement::master::ConnectionAgeFromFlag,
       .instance_file = escapement::standalone::DefaultInstanceFile,
       .certificates = escapement::standalone::Certificates,
       .validate = escapement::standalone::ValidateFlags,
       .task = escapement::store::StoreTaskFromFlags,
       .make = escapement::standalone::Make});
}
