// LoggingReplica: a replica of the store over PostgreSQL, put together as services/store does, that
// also writes what it decides while it leads (commit_file.h). It makes a snapshot for each 256 KiB
// of the log.
//
// Threads: as HostedService.

#ifndef TESTS_E2E_CHAOS_REPLICATED_LOGGING_REPLICA_H_
#define TESTS_E2E_CHAOS_REPLICATED_LOGGING_REPLICA_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/kv/rocks/rocks_kv_store.h"
#include "common/process/service_process.h"
#include "services/store/service/store_server.h"

namespace escapement::chaos {

// `rocks` has the options that the flags give. `commits` is the folder of the commit files.
absl::StatusOr<std::unique_ptr<HostedService>> MakeLoggingReplica(
    const ServiceContext& context, const store::StoreServer::Options& flags,
    kv::RocksKvStore::Options rocks, std::string commits);

}  // namespace escapement::chaos

#endif  // TESTS_E2E_CHAOS_REPLICATED_LOGGING_REPLICA_H_
