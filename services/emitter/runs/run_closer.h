// RunCloser: ends runs when all their events have ended. Also the event that tells a schedule's
// on_complete target of the end (AddRunEndEvent), and how the events have ended (RunCounts).

#ifndef SERVICES_EMITTER_RUNS_RUN_CLOSER_H_
#define SERVICES_EMITTER_RUNS_RUN_CLOSER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/kv_store.h"
#include "common/kv/layout.h"
#include "common/runtime/runtime.h"
#include "common/storage/event_table.h"
#include "common/storage/run_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/emitter/base/metrics.h"
#include "services/emitter/base/partition_leases.h"

namespace escapement::emitter {

// The event that tells a schedule's on_complete target that a run has ended.
//
// It is a one-off event with the client-chosen id "run-ended-" + 32 hex digits, a hash of what
// identifies the run: a run has at most one. It is due at once, with priority 5. Its payload:
//
//   {"run":"tenants/t/schedules/s/runs/o","nominal_time":"2026-11-21T03:00:00Z",
//    "complete_time":"2026-11-21T03:10:00.25Z","event_count":10,
//    "succeeded":7,"failed":1,"expired":1,"skipped":1,"cancelled":0,
//    "never_started":2,"tokens":9,"window":"LATE","window_close_time":"2026-11-21T03:09:00Z",
//    "slowest":[{"event":"tenants/t/schedules/s/runs/o/events/4","seconds":12.5}]}
//
// never_started, tokens and slowest are as in v1::RunReport, window is a v1::RunWindow.State. Runs
// without a window have no window and no window_close_time. Runs of one event have no slowest.
//
// Pure.

// How the events of a run, or of one of its parts, have ended, and the numbers of its report. The
// numbers of one part are modulo 2^64: the masters' part falls below zero by redrives
// (run_table.h).
struct RunCounts {
  uint64_t succeeded = 0;
  uint64_t failed = 0;
  uint64_t expired = 0;
  uint64_t skipped = 0;
  uint64_t cancelled = 0;
  uint64_t never_started = 0;
  uint64_t tokens = 0;

  static RunCounts Of(const storage::v1::RunPartRecord& part);
  uint64_t ended() const { return succeeded + failed + expired + skipped + cancelled; }
  RunCounts& operator+=(const RunCounts& other);
  RunCounts& operator-=(const RunCounts& other);
};

// The sum of a run's parts.
struct RunSum {
  RunCounts counts;
  // Only first_grant_time_micros, last_end_time_micros and slowest. No part takes them back, so
  // they need not be known for each part.
  storage::v1::RunPartRecord rest;

  // Replaces what `former` had added by the part.
  void Replace(RunCounts& former, const storage::v1::RunPartRecord& part);
  WindowProgress ProgressOf(const storage::v1::RunRecord& record) const;
};

std::string RunEndEventId(absl::string_view tenant, const RunKey& run);

// `record` has its complete_time.
std::string RunEndPayload(const storage::v1::RunRecord& record, absl::string_view occurrence,
                          const RunSum& sum);

// Adds the event's rows to `group`, with one condition, the last: that no event has its id. How it
// is delivered, `interned` for events that are due now, is stored by a group before (InternGroup).
void AddRunEndEvent(const storage::v1::RunRecord& record, const RunKey& run, const RunSum& sum,
                    const InternedDelivery& interned, uint32_t queue_shards, absl::Time now,
                    kv::Group& group);

// RunCloser: ends runs that have a record (of more than one event, or of a schedule with
// on_complete) when all their events have ended.
//
// It knows the active runs of its partitions by their marks in `checkpoints`, and adds up the parts
// of each run in `run_parts`. It reads both once when it takes a partition and watches them from
// then on. One handler writes a part and only raises it, so the larger of two versions is the newer
// one.
//
// When the sum reaches n, one group under the partition's lease sets the run's complete_time and
// removes the mark. If the run's definition has on_complete, the group also puts the event that
// reports the end, unless the definition wants that only after failures and there was none. The
// definition is read first; if it was deleted with its schedule, no event is sent.
//
// JudgeWindows counts the active runs that do not keep to their windows.
//
// Threads: one executor; all methods and callbacks run there.
class RunCloser : public std::enable_shared_from_this<RunCloser> {
 public:
  struct Options {
    kv::Layout layout;
    PartitionLeases leases;
  };

  // `client` and `metrics` outlive it; made by make_shared.
  RunCloser(kv::KvClient& client, std::shared_ptr<Executor> executor, EmitterMetrics& metrics,
            Options options);

  // Opens the watches.
  void Start();
  void AddPartition(uint32_t partition);
  void DropPartition(uint32_t partition);
  void Stop();
  // Judges the next active runs with a window, at most kWindowsJudgedMax. The gauge is set each
  // time that all have been judged. Runs above kActiveRunsMax do not count.
  void JudgeWindows();

  size_t active_runs() const { return runs_.size(); }

 private:
  struct Part {
    RunCounts counts;
    kv::CommitSeq seq = 0;  // as of which commit
  };
  // Keys of runs: as in `runs` (uid, occurrence), which is also the prefix of the run's parts.
  struct Run {
    uint32_t partition = 0;
    uint64_t event_count = 0;   // 0: not read yet
    std::string record;         // RunRecord as read
    kv::CommitSeq read_at = 0;  // as of which commit
    // Key of the part → its events that have ended.
    std::map<std::string, Part, std::less<>> parts;
    RunSum sum;  // the sum of the parts
    bool closing = false;
    bool to_tell = false;         // has on_complete, and its target is not known yet
    bool reading_target = false;  // or about to
    // How the end event is delivered, once that is known.
    std::shared_ptr<const storage::v1::DeliveryRecord> on_complete;
    bool only_failures = false;  // the event is put only if an event of the run failed or expired
    bool Tells() const {
      return on_complete != nullptr &&
             (!only_failures || sum.counts.failed + sum.counts.expired > 0);
    }
  };

  // A commit that closes runs.
  struct Closing {
    struct Closed {
      std::string key;   // the run's key
      size_t group = 0;  // index in the commit
      bool told = false;
    };
    kv::Commit commit;
    std::vector<Closed> runs;
    std::set<Uid> interned;
  };

  void Watch();
  void OnMarks(const kv::WatchBatch& batch);
  void OnParts(const kv::WatchBatch& batch);
  void OnLagged();
  void ReadMarks(uint32_t partition, std::string begin);
  void Track(uint32_t partition, std::string run_key);
  void OnMark(uint32_t partition, const std::string& run_key);
  void ReadNext();
  void ReadRun(std::string run_key);
  void ReadParts(std::string run_key, std::string begin);
  void ReadEnded();
  void Add(Run& run, absl::string_view part_key, absl::string_view value, kv::CommitSeq seq);
  void CloseIfEnded(const std::string& run_key, Run& run);
  void CloseSoon(absl::Duration delay);
  void CloseEnded();
  void AddGroup(const std::string& key, const RunKey& run_key, storage::v1::RunRecord record,
                const Run& run, Closing& closing);
  void OnClosed(const std::vector<Closing::Closed>& runs,
                const absl::StatusOr<kv::CommitResult>& result);
  void ReadTargets();
  void OnTarget(const std::string& run_key, absl::StatusOr<kv::GetResult> result);
  void Forget(const std::string& run_key);

  kv::KvClient& client_;
  const std::shared_ptr<Executor> executor_;
  EmitterMetrics& metrics_;
  const Options options_;
  bool stopped_ = false;
  std::set<uint32_t> partitions_;
  std::unique_ptr<kv::Watch> marks_watch_, parts_watch_;
  std::map<std::string, Run, std::less<>> runs_;
  std::set<std::string> windowed_;   // runs of runs_ that have a window
  std::string judged_to_;            // the last one of windowed_ that was judged; empty: none yet
  size_t at_risk_ = 0;               // how many did not keep to it since the gauge was set
  bool overflowed_ = false;          // marks were left out for kActiveRunsMax
  std::deque<std::string> to_read_;  // runs whose record and parts are to be read
  size_t reading_ = 0;
  std::set<std::string> ended_;  // runs to be closed
  bool close_timer_ = false;
  std::deque<std::string> to_tell_;  // runs whose definition is to be read
  size_t reading_targets_ = 0;
};

}  // namespace escapement::emitter

#endif  // SERVICES_EMITTER_RUNS_RUN_CLOSER_H_
