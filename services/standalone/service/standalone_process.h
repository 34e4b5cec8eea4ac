// Standalone: all services in one process, over a store that it opens itself. The classes are those
// of the separate processes, without the wire between them. The gRPC port serves the master's API
// and TokenService.

#ifndef SERVICES_STANDALONE_SERVICE_STANDALONE_PROCESS_H_
#define SERVICES_STANDALONE_SERVICE_STANDALONE_PROCESS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/process/service_process.h"

namespace escapement::standalone {

void ValidateFlags(std::vector<std::string>& errors);

// --instance_file unless it is given: a file in --data_dir.
std::string DefaultInstanceFile();

// The certificate files that the flags of the store and the master name.
std::vector<TlsPaths> Certificates();

// Opens the store; errors as StoreServer::Open.
absl::StatusOr<std::unique_ptr<HostedService>> Make(const ServiceContext& context);

}  // namespace escapement::standalone

#endif  // SERVICES_STANDALONE_SERVICE_STANDALONE_PROCESS_H_
