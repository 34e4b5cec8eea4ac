#include "services/master/calendars/retiming_loop.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/base/log.h"
#include "common/kv/group_parts.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/resources.pb.h"
#include "services/master/base/limits.h"
#include "services/master/requests/request_table.h"
#include "services/master/schedules/changes/schedule_decisions.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;

}  // namespace

RetimingLoop::RetimingLoop(MasterContext& context)
    : context_(context),
      mirror_(context.client, ColumnFamily::kPolicies,
              {RetimingPrefix(), PrefixEnd(RetimingPrefix())}, context.executor,
              [this](const kv::RangeMirror::Rows& rows) { Take(rows); }) {}

void RetimingLoop::Take(const kv::RangeMirror::Rows& rows) {
  std::erase_if(rows_, [&](const auto& row) {
    if (rows.contains(row.first)) return false;
    mine_.erase(row.first);
    return true;
  });
  for (const auto& [key, value] : rows) {
    Row& row = rows_[key];
    if (row.value == value) continue;
    auto progress = DecodeRetimingProgress(value);
    // A value that is older than this master's own.
    if (progress.has_value() && row.progress.has_value() &&
        progress->change == row.progress->change && progress->steps <= row.progress->steps)
      continue;
    if (!progress.has_value())
      Log(LogLevel::kError, "master", "the progress of a calendar's change cannot be read", {});
    row = {.value = value, .progress = std::move(progress), .since = Elapsed()};
  }
  Wake();
}

void RetimingLoop::WakeLater(absl::Duration delay) {
  context_.executor->PostAfter(delay, [this, timer = ++timer_] {
    if (timer == timer_) Wake();
  });
}

absl::Duration RetimingLoop::PauseOf(const std::string& key, const Row& row) const {
  // A row that cannot be read stays.
  if (row.value.empty() || !row.progress.has_value()) return absl::InfiniteDuration();
  const bool mine = mine_.contains(key);
  absl::Duration pause = mine ? absl::ZeroDuration() : row.since + kRetimingPatience - Elapsed();
  // At the retry time, too, the others leave it to the master that made the last step.
  if (row.progress->retry_time.has_value()) {
    pause = std::max(pause, *row.progress->retry_time - context_.client.NowLow() +
                                (mine ? absl::ZeroDuration() : kRetimingPatience));
  }
  return pause;
}

void RetimingLoop::Wake() {
  if (work_.has_value() || !context_.ready) return;
  absl::Duration first = absl::InfiniteDuration();
  auto row = rows_.upper_bound(turn_);
  for (size_t i = 0; i < rows_.size(); ++i, ++row) {
    if (row == rows_.end()) row = rows_.begin();
    const auto& [key, seen] = *row;
    const absl::Duration pause = PauseOf(key, seen);
    if (pause > absl::ZeroDuration()) {
      first = std::min(first, pause);
      continue;
    }
    const auto name = DecodeRetimingKey(key);
    if (!name.has_value()) continue;
    work_ = Work{.key = key, .value = seen.value, .name = *name, .progress = *seen.progress};
    turn_ = key;
    mine_.erase(key);
    return Step();
  }
  if (first != absl::InfiniteDuration()) WakeLater(first);
}

void RetimingLoop::GiveUp() {
  if (const auto row = rows_.find(work_->key); row != rows_.end()) row->second.since = Elapsed();
  work_.reset();
  Wake();
}

void RetimingLoop::Step() {
  RetimingProgress& progress = work_->progress;
  ++progress.steps;
  if (progress.retry_time.has_value()) {
    progress.retry_time.reset();
    work_->schedules = std::exchange(progress.failed, {});
    work_->more = progress.redo_after.has_value();
    if (work_->more) progress.last = std::exchange(progress.redo_after, std::nullopt);
    return ReadStates();
  }
  const std::string prefix =
      CalendarUserPrefix(CalendarUid(work_->name.tenant, work_->name.calendar_id));
  kv::ScanRequest scan;
  scan.cf = ColumnFamily::kPolicies;
  scan.begin =
      progress.last.has_value() ? KeyAfter(absl::StrCat(prefix, progress.last->bytes())) : prefix;
  scan.end = PrefixEnd(prefix);
  scan.limit = static_cast<uint32_t>(kCalendarSchedulesAtOnce);
  scan.keys_only = true;
  context_.client.Scan(std::move(scan), context_.executor,
                       [this](absl::StatusOr<kv::ScanResult> page) { OnUsers(std::move(page)); });
}

void RetimingLoop::OnUsers(absl::StatusOr<kv::ScanResult> page) {
  if (!page.ok()) return GiveUp();
  work_->more = page->more && !page->entries.empty();
  for (const kv::Entry& row : page->entries) {
    const std::optional<Uid> schedule = DecodeCalendarUserKey(row.key);
    if (schedule.has_value()) work_->schedules.push_back(*schedule);
  }
  ReadStates();
}

void RetimingLoop::ReadStates() {
  std::vector<kv::Key> keys;
  keys.reserve(work_->schedules.size());
  for (const Uid& schedule : work_->schedules)
    keys.push_back({ColumnFamily::kStates, StateKey(schedule)});
  ReadKeys(context_, std::move(keys), [this](absl::StatusOr<KeyValues> states) {
    if (!states.ok()) return GiveUp();
    OnStates(*states);
  });
}

void RetimingLoop::OnStates(const KeyValues& states) {
  for (size_t i = 0; i < states.size(); ++i) {
    storage::v1::StateRecord state;
    // Deleted since.
    if (!states[i].has_value() || !state.ParseFromString(*states[i])) continue;
    work_->changing.push_back(work_->schedules[i]);
    work_->names.push_back({state.tenant(), state.schedule_id()});
  }
  ChangeNext();
}

void RetimingLoop::ChangeNext() {
  const size_t end = std::min(work_->names.size(), work_->tried + kRetimedAtOnce);
  if (work_->tried == end) return Commit();
  std::vector<absl::StatusOr<ScheduleChange>> changes;
  for (size_t i = work_->tried; i < end; ++i) {
    ScheduleChange change{.name = work_->names[i]};
    change.decide = [](const ChangeInput& input) { return DecideRetime(input, PlatformCaller()); };
    change.response = std::make_unique<v1::Schedule>();
    changes.push_back(std::move(change));
  }
  ChangeSchedules(context_, std::move(changes),
                  [this](const std::vector<ScheduleAnswer>& answers) { OnChanged(answers); });
}

void RetimingLoop::OnChanged(const std::vector<ScheduleAnswer>& answers) {
  RetimingProgress& progress = work_->progress;
  for (const ScheduleAnswer& answer : answers) {
    const size_t i = work_->tried++;
    const absl::StatusCode code = answer.status().code();
    // It has the days already, or is gone.
    if (answer.ok() || code == absl::StatusCode::kCancelled) continue;
    if (code == absl::StatusCode::kUnavailable) return GiveUp();
    Log(LogLevel::kError, "master", "a schedule keeps former days of its calendar",
        {{"schedule", work_->names[i].ToString()},
         {"error", std::string(answer.status().message())}});
    if (progress.failed.size() < kRetimingFailedMax) {
      progress.failed.push_back(work_->changing[i]);
    } else if (!progress.redo_after.has_value()) {
      // `failed` is full: schedules have been visited before this one.
      progress.redo_after = i > 0 ? work_->changing[i - 1] : progress.last;
    }
  }
  ChangeNext();
}

void RetimingLoop::Commit() {
  RetimingProgress& progress = work_->progress;
  // A retry visits schedules that are before `last`.
  if (!work_->schedules.empty() &&
      (!progress.last.has_value() || work_->schedules.back() > *progress.last))
    progress.last = work_->schedules.back();
  kv::Commit commit;
  kv::Group& group = commit.groups.emplace_back();
  group.conditions.push_back(kv::ValueIs(ColumnFamily::kPolicies, work_->key, work_->value));
  // `redo_after` is set only if `failed` is full.
  const bool failed = !progress.failed.empty();
  std::string next;
  if (work_->more || failed) {
    if (!work_->more) progress.retry_time = context_.client.NowLow() + kRetimingRetryDelay;
    next = EncodeRetimingProgress(progress);
    group.mutations.push_back(kv::Put(ColumnFamily::kPolicies, work_->key, next));
  } else {
    group.mutations.push_back(kv::Delete(ColumnFamily::kPolicies, work_->key));
  }
  context_.client.CommitAsync(
      std::move(commit), context_.executor,
      [this, next](const absl::StatusOr<kv::CommitResult>& result) { OnCommitted(next, result); });
}

void RetimingLoop::OnCommitted(const std::string& next,
                               const absl::StatusOr<kv::CommitResult>& result) {
  if (!result.ok()) return GiveUp();
  // If the mirror has shown a later value, that one holds.
  const auto row = rows_.find(work_->key);
  const bool known = row != rows_.end() && row->second.value == work_->value;
  if (!result->verdicts[0].applied) {
    // Another master does it, or the calendar has changed again. The mirror tells which.
    if (known) row->second.value.clear();
    return GiveUp();
  }
  if (!next.empty()) mine_.insert(work_->key);
  if (known) row->second = {.value = next, .progress = work_->progress, .since = Elapsed()};
  work_.reset();
  Wake();
}

}  // namespace escapement::master
