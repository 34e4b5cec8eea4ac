// What is to be done with a queue row of a schedule: by the schedule's present state and
// definition.
//
// Both who claims rows of `events` (handler) and who grants rows of `waiting` (token manager) ask
// this, and carry the state it was judged by as a condition of what they do.

#ifndef COMMON_RECORDS_ROW_JUDGE_H_
#define COMMON_RECORDS_ROW_JUDGE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/uid.h"
#include "common/records/record_cache.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement {

// Reason of a skip: the schedule does not want the occurrence any more.
inline constexpr absl::string_view kSuperseded = "superseded";

struct RowJudgement {
  enum class Action : uint8_t {
    kSend,   // under `definition`, which has the version of `state`
    kFetch,  // something is not known yet; the cache has been asked for it
    kPark,   // the schedule is paused
    kSkip,   // it ends with `outcome`, for `reason`
    kDrop,   // another row stands for its events: it goes without an outcome
    kMove,   // it waits in the wrong place: `definition` has another policy or, with a policy,
             // another priority than the row (or none, or has one where the row has none)
  };
  Action action = Action::kFetch;
  // Of kSkip: skipped, or cancelled (its run is: CancelReason).
  storage::v1::OutcomeKind outcome = storage::v1::OUTCOME_KIND_SKIPPED;
  std::string reason = {};
  // By which it was judged; set but for kFetch.
  std::shared_ptr<const CachedState> state = nullptr;
  // Of kSend and kMove.
  std::shared_ptr<const CachedDefinition> definition = nullptr;

  bool superseded() const { return action == Action::kSkip && reason == kSuperseded; }
};

// When a superseded row is to be ended: a second after its launch time. Until then a change may
// want the occurrence again, under the same identity; so long a change takes at most from its
// reading of the time to its commit.
absl::Time SupersededEndsAt(const storage::v1::EventRecord& row);

// `row` is of a schedule (its version is not 0).
RowJudgement JudgeScheduledRow(RecordCache& cache, const Uid& uid, absl::string_view occurrence,
                               const storage::v1::EventRecord& row);

}  // namespace escapement

#endif  // COMMON_RECORDS_ROW_JUDGE_H_
