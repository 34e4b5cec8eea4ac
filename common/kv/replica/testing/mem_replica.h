// MemReplica: a replica's copy of the state in memory, for the simulation.
//
// The folder (a MemDisk) may outlive the replica: then a later one over it begins where this one
// ended, as after kill -9. Checkpoints are kept by the name of their folder and die with the
// replica.
//
// Threads: the simulation's.

#ifndef COMMON_KV_REPLICA_TESTING_MEM_REPLICA_H_
#define COMMON_KV_REPLICA_TESTING_MEM_REPLICA_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/kv/layout.h"
#include "common/kv/memory/mem_kv_store.h"
#include "common/kv/replica/replica_copy.h"
#include "common/kv/replica/testing/mem_leading_store.h"
#include "common/runtime/runtime.h"

namespace escapement::kv {

class MemReplica final : public ReplicaCopy {
 public:
  struct Options {
    MemLeadingStore::Options store;
    Layout layout;  // for the first store of a log
    // Plants a fault: a checkpoint misses what was written to some families since the one before.
    bool tears_checkpoints = false;
  };

  // `runtime` must outlive it.
  MemReplica(Runtime& runtime, Options options, std::shared_ptr<MemDisk> folder);
  ~MemReplica() override;

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
  std::string scratch() const override { return "memory"; }

  // The contents of a checkpoint's folder; makes an empty one if there is none.
  MemDisk& checkpoint(const std::string& folder) { return checkpoints_[folder]; }
  void DeleteCheckpoint(const std::string& folder) { checkpoints_.erase(folder); }

  // The store while it leads; otherwise null.
  std::shared_ptr<MemLeadingStore> store() const { return serving_ ? store_ : nullptr; }
  // How often it has begun to serve.
  uint64_t terms() const { return terms_; }

 private:
  Runtime& runtime_;
  const Options options_;
  const std::shared_ptr<MemDisk> disk_;
  std::map<std::string, MemDisk> checkpoints_;
  MemDisk torn_;  // the copy at the last checkpoint; only for tears_checkpoints
  std::shared_ptr<MemLeadingStore> store_;
  bool serving_ = false;  // from the first acknowledged batch to the end or the handover
  uint64_t terms_ = 0;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_REPLICA_TESTING_MEM_REPLICA_H_
