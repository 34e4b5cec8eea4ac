// ReplicaProcess: one process of a replicated store, for tests: its folder, its clock, its access
// to the log, and the store.
//
// The clock can jump, so that a test need not wait for a silence. All processes of a test share an
// engine of the log.

#ifndef TESTS_CONFORMANCE_RIGS_REPLICA_RIG_H_
#define TESTS_CONFORMANCE_RIGS_REPLICA_RIG_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/kv/replica/replicated_kv_store.h"
#include "common/kv/replica/testing/threaded_log.h"
#include "common/runtime/system_runtime.h"
#include "tests/conformance/rigs/kv_rig.h"

namespace escapement::kv {

// The machine's threads, with a clock of its own.
class JumpingRuntime final : public SystemRuntime {
 public:
  // `boot_id` is the machine's; empty: the real one.
  explicit JumpingRuntime(std::string boot_id = {}) : clock_(SystemRuntime::clock(), boot_id) {}
  Clock& clock() override { return clock_; }
  // As if so much time had passed.
  void Jump(absl::Duration by) { clock_.Add(by, by); }
  void SetWall(absl::Duration by) { clock_.Add(absl::ZeroDuration(), by); }

 private:
  class JumpingClock final : public Clock {
   public:
    JumpingClock(Clock& real, std::string boot_id)
        : real_(real), boot_id_(boot_id.empty() ? real.BootId() : std::move(boot_id)) {}
    absl::Duration Elapsed() const override {
      return real_.Elapsed() + absl::Nanoseconds(elapsed_.load());
    }
    absl::Time WallNow() const override {
      return real_.WallNow() + absl::Nanoseconds(wall_.load());
    }
    std::string BootId() const override { return boot_id_; }
    void Add(absl::Duration elapsed, absl::Duration wall) {
      elapsed_ += absl::ToInt64Nanoseconds(elapsed);
      wall_ += absl::ToInt64Nanoseconds(wall);
    }

   private:
    Clock& real_;
    const std::string boot_id_;
    std::atomic<int64_t> elapsed_{0};
    std::atomic<int64_t> wall_{0};
  };
  JumpingClock clock_;
};

class ReplicaProcess final : public KvRig {
 public:
  // With its own folder. `name` is its address.
  ReplicaProcess(std::shared_ptr<SharedLog> log, std::string name, RigOptions options = {},
                 std::string boot_id = {}, ReplicaLoop::Options loop = {});
  ~ReplicaProcess() override;

  KvStore& store() override { return *store_; }
  ReplicatedKvStore& replicated() { return *store_; }
  JumpingRuntime& runtime() { return runtime_; }
  const std::string& folder() const { return folder_; }
  // For its next life.
  RigOptions& options() { return options_; }

  // Hands over, ends, and begins again over the same folder. Returns once it leads.
  void Restart() override;
  // Ends at once, as kill -9 would: nothing is handed over.
  void Kill() { store_.reset(); }
  void Start();
  void DeleteFolder();
  void HandOver();

  // Waits until the store has this role.
  void Await(ReplicaRole role);
  // Waits until it leads. If no leader has handed over, jump the clock first.
  void AwaitLead() { Await(ReplicaRole::kLeader); }

 private:
  struct Role {
    absl::Mutex mu;
    ReplicaRole role = ReplicaRole::kStarting;
  };
  const std::shared_ptr<SharedLog> log_;
  const std::string name_;
  RigOptions options_;
  const ReplicaLoop::Options loop_;
  JumpingRuntime runtime_;
  std::string folder_;
  std::shared_ptr<Role> role_;
  int lives_ = 0;
  std::unique_ptr<ReplicatedKvStore> store_;
};

// For the conformance suites: a store that leads, over a log in memory.
std::unique_ptr<KvRig> NewReplicatedRig(RigOptions options);
// Over a log in PostgreSQL. Call it from the main thread.
std::unique_ptr<KvRig> NewPgReplicatedRig(RigOptions options);

}  // namespace escapement::kv

#endif  // TESTS_CONFORMANCE_RIGS_REPLICA_RIG_H_
