// RetentionLoop: drops old outcomes: Done days of the owned shards, with the names and runs that
// only these days refer to.
//
// Outcomes are kept for HandlerOptions::retention from their end. A day (of launch times) is
// dropped as one range when the day itself, the latest end in it and the ends of its runs are older
// than the retention, and the shard has no row due on it. The day is read twice: the first reading
// finds the latest end, the second drops names and runs. A watch over the day notices records that
// a backfill or a resume writes in between; these keep the day. Only a first record that is written
// in the milliseconds while the drop is on its way to the store can be lost.
//
// If a day is too new, the loop remembers until when, and does not read it again before that. A new
// owner of the shard reads it once more. The sweep continues with the later days. One bounded piece
// of one shard's work is under way at a time, and the shard's lease fences each commit.
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
  // `core` must outlive it.
  explicit RetentionLoop(HandlerCore& core) : core_(core) {}

  // True when a sweep is due. The caller then calls Begin with the shards that it owns.
  bool Due() const;
  void Begin(absl::Time now, std::vector<SweptShard> shards);

 private:
  struct Sweep {
    absl::Time now;
    std::vector<SweptShard> shards;
    size_t at = 0;
    uint32_t from_day = 0;  // in the present shard; earlier days are done
    uint32_t day = 0;       // the day under way
    uint8_t lane = 0;
    bool dropping = false;             // in the second reading
    bool blind = false;                // the watch has lagged: new records may be unknown
    absl::Time newest;                 // the latest end of an event or run of the day
    std::string cursor;                // in `done`
    std::unique_ptr<kv::Watch> watch;  // over the day, open since before the first reading
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
  // By shard and day: the store time before which the day is not read. At most
  // HandlerOptions::kept_days_max days per shard.
  std::map<uint16_t, std::map<uint32_t, absl::Time>> kept_;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_RETENTION_RETENTION_LOOP_H_
