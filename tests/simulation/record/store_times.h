// True time and the store's time, which part where the store's clock is slewed or confirmed: what
// is due is due by the store's.
//
// Pure.

#ifndef TESTS_SIMULATION_RECORD_STORE_TIMES_H_
#define TESTS_SIMULATION_RECORD_STORE_TIMES_H_

#include <vector>

#include "absl/time/time.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {

class StoreTimes {
 public:
  // Which outlive it.
  explicit StoreTimes(const std::vector<Commit>& commits) : commits_(commits) {}

  // The store's time at the true instant lies between these: the stamp of the last commit that was
  // durable by then, and that of the first one that was decided after it.
  absl::Time Low(absl::Time t) const;
  absl::Time High(absl::Time t) const;
  // The true instant before which the store's clock did not show this.
  absl::Time NotBefore(absl::Time store_time) const;
  // … by which it did, as far as commits tell: between two of them it goes as true time does.
  absl::Time ShownBy(absl::Time store_time) const;

 private:
  size_t FirstAfter(absl::Time t) const;

  const std::vector<Commit>& commits_;
};

// The same history told in the store's time, as far as checks of what is due look at it: users'
// calls took effect somewhere between [called, answered], receipts came no later than `time`. So
// "early" means: before its time by the store's clock.
History InStoreTime(const History& history);

// The same with launch times and stamps told in true time, as far as checks of what happened look
// at them.
History InTrueTime(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_RECORD_STORE_TIMES_H_
