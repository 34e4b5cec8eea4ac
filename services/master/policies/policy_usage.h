// ReadPolicyUsage: the present use of a throttling policy. WaitingTally: counts its waiting events.

#ifndef SERVICES_MASTER_POLICIES_POLICY_USAGE_H_
#define SERVICES_MASTER_POLICIES_POLICY_USAGE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/uid.h"
#include "common/storage/waiting_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/policy_service.pb.h"
#include "services/master/base/master_context.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {

// ReadPolicyUsage: reads the present use of a throttling policy, the holders of its tokens, the
// waiting events and its last hour.
//
// The counts, the holders, the waiting events and the schedules' names are read one after the
// other, not in one snapshot. So a change during the read may show in some of them only.
// Bounded: a page of holders and kUsageRowsMax rows of waiting events. Only the first few rows of a
// schedule that are not due yet are read.
//
// Threads: runs on the context's executor.

// The holder to begin with: event `index` of a grant, or what follows it. All 0: the first.
struct HolderPosition {
  uint64_t epoch = 0;
  uint64_t number = 0;
  uint64_t index = 0;
};

struct PolicyUsageQuery {
  PolicyName name;
  size_t holders_max = 0;  // at least 1
  HolderPosition begin = {};
};

struct PolicyUsagePage {
  v1::PolicyUsage usage;  // without next_page_token
  bool more = false;
  HolderPosition next;  // if there are more holders
};

// NOT_FOUND if there is no such policy, UNAVAILABLE (NOT_READY) before the key of tokens is known.
void ReadPolicyUsage(MasterContext& context, PolicyUsageQuery query,
                     absl::AnyInvocable<void(absl::StatusOr<PolicyUsagePage>)> done);

// The number of one row's events that are due at `now`, and since when the first one is due.
struct DueEvents {
  uint64_t count = 0;
  absl::Time oldest = absl::InfiniteFuture();
};
// When the event with this index may go. Only for a throttle with pace_count.
int64_t PacedMicros(const storage::v1::ThrottleRecord& throttle, uint64_t index);
DueEvents DueOf(const WaitingKey& key, const storage::v1::EventRecord& row, absl::Time now);

// Reads the rows of `waiting` whose keys have this prefix, at most kUsageRowsMax: of each group
// those whose time has come, and a few behind them. `due`: DueOf. `what` names a row in errors. The
// answer is true if rows were left out.
using VisitWaiting = absl::AnyInvocable<void(
    const WaitingKey& key, const storage::v1::EventRecord& row, const DueEvents& due)>;
void ReadDueRows(MasterContext& context, std::string prefix, std::string what, absl::Time now,
                 VisitWaiting visit, absl::AnyInvocable<void(absl::StatusOr<bool>)> done);

// Sets the names of schedules. One without a state has no name any more.
using ScheduleNames = std::map<Uid, std::optional<ScheduleName>>;
void ReadScheduleNames(MasterContext& context, ScheduleNames schedules,
                       absl::AnyInvocable<void(absl::StatusOr<ScheduleNames>)> done);

// WaitingTally: counts the events of a policy that are due and wait, schedule by schedule, from
// their rows in `waiting`. Pure.
//
// An event is due when its row is due and the row's window has begun. In an even window its place
// in the window must also have come (docs/design/throttling.md, "Windows").
class WaitingTally {
 public:
  struct Waiter {
    Uid schedule;
    uint64_t count = 0;
    absl::Time oldest = absl::InfiniteFuture();
  };

  void Add(const Uid& schedule, const DueEvents& due);

  uint64_t count() const { return count_; }
  // InfiniteFuture if nothing waits.
  absl::Time oldest() const { return oldest_; }
  // Those with most events first, at most `limit`.
  std::vector<Waiter> Largest(size_t limit) const;

 private:
  uint64_t count_ = 0;
  absl::Time oldest_ = absl::InfiniteFuture();
  std::map<Uid, Waiter> waiters_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_POLICIES_POLICY_USAGE_H_
