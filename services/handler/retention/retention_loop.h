// RetentionLoop: drops what has been kept long enough: Done days of the owned shards, with the
// names and runs that only they keep findable.
//
// Outcomes are kept for Options::retention from when they ended. A day (of launch times) is dropped
// as one range, once the day itself, the newest complete_time in it and that of its runs are older
// than the retention, and no row of the shard is due on it. It is read twice for that: the first
// reading finds the newest; the second one drops names and runs. Whatever is written to the day
// meanwhile (by a backfill, a resume) keeps it: a watch tells. What is left to chance is a first
// record in the milliseconds in which the drop is on its way to the store.
//
// A day that is found too new is not read again until that time has passed (the loop remembers it
// in memory, a new owner reads once more), and the sweep goes on to the later days. One bounded
// piece of one shard's work is under way at a time; each commit is fenced by the shard's lease.
//
// Threads: one, the handler's executor.

#ifndef SERVICES_HANDLER_RETENTION_RETENTION_LOOP_H_
#define SERVICES_HANDLER_RETENTION_RETENTION_LOOP_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/storage/run_table.h"
#include "services/handler/shard_state.h"

namespace escapement::handler {

struct SweptShard {
  uint16_t shard = 0;
  kv::Condition fence;
};

class RetentionLoop {
 public:
  // `core` outlives it.
  explicit RetentionLoop(HandlerCore& core) : core_(core) {}

  // True when a sweep is due; then the caller begins one with the shards that it owns now.
  bool Due() const;
  void Begin(absl::Time now, std::vector<SweptShard> shards);

 private:
  struct Sweep {
    absl::Time now;
    std::vector<SweptShard> shards;
    size_t at = 0;
    uint32_t from_day = 0;  // of the present shard: earlier ones have been judged
    uint32_t day = 0;       // is being judged
    uint8_t lane = 0;
    bool dropping = false;  // the second reading
    bool blind = false;     // the watch has lagged: what was written to the day is not known
    absl::Time newest;      // of the day: the latest end of an event or run that has been seen
    std::string cursor;     // in `done`
    std::unique_ptr<kv::Watch> watch;  // over the day, since before the first reading
    const SweptShard& shard() const { return shards[at]; }
  };
  using SweepPtr = std::shared_ptr<Sweep>;
  struct DoneRun {
    RunKey run;
    uint16_t shard = 0;
  };

  void FindDay(SweepPtr sweep);
  void CheckLane(SweepPtr sweep);
  void BeginDay(SweepPtr sweep, kv::CommitSeq seq);
  void ReadDay(SweepPtr sweep);
  void OnDayRead(SweepPtr sweep, kv::ScanResult page);
  void DropNames(SweepPtr sweep, std::vector<kv::Key> names, std::function<void()> then);
  void ReadRuns(SweepPtr sweep, std::vector<DoneRun> runs, bool more);
  void DropOwnerlessParts(SweepPtr sweep, kv::Group group, std::vector<RunKey> ended, bool more);
  void GoOnWithDay(SweepPtr sweep, kv::Group group, bool more);
  void EndReading(SweepPtr sweep);
  void DropDay(SweepPtr sweep);
  bool TooNew(const Sweep& sweep) const;
  void KeepDay(SweepPtr sweep);
  void NextDay(SweepPtr sweep);
  void NextShard(SweepPtr sweep);
  void Scan(SweepPtr sweep, kv::ScanRequest request, std::function<void(kv::ScanResult)> then);
  void Commit(SweepPtr sweep, std::vector<kv::Group> groups, std::function<void()> then);
  void Finish() { CHECK(std::exchange(busy_, false)); }

  HandlerCore& core_;
  bool busy_ = false;
  std::optional<absl::Duration> swept_;  // Clock::Elapsed
  // By shard: the days that are not to be read before that (store) time. At most
  // Options::kept_days_max of each shard.
  std::map<uint16_t, std::map<uint32_t, absl::Time>> kept_;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_RETENTION_RETENTION_LOOP_H_
