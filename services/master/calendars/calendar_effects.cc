#include "services/master/calendars/calendar_effects.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/storage/children_table.h"
#include "common/storage/schedule_table.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/calendars/calendar_moves.h"
#include "services/master/codec/schedule_codec.h"
#include "services/master/requests/range_reader.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;

// Occurrences that one turn of the executor compares: other calls wait for so long.
constexpr size_t kComparedAtOnce = 1000;

KeyRange UsersOf(const std::string& tenant, const std::string& calendar) {
  std::string prefix = CalendarUserPrefix(CalendarUid(tenant, calendar));
  std::string end = PrefixEnd(prefix);
  return {ColumnFamily::kPolicies, std::move(prefix), std::move(end)};
}

// Whether the schedule of this row (CalendarUserKey) may have former days.
bool IsOutdated(const RetimingProgress& progress, const std::string& row) {
  const std::optional<Uid> schedule = DecodeCalendarUserKey(row);
  if (!schedule.has_value()) return false;
  const std::optional<Uid>& last =
      progress.redo_after.has_value() ? progress.redo_after : progress.last;
  const std::vector<Uid>& failed = progress.failed;
  return !last.has_value() || *schedule > *last ||
         std::find(failed.begin(), failed.end(), *schedule) != failed.end();
}

class EffectsRead : public std::enable_shared_from_this<EffectsRead> {
 public:
  using Read = absl::AnyInvocable<void(absl::StatusOr<v1::UpdateCalendarResponse>)>;
  EffectsRead(MasterContext& context, std::string tenant, CalendarDays next, Read done)
      : context_(context),
        tenant_(std::move(tenant)),
        next_(std::move(next)),
        done_(std::move(done)),
        now_(context.client.NowLow()) {}

  void ReadUsers() {
    std::vector<KeyRange> ranges;
    ranges.reserve(next_.size());
    for (const auto& [calendar, days] : next_) ranges.push_back(UsersOf(tenant_, calendar));
    ReadRanges(
        context_, std::move(ranges), static_cast<size_t>(kCountRowsMax),
        [self = shared_from_this()](const KeyRange&, kv::Entry& row) {
          return self->AddUser(row.key);
        },
        [self = shared_from_this()](const absl::Status& status) {
          if (!status.ok()) return self->done_(status);
          self->ReadStates();
        });
  }

 private:
  absl::StatusOr<bool> AddUser(const std::string& key) {
    const std::optional<Uid> schedule = DecodeCalendarUserKey(key);
    if (!schedule.has_value()) return BrokenRecord("the user of a calendar");
    answer_.set_schedule_count(answer_.schedule_count() + 1);
    if (schedules_.size() < kMovesSchedulesMax) {
      schedules_.push_back(*schedule);
    } else {
      answer_.set_more(true);
    }
    return true;
  }

  void ReadStates() {
    if (schedules_.empty() || moves_.size() >= kMovesMax) return Answer();
    std::vector<kv::Key> keys;
    while (!schedules_.empty() && keys.size() < kCalendarSchedulesAtOnce) {
      keys.push_back({ColumnFamily::kStates, StateKey(schedules_.back())});
      reading_.push_back(schedules_.back());
      schedules_.pop_back();
    }
    ReadKeys(context_, std::move(keys),
             [self = shared_from_this()](absl::StatusOr<KeyValues> read) {
               if (!read.ok()) return self->done_(read.status());
               self->OnStates(*read);
             });
  }

  void OnStates(const KeyValues& values) {
    states_.clear();
    std::vector<kv::Key> keys;
    for (size_t i = 0; i < values.size(); ++i) {
      storage::v1::StateRecord state;
      if (!values[i].has_value()) continue;  // deleted since
      if (!state.ParseFromString(*values[i])) return done_(BrokenRecord("a state"));
      if (state.kind() != storage::v1::SCHEDULE_STATE_KIND_ENABLED) continue;
      keys.push_back({ColumnFamily::kDefinitions, DefinitionKey(reading_[i], state.version())});
      states_.push_back(std::move(state));
    }
    reading_.clear();
    ReadKeys(context_, std::move(keys),
             [self = shared_from_this()](absl::StatusOr<KeyValues> read) {
               if (!read.ok()) return self->done_(read.status());
               self->definitions_ = *std::move(read);
               self->NextSchedule();
             });
  }

  // The definitions are in the order of the states.
  void NextSchedule() {
    if (definitions_.empty() || moves_.size() >= kMovesMax) return ReadStates();
    const std::optional<std::string> bytes = std::move(definitions_.back());
    definitions_.pop_back();
    const storage::v1::StateRecord state = std::move(states_.back());
    states_.pop_back();
    storage::v1::DefinitionRecord record;
    // A version that was replaced long ago may be gone.
    if (!bytes.has_value()) return NextSchedule();
    if (!record.ParseFromString(*bytes)) return done_(BrokenRecord("a definition"));
    const auto days = next_.find(record.timing().calendar().calendar_id());
    if (days == next_.end()) return NextSchedule();  // names another one since
    absl::StatusOr<cron::Timetable> former = TimetableOf(record, FinishOf(state));
    *record.mutable_timing()->mutable_calendar()->mutable_days() = days->second;
    // max_runs may end the schedule elsewhere than now: that is not compared.
    absl::StatusOr<cron::Timetable> next = TimetableOf(record, FinishOf(state));
    if (!former.ok() || !next.ok()) return done_(BrokenRecord("a definition"));
    former_.emplace(*std::move(former));
    changed_.emplace(*std::move(next));
    search_.emplace(*former_, *changed_, now_, now_ + absl::Hours(24 * kMovesDays));
    name_ = ScheduleName{state.tenant(), state.schedule_id()}.ToString();
    Compare();
  }

  void Compare() {
    size_t compared = 0;
    while (search_->Step()) {
      compared += search_->work() + 10;
      if (compared >= kComparedAtOnce)
        return context_.executor->Post([self = shared_from_this()] { self->Compare(); });
    }
    if (search_->more()) answer_.set_more(true);
    for (OccurrenceMove& move : search_->TakeMoves()) moves_.push_back({name_, move});
    context_.executor->Post([self = shared_from_this()] { self->NextSchedule(); });
  }

  void Answer() {
    std::stable_sort(moves_.begin(), moves_.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first < b.first : a.second.first() < b.second.first();
    });
    if (moves_.size() > kMovesMax || !schedules_.empty()) answer_.set_more(true);
    if (moves_.size() > kMovesMax) moves_.resize(kMovesMax);
    for (const auto& [schedule, move] : moves_) {
      v1::UpdateCalendarResponse::Move* shown = answer_.add_moves();
      shown->set_schedule(schedule);
      if (move.from.has_value()) SetTimestamp(ToMicros(*move.from), *shown->mutable_from_time());
      if (move.to.has_value()) SetTimestamp(ToMicros(*move.to), *shown->mutable_to_time());
    }
    done_(std::move(answer_));
  }

  MasterContext& context_;
  const std::string tenant_;
  const CalendarDays next_;
  Read done_;
  const absl::Time now_;
  v1::UpdateCalendarResponse answer_;
  std::vector<Uid> schedules_;  // not read yet
  std::vector<Uid> reading_;
  std::vector<storage::v1::StateRecord> states_;
  KeyValues definitions_;
  // The schedule that is compared.
  std::string name_;
  std::optional<cron::Timetable> former_, changed_;
  std::optional<MoveSearch> search_;
  std::vector<std::pair<std::string, OccurrenceMove>> moves_;  // with the schedules' names
};

}  // namespace

void CountCalendarUsers(MasterContext& context, const std::string& tenant,
                        const std::set<std::string>& calendars,
                        absl::AnyInvocable<void(absl::StatusOr<CalendarUsers>)> done) {
  std::vector<KeyRange> ranges;
  std::vector<kv::Key> keys;
  for (const std::string& calendar : calendars) {
    ranges.push_back(UsersOf(tenant, calendar));
    keys.push_back({ColumnFamily::kPolicies, RetimingKey(tenant, calendar)});
  }
  ReadKeys(context, std::move(keys),
           [&context, ranges = std::move(ranges),
            done = std::move(done)](absl::StatusOr<KeyValues> read) mutable {
             if (!read.ok()) return done(read.status());
             // The progress of a change, by where the range of the calendar's users begins.
             auto progress = std::make_shared<std::map<std::string, RetimingProgress>>();
             for (size_t i = 0; i < ranges.size(); ++i) {
               const std::optional<std::string>& row = (*read)[i];
               auto read_progress = row.has_value() ? DecodeRetimingProgress(*row) : std::nullopt;
               if (read_progress.has_value())
                 (*progress)[ranges[i].begin] = *std::move(read_progress);
             }
             auto users = std::make_shared<CalendarUsers>();
             ReadRanges(
                 context, std::move(ranges), static_cast<size_t>(kCountRowsMax),
                 [users, progress](const KeyRange& range, kv::Entry& row) -> absl::StatusOr<bool> {
                   ++users->schedules;
                   const auto found = progress->find(range.begin);
                   users->outdated +=
                       found != progress->end() && IsOutdated(found->second, row.key);
                   return true;
                 },
                 [users, done = std::move(done)](const absl::Status& status) mutable {
                   if (!status.ok()) return done(status);
                   done(*users);
                 });
           });
}

void ReadCalendarEffects(
    MasterContext& context, const std::string& tenant, CalendarDays next,
    absl::AnyInvocable<void(absl::StatusOr<v1::UpdateCalendarResponse>)> done) {
  std::make_shared<EffectsRead>(context, tenant, std::move(next), std::move(done))->ReadUsers();
}

}  // namespace escapement::master
