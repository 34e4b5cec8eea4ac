#include "services/store/service/store_tasks.h"

#include <cstdint>

#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/kv/layout.h"
#include "common/kv/log/pg/pg_connection.h"
#include "common/kv/log/s3/s3_snapshot_log.h"
#include "common/kv/replica/move_store.h"
#include "common/rpc/host_port.h"
#include "services/store/service/store_server.h"

ABSL_FLAG(std::string, data_dir, "", "folder of the data; the store creates it if it is missing");
ABSL_FLAG(bool, accept_loss, false,
          "serve although acknowledged commits are missing from the data folder, or from the log "
          "of a replicated store");
ABSL_FLAG(absl::Duration, store_lease_ttl, absl::Seconds(5),
          "nobody can take over a lease for this long after the store starts");
ABSL_FLAG(uint32_t, partitions, 16, "number of partitions of a new data folder; 1 to 1024");
ABSL_FLAG(uint32_t, queue_shards, 8, "number of queue shards of a new data folder; 1 to 1024");
ABSL_FLAG(uint32_t, policy_shards, 8, "number of policy shards of a new data folder; 1 to 1024");
ABSL_FLAG(uint32_t, cell, 0,
          "number of the cell whose store a new data folder is; 0 to 63; 0 = the home cell");
ABSL_FLAG(uint64_t, free_mib_min, 256,
          "MiB of disk that must stay free; with less, commits are refused");
ABSL_FLAG(uint64_t, block_cache_mib, 256, "MiB of memory for blocks read from disk");

ABSL_FLAG(
    std::string, replicate_through, "",
    "postgresql:// URL of the PostgreSQL that keeps the log of a replicated store; empty = the "
    "store is not replicated");
ABSL_FLAG(std::string, replicated_log, "default",
          "name of the log in that database; all replicas of a store have the same");
ABSL_FLAG(
    std::string, snapshots, "",
    "s3://BUCKET/PREFIX for the files of the log's snapshots; empty = they are in PostgreSQL, "
    "too. Credentials, AWS_REGION and AWS_ENDPOINT_URL_S3 come from the environment");
ABSL_FLAG(bool, log_storage_replicated, false,
          "PostgreSQL's storage is replicated before a commit is acknowledged, so that nobody need "
          "be warned if it has no synchronous standby");
ABSL_FLAG(std::string, store_id, "", "name of this replica; must differ among the replicas");
ABSL_FLAG(std::string, advertise, "", "host:port at which clients reach this replica");
ABSL_FLAG(bool, migrate, false,
          "make or update the log's schema in PostgreSQL, say what PostgreSQL can lose, and exit");
ABSL_FLAG(bool, move_into_log, false,
          "begin the log with the store in --data_dir, which is not replicated, and exit");
ABSL_FLAG(bool, move_out_of_log, false,
          "make a store that is not replicated in --data_dir of all that the log has, end the log, "
          "and exit; all replicas must be stopped");

namespace escapement::store {

namespace {

void ValidateReplication(std::vector<std::string>& errors) {
  const std::string url = absl::GetFlag(FLAGS_replicate_through);
  const std::string snapshots = absl::GetFlag(FLAGS_snapshots);
  if (url.empty() && !snapshots.empty()) errors.push_back("--snapshots: needs --replicate_through");
  if (url.empty()) return;
  if (const absl::Status good = kv::CheckS3SnapshotAddress(snapshots);
      !snapshots.empty() && !good.ok())
    errors.push_back(absl::StrCat("--snapshots: ", good.message()));
  if (!absl::StartsWith(url, "postgresql://") && !absl::StartsWith(url, "postgres://"))
    errors.push_back("--replicate_through: must be a postgresql:// URL");
  if (StoreTaskFlag() != StoreTask::kNone) return;
  if (absl::GetFlag(FLAGS_store_id).empty())
    errors.push_back("--store_id: is required with --replicate_through");
  if (absl::GetFlag(FLAGS_store_id).size() > kStoreIdBytesMax)
    errors.push_back(absl::StrCat("--store_id: at most ", kStoreIdBytesMax, " bytes"));
  const std::string advertise = absl::GetFlag(FLAGS_advertise);
  if (advertise.empty()) {
    errors.push_back("--advertise: is required with --replicate_through");
  } else if (!ParseHostPort(advertise).ok()) {
    errors.push_back("--advertise: must be host:port");
  }
}

void ValidateTask(std::vector<std::string>& errors) {
  const int tasks = int{absl::GetFlag(FLAGS_migrate)} + int{absl::GetFlag(FLAGS_move_into_log)} +
                    int{absl::GetFlag(FLAGS_move_out_of_log)};
  if (tasks > 1)
    errors.push_back("--migrate, --move_into_log and --move_out_of_log: give one of them");
  if (tasks > 0 && absl::GetFlag(FLAGS_replicate_through).empty())
    errors.push_back("--migrate, --move_into_log, --move_out_of_log: need --replicate_through");
}

}  // namespace

void ValidateStoreFlags(std::vector<std::string>& errors) {
  if (absl::GetFlag(FLAGS_data_dir).empty() && StoreTaskFlag() != StoreTask::kMigrate)
    errors.push_back("--data_dir: is required");
  const auto check_count = [&errors](const char* name, uint32_t count) {
    if (count < 1 || count > kv::kLayoutNumberMax) {
      errors.push_back(absl::StrCat("--", name, ": must be from 1 to ", kv::kLayoutNumberMax));
    }
  };
  check_count("partitions", absl::GetFlag(FLAGS_partitions));
  check_count("queue_shards", absl::GetFlag(FLAGS_queue_shards));
  check_count("policy_shards", absl::GetFlag(FLAGS_policy_shards));
  if (absl::GetFlag(FLAGS_cell) >= kv::kCellsMax)
    errors.push_back(absl::StrCat("--cell: must be from 0 to ", kv::kCellsMax - 1));
  if (absl::GetFlag(FLAGS_store_lease_ttl) <= absl::ZeroDuration()) {
    errors.push_back("--store_lease_ttl: must be positive");
  }
  ValidateReplication(errors);
  ValidateTask(errors);
}

StoreTask StoreTaskFlag() {
  if (absl::GetFlag(FLAGS_migrate)) return StoreTask::kMigrate;
  if (absl::GetFlag(FLAGS_move_into_log)) return StoreTask::kMoveIntoLog;
  if (absl::GetFlag(FLAGS_move_out_of_log)) return StoreTask::kMoveOutOfLog;
  return StoreTask::kNone;
}

std::vector<TlsPaths> ReplicationCertificates() {
  const std::string url = absl::GetFlag(FLAGS_replicate_through);
  if (url.empty()) return {};
  const auto conninfo = kv::MakePgConninfo(url, "");
  if (!conninfo.ok()) return {};
  TlsPaths paths;
  bool password = false;
  for (const auto& [keyword, value] : *conninfo) {
    // "system" stands for the authorities of the system.
    if (keyword == "sslrootcert" && value != "system") paths.ca = value;
    if (keyword == "sslcert") paths.cert = value;
    if (keyword == "sslkey") paths.key = value;
    password |= keyword == "sslpassword";
  }
  // A key that cannot be read here cannot be compared with its certificate.
  if (paths.cert.empty() || paths.key.empty() || password) paths.cert = paths.key = "";
  if (paths.cert.empty() && paths.ca.empty()) return {};
  return {std::move(paths)};
}

StoreServer::Options StoreOptionsFromFlags() {
  return {.data_dir = absl::GetFlag(FLAGS_data_dir),
          .accept_loss = absl::GetFlag(FLAGS_accept_loss),
          .lease_ttl = absl::GetFlag(FLAGS_store_lease_ttl),
          .partitions = absl::GetFlag(FLAGS_partitions),
          .queue_shards = absl::GetFlag(FLAGS_queue_shards),
          .policy_shards = absl::GetFlag(FLAGS_policy_shards),
          .cell = absl::GetFlag(FLAGS_cell),
          .free_bytes_min = absl::GetFlag(FLAGS_free_mib_min) << 20,
          .block_cache_bytes = absl::GetFlag(FLAGS_block_cache_mib) << 20,
          .replication = {.url = absl::GetFlag(FLAGS_replicate_through),
                          .log_name = absl::GetFlag(FLAGS_replicated_log),
                          .snapshots = absl::GetFlag(FLAGS_snapshots),
                          .store_id = absl::GetFlag(FLAGS_store_id),
                          .advertise = absl::GetFlag(FLAGS_advertise),
                          .storage_replicated = absl::GetFlag(FLAGS_log_storage_replicated),
                          .on_append = nullptr}};
}

absl::StatusOr<std::unique_ptr<StoreServer>> OpenStoreFromFlags(Metrics& metrics,
                                                                Runtime& runtime) {
  StoreServer::Options options = StoreOptionsFromFlags();
  options.replication.on_append = AppendLatency(metrics);
  options.on_commit = CommitLatency(metrics);
  return StoreServer::Open(options, runtime);
}

namespace {

using Move = absl::Status (*)(kv::RocksKvStore::Options, Runtime&, kv::SharedLog&);

std::function<absl::Status(Runtime&)> Moving(Move move) {
  return [move](Runtime& runtime) {
    const StoreServer::Options options = StoreOptionsFromFlags();
    ASSIGN_OR_RETURN(auto logs, OpenSharedLog(options.replication, runtime));
    return move(RocksOptionsOf(options), runtime, *logs.log);
  };
}

}  // namespace

std::function<absl::Status(Runtime&)> StoreTaskFromFlags() {
  switch (StoreTaskFlag()) {
    case StoreTask::kNone:
      return nullptr;
    case StoreTask::kMigrate:
      return [](Runtime&) { return MigrateSharedLog(StoreOptionsFromFlags().replication); };
    case StoreTask::kMoveIntoLog:
      return Moving(&kv::MoveStoreIntoLog);
    case StoreTask::kMoveOutOfLog:
      return Moving(&kv::MoveStoreOutOfLog);
  }
  return nullptr;
}

}  // namespace escapement::store
