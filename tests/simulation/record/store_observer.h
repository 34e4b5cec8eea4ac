// StoreObserver: stands between a service and the store. It notes which commits were answered as
// durable, for check_acknowledged, which state each read showed, for check_reads, and which ends of
// claims got no answer.
//
// Threads: the world's.

#ifndef TESTS_SIMULATION_RECORD_STORE_OBSERVER_H_
#define TESTS_SIMULATION_RECORD_STORE_OBSERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/kv/forwarding_kv_store.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {

// All observers of one run write here.
struct StoreObservations {
  std::vector<Acknowledged> acknowledged;
  std::vector<ReadSeen> reads;
  std::vector<UnknownEnd> unknown_ends;
};

// A hash over which groups applied.
uint64_t HashOfVerdicts(const std::vector<kv::Verdict>& verdicts);

class StoreObserver final : public kv::ForwardingKvStore {
 public:
  // `inner` and `out` outlive it, and `out` also outlives the callbacks of `inner`. `now` returns
  // true time.
  StoreObserver(kv::KvStore& inner, std::string process, std::function<absl::Time()> now,
                StoreObservations* out);
  // Counts every open commit as unanswered.
  ~StoreObserver() override;

  using KvStore::Commit;
  void Commit(std::shared_ptr<const kv::CommitRequest> request,
              Callback<kv::CommitResult> done) override;
  void MultiGet(std::vector<kv::Key> keys, Callback<kv::GetResult> done) override;
  void Scan(kv::ScanRequest request, Callback<kv::ScanResult> done) override;

 private:
  template <typename T>
  Callback<T> Noted(Callback<T> done);
  struct State;
  const std::shared_ptr<State> state_;
};

// Converts between true time and the store's time. They differ where the store's clock is slewed or
// an operator confirms a leap. Events are due by the store's time.
//
// Pure.

class StoreTimes {
 public:
  // `commits` outlives it.
  explicit StoreTimes(const std::vector<Commit>& commits) : commits_(commits) {}

  // Bounds of the store's time at the true instant `t`. Low is the stamp of the last commit that
  // was durable by then. High is the stamp of the first commit that was decided after it.
  absl::Time Low(absl::Time t) const;
  absl::Time High(absl::Time t) const;
  // A true instant before which the store's clock did not show `store_time`.
  absl::Time NotBefore(absl::Time store_time) const;
  // A true instant by which it did, as far as commits show. Between two commits the store's time is
  // taken to run as true time does.
  absl::Time ShownBy(absl::Time store_time) const;

 private:
  size_t FirstAfter(absl::Time t) const;

  const std::vector<Commit>& commits_;
};

// The history converted to the store's time, for checks of what is due. Users' calls took effect
// somewhere between [called, answered], and receipts came no later than `time`. So "early" means
// before its time by the store's clock.
History InStoreTime(const History& history);

// The history with launch times and stamps converted to true time, for checks of what happened.
History InTrueTime(const History& history);

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_RECORD_STORE_OBSERVER_H_
