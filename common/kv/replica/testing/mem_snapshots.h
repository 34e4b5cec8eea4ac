// MemSnapshots: the snapshots of a MemReplica. It does what SnapshotKeeper does, step by step on
// one executor. A snapshot has one file for each column family that is not empty.
//
// Threads: the simulation's. After Stop no callback runs.

#ifndef COMMON_KV_REPLICA_TESTING_MEM_SNAPSHOTS_H_
#define COMMON_KV_REPLICA_TESTING_MEM_SNAPSHOTS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/kv/log/shared_log.h"
#include "common/kv/replica/replica_snapshots.h"
#include "common/kv/replica/testing/mem_replica.h"
#include "common/runtime/runtime.h"

namespace escapement::kv {

class MemSnapshots final : public ReplicaSnapshots {
 public:
  // The arguments must outlive it.
  MemSnapshots(Runtime& runtime, SharedLog& log, MemReplica& copy);
  ~MemSnapshots() override { Stop(); }

  void Find(std::function<void(absl::StatusOr<Found>)> done) override;
  void Upload(std::string folder,
              std::function<void(absl::StatusOr<CheckpointFacts>)> done) override;
  void Restore(std::string folder, std::function<void(absl::StatusOr<Found>)> done) override;
  void Stop() override { executor_->Stop(); }

  // Since the start.
  uint64_t uploaded() const { return uploaded_; }
  uint64_t restored() const { return restored_; }

 private:
  struct Upward;
  struct Downward;
  void SendPart(const std::shared_ptr<Upward>& work);
  void Publish(const std::shared_ptr<Upward>& work);
  void Trim(const std::shared_ptr<Upward>& work);
  void Finish(const std::shared_ptr<Upward>& work, const absl::Status& status);
  void TryNext(const std::shared_ptr<Downward>& work);
  void FetchPart(const std::shared_ptr<Downward>& work);
  void OnWhole(const std::shared_ptr<Downward>& work);
  void OnFailed(const std::shared_ptr<Downward>& work, const absl::Status& status);

  // A callback that runs on the executor.
  template <typename T>
  std::function<void(T)> Here(std::function<void(T)> callback) {
    return [executor = executor_, callback = std::move(callback)](T value) {
      executor->Post(
          [callback, value = std::move(value)]() mutable { callback(std::move(value)); });
    };
  }

  SharedLog& log_;
  MemReplica& copy_;
  const std::shared_ptr<Executor> executor_;
  uint64_t uploaded_ = 0;
  uint64_t restored_ = 0;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_REPLICA_TESTING_MEM_SNAPSHOTS_H_
