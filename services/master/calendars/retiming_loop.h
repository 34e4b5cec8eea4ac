// RetimingLoop: gives the schedules that name a changed calendar its present days, each in a new
// version as an update would (DecideRetime).
//
// The commit that changes a calendar also writes a row (RetimingKey) for it and for each calendar
// that contains it. The loop goes through the schedules that name such a calendar, some at a time,
// notes how far it is, and deletes the row at the end. A schedule that is created or updated at the
// same time has the condition that its calendar is as it was read. So its commit either comes
// before the change, which then finds its reference, or fails and reads the new days: none is
// missed. A schedule that has the days already is left alone, so any number of masters may do the
// same.
//
// Every master has a loop. The one that answered the change begins at once. The others begin if a
// row makes no progress for kRetimingPatience, so a master's death only delays it. A schedule that
// cannot be changed is tried again after a minute, and others do not wait for it.
//
// Threads: the context's executor.

#ifndef SERVICES_MASTER_CALENDARS_RETIMING_LOOP_H_
#define SERVICES_MASTER_CALENDARS_RETIMING_LOOP_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/uid.h"
#include "common/kv/client/range_mirror.h"
#include "common/storage/schedule_table.h"
#include "services/master/base/master_context.h"
#include "services/master/requests/range_reader.h"
#include "services/master/schedules/changes/schedule_transaction.h"

namespace escapement::master {

class RetimingLoop {
 public:
  // `context` outlives it; its executor is stopped before the loop is destroyed.
  explicit RetimingLoop(MasterContext& context);

  // Call it once the layout is known.
  void Start() { mirror_.Start(); }

  // Begins with this row as soon as the mirror shows it. On the executor.
  void Begin(const std::string& row) {
    mine_.insert(row);
    Wake();
  }

 private:
  struct Seen {
    std::string value;
    absl::Duration since;  // Clock::Elapsed
  };
  // The row that the loop works on.
  struct Work {
    std::string key;
    std::string value;
    std::string next = {};  // the value of the commit under way; empty: the row is deleted
    RetimingName name;
    RetimingProgress progress;
    std::vector<Uid> schedules = {};  // those that this step changes
    bool more = false;                // behind them
    // The last schedule before the first that failed: the next pass begins behind it.
    std::optional<Uid> last_done = std::nullopt;
    bool failed = false;
  };

  void Take(const kv::RangeMirror::Rows& rows);
  // Begins with the next row whose turn it is.
  void Wake();
  void WakeLater(absl::Duration delay);
  void Step();
  void OnUsers(absl::StatusOr<kv::ScanResult> page);
  void OnStates(const KeyValues& states);
  void OnChanged(const std::vector<ScheduleAnswer>& answers);
  void Commit();
  void OnCommitted(const absl::StatusOr<kv::CommitResult>& result);
  // Ends the work on the row; other masters' rows may follow.
  void GiveUp(absl::Duration pause);
  absl::Duration Elapsed() const { return context_.runtime.clock().Elapsed(); }

  MasterContext& context_;
  std::map<std::string, Seen> rows_;  // as the mirror has them
  std::set<std::string> mine_;        // rows whose change this master has answered
  std::optional<Work> work_;
  std::vector<std::string> names_;  // names of the schedules under way, for the log
  std::vector<Uid> changing_;       // the schedules under way
  uint64_t timer_ = 0;              // the latest timer; earlier ones do nothing
  kv::RangeMirror mirror_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_CALENDARS_RETIMING_LOOP_H_
