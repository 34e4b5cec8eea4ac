// EmissionLoop: keeps the partitions of this instance emitted ahead of time. InUseSweep: deletes
// their unused LaunchExpressions.

#ifndef SERVICES_EMITTER_EMISSION_EMISSION_LOOP_H_
#define SERVICES_EMITTER_EMISSION_EMISSION_LOOP_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/layout.h"
#include "common/runtime/runtime.h"
#include "services/emitter/base/metrics.h"
#include "services/emitter/base/partition_leases.h"
#include "services/emitter/emission/emission_plan.h"
#include "services/emitter/emission/emission_window.h"
#include "services/emitter/emission/shared_scan.h"

namespace escapement::emitter {

// InUseSweep: deletes the LaunchExpressions of a partition that have no children any more.
//
// Each call checks one expression, in turn. A commit is fenced by the partition's lease and by the
// absence of children. A schedule that uses the expression again writes its key again.
//
// Threads: one executor; all methods and callbacks run there. Made by make_shared; a sweep under
// way when the partition is lost ends without effect.
class InUseSweep : public std::enable_shared_from_this<InUseSweep> {
 public:
  // `client` outlives it.
  InUseSweep(kv::KvClient& client, std::shared_ptr<Executor> executor, PartitionLeases leases,
             uint16_t partition);

  void Step();

 private:
  void RemoveIfEmpty(std::string in_use_key);

  kv::KvClient& client_;
  const std::shared_ptr<Executor> executor_;
  const PartitionLeases leases_;
  const uint16_t partition_;
  std::string last_key_;  // the expression checked last; empty: start at the first
};

// EmissionLoop: keeps the partitions that this instance holds emitted ahead of time.
//
// Step() is one round:
//  1. it reads the checkpoints of new partitions;
//  2. it plans: one commit sets planned_to of all partitions to store time + ahead, each under its
//     lease, and writes emitted_to of windows in which nothing was due;
//  3. it checks whether the LaunchExpressions in use have changed;
//  4. every partition emits [emitted_to, planned_to) window after window (emission_window.h).
// A partition that fails is read again in the next round. The plan is written before the rows, so a
// change of a schedule knows how far its old version may have been emitted.
//
// When time-zone rules have changed (common/tzdata), the first owner with the new rules finishes
// the window that the old rules began. It notes how far they have emitted and continues from there.
// Commits under other rules do not apply.
//
// A partition that is behind catches up window after window, judged as emission_plan.h says.
//
// While the store's clock is held (kClockHoldKey), the loop plans nothing. It reads the key's value
// during a hold and, to notice one, while it has no partition.
//
// Threads: one executor; all methods and callbacks run there.
class EmissionLoop : public std::enable_shared_from_this<EmissionLoop> {
 public:
  struct Options {
    kv::Layout layout;
    absl::Duration ahead = absl::Seconds(5);
    PartitionLeases leases;
    std::string tz_rev = {};  // this process's rules; empty: none are asked for
    // The zones that the switch to tz_rev moved; null: none.
    std::shared_ptr<const tzdata::MovedZones> moved = nullptr;
    // Called again and again while the store's clock is held, with the wall clock minus store time
    // when the hold began. Called once with nullopt when the hold is over. May be empty.
    std::function<void(std::optional<absl::Duration> disagreement)> on_clock_hold = nullptr;
  };

  // `client` and `metrics` outlive the loop; the loop is made by make_shared.
  EmissionLoop(kv::KvClient& client, std::shared_ptr<Executor> executor, EmitterMetrics& metrics,
               Options options);

  // The lease of the partition was acquired (its state is read again) or is lost (its state is
  // dropped). Work under way ends without effect.
  void AddPartition(uint32_t partition);
  void DropPartition(uint32_t partition);

  // One round; returns at once. While the last one's plan has not been answered, the next plan
  // waits for that.
  void Step();

  // Drops all partitions; nothing begins any more.
  void Stop();

 private:
  struct Partition {
    uint64_t generation = 0;  // tells answers to a former state from those to this one
    bool reading = false;     // the checkpoints are being read
    bool loaded = false;
    absl::Time unread_since;  // while it is not loaded, in store time
    absl::Time planned_to;    // as stored
    absl::Time emitted_to;    // as stored
    std::optional<EmissionCursor> cursor;
    // Where the present rules have begun. Absent: nothing has moved, or the cursor is of the former
    // rules.
    std::optional<tzdata::PartitionFrontier> frontier;
    // Everything before it is emitted; after emitted_to if nothing was due since.
    absl::Time done_to;
    absl::Time readable_to;  // in_use is known for windows up to here
    std::shared_ptr<EmissionWindow> window;
    bool quiet = false;  // in the last window there was nothing to read
    bool in_use_known = false;
    std::string in_use_mark;
    InUse in_use;
    // These outlive Reload: what is read again is the same downtime's.
    std::shared_ptr<CatchUp> catch_up = std::make_shared<CatchUp>();
    std::shared_ptr<InUseSweep> sweep;
  };
  using Ids = std::vector<std::pair<uint32_t, uint64_t>>;  // partition and generation

  // Null if the partition is gone, or of another generation.
  Partition* Find(uint32_t partition, uint64_t generation);
  void Reload(uint32_t partition, Partition& state);

  void ReadCheckpoints();
  void OnCheckpoints(uint32_t partition, uint64_t generation, absl::StatusOr<kv::GetResult> result);
  void MakeCheckpoints(uint32_t partition, uint64_t generation);
  void MarkFrontier(uint32_t partition, uint64_t generation);
  // Then they are read again.
  void WriteCheckpoints(uint32_t partition, Partition& state, kv::Group group);
  std::shared_ptr<const RulesChange> RulesFor(const Partition& state) const;
  std::vector<kv::Condition> RulesFence() const;

  void Plan();
  kv::Group PlanGroup(uint32_t partition, const Partition& state, absl::Time target) const;
  void OnPlanned(Ids ids, std::vector<absl::Time> emitted, absl::Time target,
                 absl::StatusOr<kv::CommitResult> result);

  void ReadHold();
  void ShowHold(std::optional<absl::Duration> disagreement);
  void ReadMarks(Ids ids, absl::Time target);
  void OnMarks(Ids ids, absl::Time target, absl::StatusOr<kv::GetResult> result);
  void ReadInUse(uint32_t partition, uint64_t generation, absl::Time target, std::string mark,
                 std::string begin, std::shared_ptr<InUse> found);
  void Emit(uint32_t partition, Partition& state);
  void OnWindow(uint32_t partition, uint64_t generation, absl::Time end, absl::Status status,
                bool stored);

  void ShowProgress(absl::Time now);

  kv::KvClient& client_;
  const std::shared_ptr<Executor> executor_;
  EmitterMetrics& metrics_;
  const Options options_;
  const std::shared_ptr<SharedScan> shared_scan_;
  bool stopped_ = false;
  bool planning_ = false;    // a plan's commit is under way
  bool held_ = false;        // the store's clock holds emission
  bool plan_again_ = false;  // something became ready during the plan
  uint64_t steps_ = 0;
  uint64_t generations_ = 0;
  std::map<uint32_t, Partition> partitions_;
};

}  // namespace escapement::emitter

#endif  // SERVICES_EMITTER_EMISSION_EMISSION_LOOP_H_
