// TakeoverTimer: when a replica that follows may try to lead.
//
// A replica tries if the log's end and its leader have not changed for kSilenceMax of the replica's
// own elapsed time. A leader that lives appends at least every kBeatInterval, so the end moves. A
// leader answers reads only while its last acknowledged append began less than kLeaseMax ago
// (LeaderLease), so it answers nothing any more when another one takes over. If a leader has said
// that it gives up (RecordKind::kHandover), there is nothing to wait for.
//
// That no commit is lost or decided twice rests on the log alone, never on this timer.
//
// Pure. Threads: one at a time.

#ifndef COMMON_KV_REPLICA_TAKEOVER_TIMER_H_
#define COMMON_KV_REPLICA_TAKEOVER_TIMER_H_

#include <optional>

#include "absl/time/time.h"
#include "common/kv/log/shared_log.h"
#include "common/kv/replica/log_record.h"

namespace escapement::kv {

inline constexpr absl::Duration kSilenceMax = absl::Seconds(3);
// The monotonic clocks of two machines may differ by much less than this over kSilenceMax.
inline constexpr absl::Duration kLeaseMax = absl::Milliseconds(2800);
inline constexpr absl::Duration kBeatInterval = absl::Milliseconds(500);

class TakeoverTimer {
 public:
  // A state that arrived at `now` (Clock::Elapsed).
  void Observe(const LogState& state, absl::Duration now);

  // The log could not be read. A silence that is not observed does not count: after an outage of
  // the log's engine the leader needs time to come back.
  void ObserveNothing() { seen_.reset(); }

  // When the log's end was first observed. The rows up to it were written before this. Failed reads
  // and new leaders without rows do not change that, so store time does not fall behind by them.
  absl::Duration end_known_since() const { return end_known_since_; }

  // True if a replica whose copy is at `place` may try to lead over the observed state.
  bool MayLead(const LogPlace& place, absl::Duration now) const;

  // This process has led the term and gave it up. It leaves the first try to others.
  void NoteGivenUp(uint64_t epoch) { given_up_ = epoch; }

 private:
  std::optional<LogState> seen_;
  absl::Duration silent_since_;
  std::optional<LogPosition> end_;
  absl::Duration end_known_since_;
  uint64_t given_up_ = 0;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_REPLICA_TAKEOVER_TIMER_H_
