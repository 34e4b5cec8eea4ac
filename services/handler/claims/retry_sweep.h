// RetrySweep: ends waiting retries early when their schedule is deleted or their run is cancelled.
//
// A pass reads the keys of the shard's retry lane once, then reads, judges and ends the rows of the
// noted schedules. Two passes are at least a second apart, and ten times the duration of the
// earlier one. All schedules noted since the last pass share the next.
//
// Threads: one, the handler's executor.

#ifndef SERVICES_HANDLER_CLAIMS_RETRY_SWEEP_H_
#define SERVICES_HANDLER_CLAIMS_RETRY_SWEEP_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "services/handler/claims/claim_loop.h"
#include "services/handler/shard/shard_state.h"

namespace escapement::handler {

class RetrySweep {
 public:
  // `state` and `claims` must outlive it.
  RetrySweep(QueueShardState& state, ClaimLoop& claims) : state_(state), claims_(claims) {}

  // The next pass handles the retries of this schedule.
  void Note(const Uid& schedule) { noted_.insert(schedule); }

  void Step();

  // Ends the present pass, and begins no further one.
  void Stop() { stopped_ = true; }

 private:
  void Scan(std::string begin);
  void OnKeys(const kv::ScanResult& keys);
  void ReadRows(std::vector<kv::Key> rows, std::string next);
  // Continues the pass at key `next`; empty: ends the pass.
  void Continue(const std::string& next);

  QueueShardState& state_;
  ClaimLoop& claims_;
  absl::flat_hash_set<Uid> noted_;                        // for the next pass
  absl::flat_hash_set<Uid> sweeping_;                     // empty: no pass is under way
  absl::Duration begun_ = absl::ZeroDuration();           // Clock::Elapsed
  absl::Duration next_pass_ = -absl::InfiniteDuration();  // Clock::Elapsed: no pass before this
  bool stopped_ = false;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_CLAIMS_RETRY_SWEEP_H_
