// WaitingTally: counts the events of a policy that are due and wait, schedule by schedule, from
// their rows in `waiting`. Pure.
//
// An event is due when its row is, when the window that the row is in has begun, and, in an even
// window, when its place in it has come (docs/design/throttling.md, "Windows").

#ifndef SERVICES_MASTER_POLICIES_POLICY_WAITERS_H_
#define SERVICES_MASTER_POLICIES_POLICY_WAITERS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/time/time.h"
#include "common/base/uid.h"
#include "common/storage/waiting_table.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement::master {

// The number of one row's events that are due at `now`, and since when the first one is due.
struct DueEvents {
  uint64_t count = 0;
  absl::Time oldest = absl::InfiniteFuture();
};
DueEvents DueOf(const WaitingKey& key, const storage::v1::EventRecord& row, absl::Time now);

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

#endif  // SERVICES_MASTER_POLICIES_POLICY_WAITERS_H_
