// Splits a range of occurrences that a change of a schedule takes over by a misfire plan.
//
// Pure.

#ifndef SERVICES_MASTER_SCHEDULES_CHANGES_CHANGE_BUILDER_H_
#define SERVICES_MASTER_SCHEDULES_CHANGES_CHANGE_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/cron/timetable.h"
#include "common/kv/kv_store.h"
#include "common/kv/layout.h"
#include "common/storage/children_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/master/codec/schedule_codec.h"
#include "services/master/requests/resource_name.h"
#include "services/master/schedules/changes/parked_row.h"
#include "services/master/schedules/changes/schedule_snapshot.h"

namespace escapement::master {

struct MissedSplit {
  // One record for all of them: the first one, when the last one was, and how many they are;
  // kSummaryCountMax means that there are at least so many.
  std::optional<cron::Occurrence> summary_first;
  absl::Time summary_last;
  uint64_t summary_count = 0;
  std::vector<cron::Occurrence> skipped;  // after those, one by one, ascending
  std::vector<cron::Occurrence> fired;    // after those, ascending
  // More would fire than fire_max: only the latest do, and all others are in the summary.
  bool cut = false;
};

// Splits the occurrences in [begin, end). `plan` was made for a range that begins at `begin` or
// before.
MissedSplit SplitMissed(const cron::Timetable& timetable, const cron::MisfirePlan& plan,
                        absl::Time begin, absl::Time end, size_t fire_max);

// A launch record that has fallen due while its schedule was paused. Plain value.

struct WaitingLaunch {
  LaunchKey key;
  std::string bytes;  // as stored
  storage::v1::LaunchRecord record;
};

// ChangeBuilder: builds the one group by which a schedule changes.
//
// This is the contract with the emitter and the handlers. `covered` is the instant before which all
// occurrences of the uid have been emitted, or never had to be. For an enabled schedule it is the
// later of the partition's emitted_to and StateRecord.covered_to, which the last change noted. A
// paused schedule has no children, so only covered_to counts. A change
//  - has planned_to, emitted_to, the state and "no cursor" as conditions, each as it was read, and
//  writes the state. So it excludes every emission of the uid, every claim and every other change,
//  and they exclude it;
//  - ends the former version's occurrences in [covered, now) as the emitter would have
//  (cron::PlanMissed): they fire (late ones in the catch-up lane), or are skipped with reason
//  "misfire";
//  - emits, for the new version, its occurrences in [now, covered) that the former version did not
//  have, and all its occurrences in [max(now, covered), planned_to);
//  - writes children with from = max(now, covered, planned_to), and notes that instant as
//  covered_to.
// Rows that both versions have exist already; the handler re-keys them. A row that exists only
// for the former version ends as skipped (superseded) when its turn comes, without a claim.
//
// Pure.

// `covered` of a schedule that exists.
absl::Time CoveredTo(const ScheduleSnapshot& snapshot, absl::Time now);

class ChangeBuilder {
 public:
  // `snapshot` outlives the builder. Adds the conditions on the state as it was read (for a
  // schedule that does not exist: that it is absent), and makes the partition's checkpoints if
  // there are none.
  ChangeBuilder(const ScheduleSnapshot& snapshot, const ScheduleName& name,
                const kv::Layout& layout, absl::Time now);

  absl::Time now() const { return now_; }
  absl::Time planned_to() const { return planned_to_; }
  absl::Time covered() const { return covered_; }
  // Where the emitter takes over: children carry it, the state notes it.
  absl::Time from() const { return std::max({now_, covered_, planned_to_}); }

  // Each: RESOURCE_EXHAUSTED if it is more than one change may write.
  absl::Status EmitOwed(const Definition& former);
  // Emits the rows of occurrences that fire, and the records with `reason` of those that do not.
  absl::Status EmitMissed(const Definition& definition, const MissedSplit& missed,
                          absl::string_view reason);
  absl::Status EmitAdded(const Definition& former, const Definition& next);  // in [now, covered)
  // In [max(now, covered), planned_to).
  absl::Status EmitUpcoming(const Definition& next);

  // How many occurrences of the definition may be emitted besides what there is and the upcoming
  // ones.
  size_t RoomBesideUpcoming(const Definition& definition) const;

  void PutChildren(const Definition& definition);
  // `former`: its timetable ends at FinishOf the state, as that of its children.
  void DeleteChildren(const Definition& former);
  // The schedule's row, and one for each label.
  void PutSchedule(const storage::v1::ScheduleRecord& record);
  void DeleteSchedule();
  void PutDefinition(const Definition& definition);
  // Counts the change.
  void PutState(storage::v1::StateRecord state);
  // Moves the schedule's references from some policies to others (ids). The group has the
  // conditions that the next ones exist.
  void ChangePolicies(const std::set<std::string>& former, const std::set<std::string>& next);

  // Moves the schedule's reference from one calendar to another (ids; empty: none). The group has
  // the conditions that the next one, and those that it contains, are as the snapshot has them: so
  // either the schedule has their present days, or the change that follows finds the reference.
  void ChangeCalendar(const std::string& former, const std::string& next);

  // The end of parked rows. A group that handles all of them has the condition that no other row
  // was added.
  void GuardParked();
  // Where it was or, if the definition wants its events to wait elsewhere, there.
  void ReturnParked(const ParkedRow& parked, const Definition& definition);
  absl::Status SkipParked(const ParkedRow& parked, absl::string_view reason);
  // A launch record's occurrence is skipped; it is still as it was read, and has no run.
  void SkipLaunch(const WaitingLaunch& launch, absl::string_view reason);
  // Writes the masters' run parts that SkipParked has counted up.
  void PutRunParts() { parked_ends_.PutRunParts(group_); }

  size_t occurrences() const { return occurrences_; }
  kv::Group& group() { return group_; }

 private:
  // The rows of former labels that `kept` has not.
  void DeleteLabels(const storage::v1::ScheduleRecord& kept);
  absl::Status Emit(const Definition& definition, absl::Time begin, absl::Time end);
  void EmitOne(const Definition& definition, const cron::Occurrence& occurrence);
  // For an occurrence that the schedule has again, whose rows are group_.mutations from
  // `written_from` on. A version before the former one may have emitted it. Those old rows are left
  // over (common/records/row_judge.h) and count in no run. Their run record is deleted, unless the
  // group writes it again.
  void ForgetRunBefore(const std::string& occurrence, size_t written_from);
  absl::Status CheckRows() const;
  void RequireCheckpoint(const std::string& key, const std::optional<std::string>& value);

  const ScheduleSnapshot& snapshot_;
  const ScheduleName name_;
  const kv::Layout layout_;
  const absl::Time now_;
  absl::Time planned_to_;
  absl::Time covered_;
  kv::Group group_;
  size_t occurrences_ = 0;
  size_t parked_mutations_ = 0;  // mutations of parked rows in the group; their reader bounds them
  ParkedEnds parked_ends_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_CHANGES_CHANGE_BUILDER_H_
