// RetentionLoop deletes outcomes that are older than their tenant keeps them.
//
// Retentions: how long the outcomes of each tenant are kept.
//
// Pure.

#ifndef SERVICES_HANDLER_RETENTION_RETENTION_LOOP_H_
#define SERVICES_HANDLER_RETENTION_RETENTION_LOOP_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/storage/run_table.h"
#include "services/handler/shard/shard_state.h"

namespace escapement::handler {

class Retentions {
 public:
  // `platform`: the retention of tenants that have none of their own.
  explicit Retentions(absl::Duration platform) : platform_(platform), shortest_(platform) {}

  // Takes a row of `tenants`. A row that cannot be read changes nothing.
  void Add(const std::string& value);

  absl::Duration Of(const std::string& tenant) const {
    const auto found = of_tenant_.find(tenant);
    return found == of_tenant_.end() ? platform_ : found->second;
  }
  absl::Duration shortest() const { return shortest_; }

  friend bool operator==(const Retentions&, const Retentions&) = default;

 private:
  absl::Duration platform_;
  absl::Duration shortest_;
  std::map<std::string, absl::Duration> of_tenant_;  // tenants with one of their own
};

// RetentionLoop: drops old outcomes: Done records of the owned shards, with the names and runs that
// only they refer to.
//
// Outcomes are kept from their end for the retention of their tenant: its own, or else
// HandlerOptions::retention. They are dropped by days (of launch times) and, within a day, by
// retentions. All outcomes of a day that have the same retention are dropped together: when the
// latest of their ends and of the ends of their runs is older than the retention. If that is true
// of all outcomes of the day, the day is dropped as one range. Nothing is dropped while the shard
// has a row due on the day.
//
// The day is read twice: the first reading finds the latest ends, the second drops names and runs.
// A watch over the day notices records that a backfill or a resume writes in between; these keep
// the day. Only a first record that is written in the milliseconds while the drop is on its way to
// the store can be lost.
//
// If a day is too new, the loop remembers until when, and does not read it again before that. A new
// owner of the shard reads it once more, and so does everyone when a tenant's retention changes.
// The sweep continues with the later days. One bounded piece of one shard's work is under way at a
// time, and the shard's lease fences each commit.
//
// Threads: one, the handler's executor.

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
  // How much of a day its second reading drops.
  enum class Dropping : uint8_t { kNothing, kSome, kDay };
  struct Sweep {
    explicit Sweep(absl::Duration retention) : retentions(retention) {}
    absl::Time now;
    Retentions retentions;
    std::vector<SweptShard> shards;
    size_t at = 0;
    uint32_t from_day = 0;  // in the present shard; earlier days are done
    uint32_t day = 0;       // the day under way
    uint8_t lane = 0;
    Dropping dropping = Dropping::kNothing;
    std::set<absl::Duration> dropped;  // for kSome: the retentions of what is dropped
    bool blind = false;                // the watch has lagged: new records may be unknown
    // The latest end of an event or run of the day, by retention.
    std::map<absl::Duration, absl::Time> newest;
    absl::Time written;                // when a record of the day was last written, if seen
    std::string cursor;                // in `done`
    std::vector<std::string> old;      // for kSome: keys in `done` that go with the next commit
    std::unique_ptr<kv::Watch> watch;  // over the day, open since before the first reading
    const SweptShard& shard() const { return shards[at]; }
  };
  using SweepPtr = std::shared_ptr<Sweep>;
  struct DoneName {
    std::string key;  // in event_names
    Uid event;
  };
  struct DoneRun {
    RunKey run;
    uint16_t shard = 0;
  };

  void ReadTenants(SweepPtr sweep, std::string from);
  void ForgetKept(const Sweep& sweep);
  void FindDay(SweepPtr sweep);
  void CheckLane(SweepPtr sweep);
  void BeginDay(SweepPtr sweep, kv::CommitSeq seq);
  void ReadDay(SweepPtr sweep);
  void OnDayRead(SweepPtr sweep, kv::ScanResult page);
  void DropNames(SweepPtr sweep, std::vector<DoneName> names, std::function<void()> then);
  void ReadRuns(SweepPtr sweep, std::vector<DoneRun> runs, bool more);
  void DropOwnerlessParts(SweepPtr sweep, kv::Group group, std::vector<RunKey> ended, bool more);
  void GoOnWithDay(SweepPtr sweep, kv::Group group, bool more);
  void EndReading(SweepPtr sweep);
  void DropDay(SweepPtr sweep);
  static void NoteEnd(Sweep& sweep, absl::Duration retention, int64_t end_micros);
  // The time from which the outcomes of this retention are old.
  static absl::Time OldFrom(const Sweep& sweep, absl::Duration retention);
  static bool AllOld(const Sweep& sweep);
  // False: a record was written since the second reading began, and what it would drop is not old.
  static bool MayDrop(const Sweep& sweep);
  void KeepDay(SweepPtr sweep);
  void NextDay(SweepPtr sweep);
  void NextShard(SweepPtr sweep);
  void Scan(SweepPtr sweep, kv::ScanRequest request, std::function<void(kv::ScanResult)> then);
  void Commit(SweepPtr sweep, std::vector<kv::Group> groups, std::function<void()> then);
  void Finish() { CHECK(std::exchange(busy_, false)); }

  HandlerCore& core_;
  bool busy_ = false;
  std::optional<absl::Duration> swept_;   // Clock::Elapsed
  std::optional<Retentions> retentions_;  // those of the last sweep
  // By shard and day: the store time before which the day is not read. At most
  // HandlerOptions::kept_days_max days per shard.
  std::map<uint16_t, std::map<uint32_t, absl::Time>> kept_;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_RETENTION_RETENTION_LOOP_H_
