// PlanLaunches: decides about the due launch records of one schedule. LaunchBatch: the commit that
// carries out these decisions.

#ifndef SERVICES_EMITTER_LAUNCHES_LAUNCH_PLAN_H_
#define SERVICES_EMITTER_LAUNCHES_LAUNCH_PLAN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/uid.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/layout.h"
#include "common/records/record_cache.h"
#include "common/records/row_judge.h"
#include "common/storage/children_table.h"
#include "common/storage/occurrence_rows.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement::emitter {

// PlanLaunches: decides about the due launch records of one schedule (docs/time.md, "Overlap
// between runs").
//
// Pure.

// The verdict of the schedule's state and definition on an occurrence, without regard to runs.
struct DueLaunch {
  enum class Wish : uint8_t {
    kLaunch,
    kWait,  // the schedule is paused, or may want it again
    kSkip,  // for `reason`
    kDrop,  // another record stands for it, or it has been launched
  };
  Wish wish = Wish::kLaunch;
  std::string reason = {};
  absl::Time nominal_time;
};

// The row by which an occurrence is judged as if it had been launched already.
storage::v1::EventRecord RowToJudge(const LaunchKey& key, const storage::v1::LaunchRecord& record);
// `judged`, of this row, is not kFetch. An occurrence whose run would be cancelled at once is
// skipped; what is superseded waits until SupersededEndsAt.
DueLaunch Judged(const RowJudgement& judged, const storage::v1::EventRecord& row, absl::Time now);

struct OverlapState {
  storage::v1::RunOverlapKind policy = storage::v1::RUN_OVERLAP_KIND_ALLOW;  // as of now
  bool run_active = false;
  // Launches may come in another order than nominal times: of the version that launches, or of
  // records that a former one has left.
  bool out_of_order = false;
};

struct LaunchDecision {
  enum class Kind : uint8_t {
    kLaunch,          // whether or not a run is active
    kLaunchAlone,     // no run is active
    kCancelPrevious,  // launched; runs with an earlier nominal time are cancelled
    kWait,
    kSkip,         // for `reason`
    kSkipOverlap,  // a run is active
    kSkipBehind,   // a run is active, and one of these records waits for its end (`behind`)
    kDrop,
  };
  Kind kind = Kind::kWait;
  std::string reason = {};
  size_t behind = 0;  // its index

  friend bool operator==(const LaunchDecision&, const LaunchDecision&) = default;
};

// One decision for each of `due`, which are in order of launch. Each assumes that those before it
// have been carried out.
std::vector<LaunchDecision> PlanLaunches(const std::vector<DueLaunch>& due,
                                         const OverlapState& state);

// A launch record as it was seen.
struct Launch {
  LaunchKey key;
  std::string bytes;
  storage::v1::LaunchRecord record;
  kv::CommitSeq seq = 0;
  bool has_run = false;  // it has been launched: the record is left over
};

// LaunchBatch: the commit that carries out decisions about launch records.
//
// Each decision is a group with its own conditions: the partition's lease, the record and the
// schedule's state as they were judged, no run of the occurrence yet, and the active runs as they
// were assumed. If an assumption was wrong, the store refuses the group and the loop decides again.
// A row of `waiting` never overwrites another row, such as one that a former version left there,
// because the token manager would know only the other row.
//
// Pure: adds to a batch, decides nothing.
class LaunchBatch {
 public:
  enum class Check : uint8_t {
    kLease,
    kRecord,
    kState,
    kRun,
    kNoneActive,
    kActive,
    kWaiting,
    kRow
  };

  struct Decided {
    LaunchKey key;
    kv::CommitSeq seq = 0;  // at which the record was seen
    LaunchDecision decision;
    std::string waiting = {};        // only for kSkipBehind: the key of the record that waits
    std::vector<Check> checks = {};  // the conditions of its group
  };

  // The facts on which the decisions about a schedule are based.
  struct Basis {
    kv::Condition lease = {};
    std::shared_ptr<const CachedState> state = nullptr;
    // The definition of the state's version; may be null if nothing is launched.
    std::shared_ptr<const CachedDefinition> definition = nullptr;
    std::string active = {};  // the key of the mark of an active run; empty if none was assumed
  };

  LaunchBatch(const kv::Layout& layout, absl::Time now) : layout_(layout), now_(now) {}

  // `decisions` are what PlanLaunches gave for these records of one schedule. Decisions to wait add
  // nothing.
  void Add(const Basis& basis, const std::vector<const Launch*>& due,
           const std::vector<LaunchDecision>& decisions);

  size_t groups() const { return commit_.groups.size(); }
  size_t mutations() const { return mutations_; }

  // Once. By group, in order.
  kv::Commit TakeCommit() { return std::move(commit_); }
  std::vector<Decided> TakeDecided() { return std::move(decided_); }

 private:
  void AddRecord(const Launch& launch, const LaunchDecision& decision, kv::Group& group,
                 Decided& decided);
  void AddOutcome(const Basis& basis, const Launch& launch, const LaunchDecision& decision,
                  kv::Group& group, Decided& decided);

  const kv::Layout& layout_;
  const absl::Time now_;
  kv::Commit commit_;
  std::vector<Decided> decided_;
  size_t mutations_ = 0;
  // Conditions of the schedule that is being added, as they will hold after the groups before.
  kv::Condition state_;
  std::string state_bytes_;
  std::string active_;
};

// The key of the mark of the run that this record becomes.
std::string MarkOf(const LaunchKey& key);
// All marks of a schedule have this prefix.
std::string ActiveRunsOf(uint16_t partition, const Uid& uid);

}  // namespace escapement::emitter

#endif  // SERVICES_EMITTER_LAUNCHES_LAUNCH_PLAN_H_
