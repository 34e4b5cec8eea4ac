// RetentionLoop: drops what has been kept long enough: Done days of the owned shards, with the
// names and runs that only they keep findable.
//
// A day is dropped as one range, once it is older than the retention and no row of the shard is due
// before its end. One bounded piece of one shard's work is under way at a time; each commit is
// fenced by the shard's lease.
//
// Threads: one, the handler's executor.

#ifndef SERVICES_HANDLER_RETENTION_LOOP_H_
#define SERVICES_HANDLER_RETENTION_LOOP_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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
    uint32_t day = 0;  // of the present shard: is being dropped
    uint8_t lane = 0;
    std::string cursor;  // in `done`
    const SweptShard& shard() const { return shards[at]; }
  };
  using SweepPtr = std::shared_ptr<Sweep>;
  struct DoneRun {
    RunKey run;
    uint16_t shard = 0;
  };

  void FindDay(SweepPtr sweep);
  void CheckLane(SweepPtr sweep);
  void ReadDay(SweepPtr sweep);
  void OnDayRead(SweepPtr sweep, kv::ScanResult page);
  void ReadRuns(SweepPtr sweep, kv::Group group, std::vector<DoneRun> runs, bool more);
  void DropOwnerlessParts(SweepPtr sweep, kv::Group group, std::vector<RunKey> ended, bool more);
  void GoOnWithDay(SweepPtr sweep, kv::Group group, bool more);
  void DropDay(SweepPtr sweep);
  void NextShard(SweepPtr sweep);
  void Scan(SweepPtr sweep, kv::ScanRequest request, std::function<void(kv::ScanResult)> then);
  void Commit(SweepPtr sweep, kv::Group group, std::function<void()> then);
  void Finish() { busy_ = false; }

  HandlerCore& core_;
  bool busy_ = false;
  std::optional<absl::Duration> swept_;  // Clock::Elapsed
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_RETENTION_LOOP_H_
