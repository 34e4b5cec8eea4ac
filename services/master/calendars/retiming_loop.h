// RetimingLoop: gives the schedules that name a changed calendar its present days, each in a new
// version as an update would (DecideRetime).
//
// The commit that changes a calendar also writes a row (RetimingKey) for it and for each calendar
// that contains it. The loop goes through the schedules that name such a calendar, one step at a
// time. Each step's commit puts into the row how far the loop is and which schedules failed. If
// none failed, the loop deletes the row at the end. A schedule that is created or updated at the
// same time has the condition that its calendar is as it was read. So its commit either comes
// before the change, which then finds its reference, or fails and reads the new days: none is
// missed. A schedule that has the days already is left alone, so any number of masters may do the
// same.
//
// Every master has a loop. The one that answered the change begins at once. The others begin if a
// row makes no progress for kRetimingPatience, so a master's death only delays it. A loop takes the
// rows in turn, one step each.
//
// Schedules that failed are tried again kRetimingRetryDelay after all have been visited. The row
// has this time, so it holds for every master. Only the schedules that failed are visited then.
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
#include "services/master/requests/resource_name.h"
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
  struct Row {
    std::string value;  // empty: no longer the stored one; the mirror has not shown that yet
    // The decoded `value`, or the one before if `value` is empty. Unset: it cannot be read.
    std::optional<RetimingProgress> progress;
    absl::Duration since;  // Clock::Elapsed
  };
  // The step under way.
  struct Work {
    std::string key;
    std::string value;
    RetimingName name;
    RetimingProgress progress;             // as the step's commit will write it
    std::vector<Uid> schedules = {};       // this step visits them
    bool more = false;                     // further schedules are behind them
    std::vector<Uid> changing = {};        // the ones that still exist
    std::vector<ScheduleName> names = {};  // their names
    size_t tried = 0;                      // this many of `changing` have been tried
  };

  void Take(const kv::RangeMirror::Rows& rows);
  // Begins a step of the next row whose turn it is.
  void Wake();
  void WakeLater(absl::Duration delay);
  // How long this master leaves the row alone.
  absl::Duration PauseOf(const std::string& key, const Row& row) const;
  void Step();
  void OnUsers(absl::StatusOr<kv::ScanResult> page);
  void ReadStates();
  void OnStates(const KeyValues& states);
  void ChangeNext();
  void OnChanged(const std::vector<ScheduleAnswer>& answers);
  void Commit();
  // `next`: what the commit has written; empty: the row is deleted.
  void OnCommitted(const std::string& next, const absl::StatusOr<kv::CommitResult>& result);
  // Leaves the row to the other masters for kRetimingPatience.
  void GiveUp();
  absl::Duration Elapsed() const { return context_.runtime.clock().Elapsed(); }

  MasterContext& context_;
  std::map<std::string, Row> rows_;  // as the mirror has them, or this master's own later values
  // Rows for which this master has no patience: it has answered the change, or made the last step.
  std::set<std::string> mine_;
  std::string turn_;  // the row of the last step
  std::optional<Work> work_;
  uint64_t timer_ = 0;  // the latest timer; earlier ones do nothing
  kv::RangeMirror mirror_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_CALENDARS_RETIMING_LOOP_H_
