// RocksReplica: a replica's copy of the state in RocksDB, and the store over it while it leads.
//
// The folder holds `db/` (RocksDB) and, for a while, checkpoints on their way. It is a cache of the
// log: nothing in it is synced, and it may be deleted whenever no process uses it, as long as the
// log has lost nothing. `db.aside.N` is a copy up to row N that knew more than the log, or may have
// known more. If `db/` is damaged, it becomes `db.aside.damaged`, and the copy is made again.
//
// Threads: as ReplicaCopy; any thread may call store().

#ifndef COMMON_KV_REPLICA_ROCKS_REPLICA_H_
#define COMMON_KV_REPLICA_ROCKS_REPLICA_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/kv/replica/replica_copy.h"
#include "common/kv/rocks/rocks_database.h"
#include "common/kv/rocks/rocks_kv_store.h"
#include "common/runtime/runtime.h"

namespace escapement::kv {

class RocksReplica final : public ReplicaCopy {
 public:
  // `options.data_dir` is the replica's folder; `options.layout` is for the first store of a log.
  // With `options.accept_loss` the first term of this process begins a new incarnation.
  // UNAVAILABLE if another process has the folder open. `leader_address` says where the leader is
  // now, for those that this replica turns away; any thread may call it. `on_append` receives how
  // long each batch took to become durable, on a thread of the log.
  static absl::StatusOr<std::unique_ptr<RocksReplica>> Open(
      RocksKvStore::Options options, Clock& clock, std::function<std::string()> leader_address,
      std::function<void(absl::Duration)> on_append = nullptr);
  ~RocksReplica() override;

  std::optional<LogPlace> place() override;
  absl::Status Begin(const LogPosition& first) override;
  absl::Status Apply(const std::vector<LogRow>& rows) override;
  absl::Status Drop() override;
  absl::Status NameLog(uint64_t genesis) override;
  absl::Status SetAside() override;
  std::string LeaderRecord() override;
  void StartLeading(std::shared_ptr<LeaderLog> log, absl::Duration clock_age,
                    std::function<void(absl::Status)> started) override;
  void WriteHandover(Closure done) override;
  void StopLeading() override;
  absl::Time store_time() override;
  absl::Status MakeCheckpoint(const std::string& folder) override;
  absl::StatusOr<CheckpointFacts> ReadCheckpoint(const std::string& folder) override;
  absl::Status Adopt(const std::string& folder) override;
  std::string scratch() const override { return options_.data_dir; }

  // Before the process ends: writes that wait for room on the disk fail. Any thread.
  void EndWaits() ABSL_LOCKS_EXCLUDED(mu_);

  // The store while it leads; otherwise null.
  std::shared_ptr<RocksKvStore> store() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  class Appender;
  RocksReplica(RocksKvStore::Options options, Clock& clock,
               std::function<std::string()> leader_address,
               std::function<void(absl::Duration)> on_append);
  absl::Status OpenDatabase() ABSL_LOCKS_EXCLUDED(mu_);
  // Renames db/, which is closed, to `name` and as many "+" as make it new.
  absl::Status Rename(std::string name);
  void CloseStore(bool hand_over) ABSL_LOCKS_EXCLUDED(mu_);
  std::string path() const;

  const RocksKvStore::Options options_;
  Clock& clock_;
  const std::function<std::string()> leader_address_;
  const std::function<void(absl::Duration)> on_append_;

  std::unique_ptr<RocksDatabase> database_;  // null while it leads
  std::unique_ptr<Appender> appender_;       // the log that the store writes
  bool loss_accepted_ = false;               // this process has led

  mutable absl::Mutex mu_;
  std::shared_ptr<RocksKvStore> store_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<RoomWait> room_ ABSL_GUARDED_BY(mu_);  // that of the database in use
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_REPLICA_ROCKS_REPLICA_H_
