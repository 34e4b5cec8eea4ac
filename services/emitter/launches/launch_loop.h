// Metrics of the launch loop.
//
// Threads: any.

#ifndef SERVICES_EMITTER_LAUNCHES_LAUNCH_LOOP_H_
#define SERVICES_EMITTER_LAUNCHES_LAUNCH_LOOP_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/layout.h"
#include "common/metrics/metrics.h"
#include "common/records/record_cache.h"
#include "common/runtime/runtime.h"
#include "services/emitter/base/options.h"
#include "services/emitter/base/partition_leases.h"
#include "services/emitter/launches/launch_memory.h"
#include "services/emitter/launches/launch_plan.h"
#include "services/emitter/launches/launch_watch.h"

namespace escapement::emitter {

struct LaunchMetrics {
  explicit LaunchMetrics(Metrics& metrics);

  Counter& launches;
  Counter& runs_cancelling;  // launches that cancelled an earlier run
  Counter& skipped_overlap;
  Counter& skipped_deleted;
  Counter& skipped_superseded;
  Counter& refused;  // decisions that the store refused because their facts had changed; made again
  Counter& records_broken;
  Gauge& waiting;  // launch records that are due and wait for the end of a run, or of a pause

  // The counter of `reason`: "deleted", "superseded", otherwise overlap.
  Counter& Skipped(absl::string_view reason);
};

// LaunchLoop: launches, skips or holds back the occurrences of schedules that have an overlap
// policy, when they are due (launch_plan.h).
//
// It knows the launch records of the partitions that this instance holds (launch_watch.h). It
// judges a schedule when its next record falls due, when its state changes, and when one of its
// runs ends. It is never early: store time decides. One commit is under way at a time; records that
// fall due during it go with the next one. The loop assumes from the watch which runs are active,
// and the store decides (launch_plan.h); the loop reads only after a refusal. If there are too
// many records for memory, some are evicted (launch_memory.h) and read again in time.
//
// Threads: one executor; all methods and callbacks run there.

class LaunchLoop : public std::enable_shared_from_this<LaunchLoop> {
 public:
  struct Options {
    kv::Layout layout;
    PartitionLeases leases;
    std::string tz_rev = {};  // as EmissionLoop's
    size_t launches_max = kLaunchesMax;
  };

  // `client` and `metrics` outlive it; made by make_shared.
  LaunchLoop(kv::KvClient& client, std::shared_ptr<Executor> executor, LaunchMetrics& metrics,
             Options options);
  ~LaunchLoop();

  // Opens the watches.
  void Start();
  // The lease of the partition was acquired / is lost.
  void AddPartition(uint32_t partition);
  void DropPartition(uint32_t partition);
  void Stop();

  size_t launches() const { return memory_.launches(); }

 private:
  // As long as the memory has records of it.
  struct Schedule {
    const LaunchMemory::Schedule* records = nullptr;  // in memory_
    std::optional<absl::Time> at;                     // when it is judged; as in agenda_
    std::string active;           // key of the mark of an active run, as far as known
    kv::CommitSeq marks_seq = 0;  // the last change of a mark that the watch reported
    bool busy = false;            // a commit or read for it is under way
    size_t waiting = 0;           // records that are due and stay for now
  };

  LaunchWatch::Observer MakeObserver();
  void OnMark(const ActiveRun& run, const std::string& key, bool put, kv::CommitSeq seq);
  // False: there is no room.
  bool Keep(const std::string& key_bytes, const std::string& value, kv::CommitSeq seq);
  void Forget(const Uid& uid, const std::string& key);
  // Called by the memory's observer.
  void OnLeft(const Uid& uid, size_t left);

  void LookAt(const Uid& uid, Schedule& schedule, absl::Time at);
  void LookAgain(const Uid& uid);
  void LookAtNext(const Uid& uid, Schedule& schedule, absl::Time after);
  void SetWaiting(Schedule& schedule, size_t waiting);
  void OnFetched();
  void OnStateChanged(const Uid& uid);
  void Sweep();
  void SweepLater();

  void Step();
  void PlanTimer();
  // True if it has added something to the batch.
  bool Decide(const Uid& uid, Schedule& schedule, absl::Time now, LaunchBatch& batch);
  void Commit(LaunchBatch batch, std::set<Uid> uids);
  void OnCommitted(const std::vector<LaunchBatch::Decided>& decided, const std::set<Uid>& uids,
                   const absl::StatusOr<kv::CommitResult>& result);
  void OnApplied(const LaunchBatch::Decided& decided, kv::CommitSeq seq);
  // False: it is tried again only after a while.
  bool OnRefused(const LaunchBatch::Decided& decided, uint16_t condition);
  void ReadActive(const Uid& uid, Schedule& schedule);

  kv::KvClient& client_;
  const std::shared_ptr<Executor> executor_;
  LaunchMetrics& metrics_;
  const Options options_;
  RecordCache cache_;
  const std::shared_ptr<LaunchWatch> watch_;
  LaunchMemory memory_;
  bool stopped_ = false;
  std::map<Uid, Schedule> schedules_;
  kv::CommitSeq marks_told_ = 0;  // the last change of any mark that the watch reported
  size_t waiting_ = 0;            // due records of all schedules that stay for now
  std::set<std::pair<absl::Time, Uid>> agenda_;
  std::set<Uid> fetching_;  // judged once the cache has read something
  bool committing_ = false;
  Executor::TimerId timer_ = 0;
  absl::Time timer_at_;  // store time
};

}  // namespace escapement::emitter

#endif  // SERVICES_EMITTER_LAUNCHES_LAUNCH_LOOP_H_
