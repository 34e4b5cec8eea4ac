// Replication: the shared log of a replicated store in PostgreSQL, and this process's replica.
//
// Threads: one thread opens and destroys it.

#ifndef SERVICES_STORE_SERVICE_REPLICATION_H_
#define SERVICES_STORE_SERVICE_REPLICATION_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/kv/log/pg/pg_connection.h"
#include "common/kv/log/pg/pg_findings.h"
#include "common/kv/log/pg/pg_log.h"
#include "common/kv/log/shared_log.h"
#include "common/kv/replica/replicated_kv_store.h"
#include "common/kv/rocks/rocks_kv_store.h"
#include "common/runtime/runtime.h"
#include "escapement/v1/store_service.pb.h"

namespace escapement::store {

inline constexpr size_t kStoreIdBytesMax = 64;

// How well PostgreSQL keeps the log by its present settings. The numbers are those of the metric
// escapement_store_log_safety.
enum class LogSafety : uint8_t {
  kUnknown = 0,  // not read yet
  kDanger = 1,   // a crash of PostgreSQL can lose or damage the log
  kWarning = 2,  // one failure can lose acknowledged commits, or stop the log
  kKept = 3,
};

class Replication {
 public:
  struct Options {
    std::string url;                  // PostgreSQL's; empty: the store is not replicated
    std::string log_name;             // several stores may share a database: 1 to 32 of [a-z0-9-]
    std::string snapshots;            // s3://BUCKET/PREFIX; empty: they are in PostgreSQL, too
    std::string store_id;             // this replica's name; differs among the replicas of a log
    std::string advertise;            // where clients reach this replica
    bool storage_replicated = false;  // see PgServerFacts
    // Receives how long each batch took to become durable, on the writing thread. May be empty.
    std::function<void(absl::Duration)> on_append;
  };

  // Makes or updates the log's schema if the role may, and logs what the server can lose. If the
  // server does not answer, it goes on: the log connects later. Blocks on IO. INVALID_ARGUMENT: bad
  // options. FAILED_PRECONDITION: the schema is newer than this program, or missing without the
  // right to make it; or a pooler mixes sessions; or another process has the same store_id.
  // Otherwise errors as ReplicatedKvStore::Open. `runtime` must outlive it.
  static absl::StatusOr<std::unique_ptr<Replication>> Open(const Options& options,
                                                           kv::RocksKvStore::Options rocks,
                                                           Runtime& runtime);
  ~Replication();

  kv::ReplicatedKvStore& store() { return *store_; }

  // Answers what this process knows, and the replicas' reports, if the log answers within 2 s.
  void GetStatus(std::function<void(absl::StatusOr<v1::StoreReplication>)> done);
  // Gives the term up once another replica has reported, after this call, that it is ready to lead,
  // and `prepare` has then called what it got, or has taken longer than kPrepareMax; see
  // StoreAdmin::HandOver.
  void HandOver(std::function<void(Closure ready)> prepare, std::function<void(absl::Status)> done);

  // Why this replica serves nobody: it follows, something stands in its way, or the log has not
  // acknowledged a row for kLeaseMax. Empty if it leads.
  std::string NotReadyReason() const;
  // Why this replica could not lead within a moment: it has not read the log to its end, or
  // something stands in its way. Empty if it leads, or follows closely.
  std::string NotInPlaceReason() const;
  // As last read; the server is asked again every few seconds.
  LogSafety log_safety() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  Replication(const Options& options, const kv::RocksKvStore::Options& rocks, Runtime& runtime);
  void ReadServerFacts();
  void OnServerFacts(kv::PgServerFacts facts) ABSL_LOCKS_EXCLUDED(mu_);
  // Says why this replica cannot go on; empty if it can.
  std::string ProblemOf(const kv::ReplicaStatus& status) const;
  v1::StoreReplica ReportOf(const kv::ReplicaStatus& status) const;
  v1::StoreReplication StatusWith(
      const absl::StatusOr<std::vector<v1::StoreReplica>>& reported) const ABSL_LOCKS_EXCLUDED(mu_);
  // By their names, with the age of each report.
  void ListReplicas(std::function<void(absl::StatusOr<std::vector<v1::StoreReplica>>)> done);

  // Calls `done` with OK once another replica has reported that it is ready to lead. `since`:
  // Clock::Elapsed at the request; only a report made after it counts.
  void AwaitCandidate(absl::Duration since, std::function<void(absl::Status)> done);

  Runtime& runtime_;
  const std::shared_ptr<Executor> executor_;  // for what is asked again, and for bounded waits
  const std::string store_id_;
  const std::string address_;
  const std::string data_dir_;
  const uint64_t free_bytes_min_;
  const bool storage_replicated_;

  mutable absl::Mutex mu_;
  std::vector<kv::PgFinding> findings_ ABSL_GUARDED_BY(mu_);  // empty: not read yet

  // Keeps other processes from using the same name; null until the server has answered.
  std::unique_ptr<kv::PgConnection> name_;
  std::unique_ptr<kv::PgLog> pg_log_;
  std::unique_ptr<kv::SharedLog> log_;  // over it
  std::unique_ptr<kv::ReplicatedKvStore> store_;
};

// The log alone.
struct SharedLogs {
  std::unique_ptr<kv::SharedLog> in_postgres;
  std::unique_ptr<kv::SharedLog> log;  // over it; the one to use
};
// INVALID_ARGUMENT: bad options.
absl::StatusOr<SharedLogs> OpenSharedLog(const Replication::Options& options, Runtime& runtime);

// Makes or updates the log's schema, and logs what the server can lose. UNAVAILABLE: the server
// does not answer. Otherwise errors as Replication::Open.
absl::Status MigrateSharedLog(const Replication::Options& options);

}  // namespace escapement::store

#endif  // SERVICES_STORE_SERVICE_REPLICATION_H_
