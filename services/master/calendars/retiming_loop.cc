#include "services/master/calendars/retiming_loop.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/base/log.h"
#include "common/kv/group_parts.h"
#include "common/rpc/call_gate.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/resources.pb.h"
#include "services/master/base/limits.h"
#include "services/master/requests/resource_name.h"
#include "services/master/schedules/changes/schedule_decisions.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;

// After a failure, for example because the store cannot be reached.
constexpr absl::Duration kStoreRetryDelay = absl::Seconds(1);
// After a pass in which schedules could not be changed.
constexpr absl::Duration kRefusedRetryDelay = absl::Minutes(1);

// The change's entry in the audit names this caller.
const Caller& RetimingCaller() {
  static const auto* const caller = new Caller{"platform", v1::Access::SERVICE};
  return *caller;
}

}  // namespace

RetimingLoop::RetimingLoop(MasterContext& context)
    : context_(context),
      mirror_(context.client, ColumnFamily::kPolicies,
              {RetimingPrefix(), PrefixEnd(RetimingPrefix())}, context.executor,
              [this](const kv::RangeMirror::Rows& rows) { Take(rows); }) {}

void RetimingLoop::Take(const kv::RangeMirror::Rows& rows) {
  std::erase_if(rows_, [&](const auto& row) { return !rows.contains(row.first); });
  for (const auto& [key, value] : rows) {
    Seen& seen = rows_[key];
    if (seen.value != value) seen = {value, Elapsed()};
  }
  Wake();
}

void RetimingLoop::WakeLater(absl::Duration delay) {
  context_.executor->PostAfter(delay, [this, timer = ++timer_] {
    if (timer == timer_) Wake();
  });
}

void RetimingLoop::Wake() {
  if (work_.has_value() || !context_.ready) return;
  absl::Duration first = absl::InfiniteDuration();
  for (const auto& [key, seen] : rows_) {
    const absl::Duration left = seen.since + kRetimingPatience - Elapsed();
    if (!mine_.contains(key) && left > absl::ZeroDuration()) {
      first = std::min(first, left);
      continue;
    }
    const auto name = DecodeRetimingKey(key);
    const auto progress = DecodeRetimingProgress(seen.value);
    if (!name.has_value() || !progress.has_value()) {
      Log(LogLevel::kError, "master", "the progress of a calendar's change cannot be read", {});
      continue;  // the row stays
    }
    mine_.erase(key);
    work_ = Work{.key = key, .value = seen.value, .name = *name, .progress = *progress};
    return Step();
  }
  if (first != absl::InfiniteDuration()) WakeLater(first);
}

void RetimingLoop::GiveUp(absl::Duration pause) {
  // The row is tried again after its time, unless another master makes progress.
  if (const auto row = rows_.find(work_->key); row != rows_.end())
    row->second.since = Elapsed() + std::max(pause - kRetimingPatience, absl::ZeroDuration());
  work_.reset();
  WakeLater(pause);
}

void RetimingLoop::Step() {
  if (!context_.ready) return GiveUp(kRetimingPatience);
  const std::string prefix =
      CalendarUserPrefix(CalendarUid(work_->name.tenant, work_->name.calendar_id));
  kv::ScanRequest scan;
  scan.cf = ColumnFamily::kPolicies;
  scan.begin = work_->progress.last.has_value()
                   ? KeyAfter(absl::StrCat(prefix, work_->progress.last->bytes()))
                   : prefix;
  scan.end = PrefixEnd(prefix);
  scan.limit = static_cast<uint32_t>(kCalendarSchedulesAtOnce);
  scan.keys_only = true;
  context_.client.Scan(std::move(scan), context_.executor,
                       [this](absl::StatusOr<kv::ScanResult> page) { OnUsers(std::move(page)); });
}

void RetimingLoop::OnUsers(absl::StatusOr<kv::ScanResult> page) {
  if (!page.ok()) return GiveUp(kStoreRetryDelay);
  work_->schedules.clear();
  work_->more = page->more && !page->entries.empty();
  std::vector<kv::Key> keys;
  for (const kv::Entry& row : page->entries) {
    const std::optional<Uid> schedule = DecodeCalendarUserKey(row.key);
    if (!schedule.has_value()) continue;
    work_->schedules.push_back(*schedule);
    keys.push_back({ColumnFamily::kStates, StateKey(*schedule)});
  }
  ReadKeys(context_, std::move(keys), [this](absl::StatusOr<KeyValues> states) {
    if (!states.ok()) return GiveUp(kStoreRetryDelay);
    OnStates(*states);
  });
}

void RetimingLoop::OnStates(const KeyValues& states) {
  std::vector<absl::StatusOr<ScheduleChange>> changes;
  names_.clear();
  changing_.clear();
  for (size_t i = 0; i < states.size(); ++i) {
    storage::v1::StateRecord state;
    // Deleted since.
    if (!states[i].has_value() || !state.ParseFromString(*states[i])) continue;
    ScheduleChange change{.name = {state.tenant(), state.schedule_id()}};
    names_.push_back(change.name.ToString());
    changing_.push_back(work_->schedules[i]);
    change.decide = [](const ChangeInput& input) { return DecideRetime(input, RetimingCaller()); };
    change.response = std::make_unique<v1::Schedule>();
    changes.push_back(std::move(change));
  }
  if (changes.empty()) return OnChanged({});
  ChangeSchedules(context_, std::move(changes),
                  [this](const std::vector<ScheduleAnswer>& answers) { OnChanged(answers); });
}

void RetimingLoop::OnChanged(const std::vector<ScheduleAnswer>& answers) {
  for (size_t i = 0; i < answers.size(); ++i) {
    const absl::StatusCode code = answers[i].status().code();
    // It has the days already, or is gone.
    if (answers[i].ok() || code == absl::StatusCode::kCancelled) {
      if (!work_->failed) work_->last_done = changing_[i];
      continue;
    }
    if (code == absl::StatusCode::kUnavailable) return GiveUp(kStoreRetryDelay);
    work_->failed = true;
    Log(LogLevel::kError, "master", "a schedule keeps former days of its calendar",
        {{"schedule", names_[i]}, {"error", std::string(answers[i].status().message())}});
  }
  if (!work_->failed && !work_->schedules.empty()) work_->last_done = work_->schedules.back();
  if (!work_->schedules.empty()) work_->progress.last = work_->schedules.back();
  Commit();
}

void RetimingLoop::Commit() {
  kv::Commit commit;
  kv::Group& group = commit.groups.emplace_back();
  group.conditions.push_back(kv::ValueIs(ColumnFamily::kPolicies, work_->key, work_->value));
  // At the end, those that failed are what is left.
  if (!work_->more && work_->failed) work_->progress.last = work_->last_done;
  work_->next.clear();
  if (work_->more || work_->failed) {
    work_->next = EncodeRetimingProgress(work_->progress);
    group.mutations.push_back(kv::Put(ColumnFamily::kPolicies, work_->key, work_->next));
  } else {
    group.mutations.push_back(kv::Delete(ColumnFamily::kPolicies, work_->key));
  }
  context_.client.CommitAsync(
      std::move(commit), context_.executor,
      [this](const absl::StatusOr<kv::CommitResult>& result) { OnCommitted(result); });
}

void RetimingLoop::OnCommitted(const absl::StatusOr<kv::CommitResult>& result) {
  if (!result.ok()) return GiveUp(kStoreRetryDelay);
  if (!result->verdicts[0].applied) {
    // Another master does it, or the calendar has changed again. The mirror tells which; until then
    // the row is not the one that is there.
    if (const auto row = rows_.find(work_->key);
        row != rows_.end() && row->second.value == work_->value)
      rows_.erase(row);
    return GiveUp(absl::ZeroDuration());
  }
  work_->value = work_->next;
  if (work_->more) return Step();
  GiveUp(work_->failed ? kRefusedRetryDelay : absl::ZeroDuration());
}

}  // namespace escapement::master
