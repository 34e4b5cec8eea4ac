// The event that tells a schedule's on_complete target that a run has ended.
//
// It is a one-off event with the client-chosen id "run-ended-" + 32 hex digits, a hash of what
// identifies the run: a run has at most one. It is due at once, with priority 5. Its payload:
//
//   {"run":"tenants/t/schedules/s/runs/o","nominal_time":"2026-11-21T03:00:00Z",
//    "complete_time":"2026-11-21T03:10:00.25Z","event_count":10,
//    "succeeded":7,"failed":1,"expired":1,"skipped":1,"cancelled":0}
//
// Pure.

#ifndef SERVICES_EMITTER_RUNS_RUN_END_EVENT_H_
#define SERVICES_EMITTER_RUNS_RUN_END_EVENT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "common/storage/event_table.h"
#include "common/storage/run_table.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement::emitter {

// How the events of a run, or of one of its parts, have ended. The numbers of one part are modulo
// 2^64: the masters' part falls below zero by redrives (run_table.h).
struct RunCounts {
  uint64_t succeeded = 0;
  uint64_t failed = 0;
  uint64_t expired = 0;
  uint64_t skipped = 0;
  uint64_t cancelled = 0;

  static RunCounts Of(const storage::v1::RunPartRecord& part);
  uint64_t ended() const { return succeeded + failed + expired + skipped + cancelled; }
  RunCounts& operator+=(const RunCounts& other);
  RunCounts& operator-=(const RunCounts& other);
};

std::string RunEndEventId(absl::string_view tenant, const RunKey& run);

// `record` has its complete_time.
std::string RunEndPayload(const storage::v1::RunRecord& record, absl::string_view occurrence,
                          const RunCounts& counts);

// Adds the event's rows to `group`, with one condition, the last: that no event has its id. How it
// is delivered, `interned` for events that are due now, is stored by a group before (InternGroup).
void AddRunEndEvent(const storage::v1::RunRecord& record, const RunKey& run,
                    const RunCounts& counts, const InternedDelivery& interned,
                    uint32_t queue_shards, absl::Time now, kv::Group& group);

}  // namespace escapement::emitter

#endif  // SERVICES_EMITTER_RUNS_RUN_END_EVENT_H_
