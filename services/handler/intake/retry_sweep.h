// RetrySweep: ends retries that wait for a schedule that was deleted, or for a run that was
// cancelled, now rather than when their backoff has passed.
//
// When a state says so, the shard's retry lane is read once from its beginning, keys only; the rows
// of that schedule are read, judged, and ended. Passes follow one another at intervals: at least a
// second, and ten times what the pass before took. All schedules noted since then share a pass.
//
// Threads: one, the handler's executor.

#ifndef SERVICES_HANDLER_INTAKE_RETRY_SWEEP_H_
#define SERVICES_HANDLER_INTAKE_RETRY_SWEEP_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "services/handler/claims/claim_loop.h"
#include "services/handler/shard_state.h"

namespace escapement::handler {

class RetrySweep {
 public:
  // `claims` outlives it.
  RetrySweep(ShardState& state, ClaimLoop& claims) : state_(state), claims_(claims) {}

  // Rows of this schedule are to end before they are due.
  void Note(const Uid& schedule) { noted_.insert(schedule); }

  void Step();

  // No further pass is begun, and the present one goes no further.
  void Stop() { stopped_ = true; }

 private:
  void Scan(std::string begin);
  void OnKeys(const kv::ScanResult& keys);
  void ReadRows(std::vector<kv::Key> rows, std::string next);
  // `next`: where the pass goes on; empty: it is over.
  void GoOn(const std::string& next);

  ShardState& state_;
  ClaimLoop& claims_;
  absl::flat_hash_set<Uid> noted_;                        // for the next pass
  absl::flat_hash_set<Uid> sweeping_;                     // empty: no pass is under way
  absl::Duration begun_ = absl::ZeroDuration();           // Clock::Elapsed
  absl::Duration next_pass_ = -absl::InfiniteDuration();  // Clock::Elapsed: not before
  bool stopped_ = false;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_INTAKE_RETRY_SWEEP_H_
