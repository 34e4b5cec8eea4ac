#include "common/statistics/minute_sums.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/proto_time.h"
#include "common/kv/group_parts.h"
#include "common/storage/statistics_table.h"

namespace escapement {
namespace {

constexpr int64_t kHourMicros = 60 * kMinuteMicros;
// Events that are skipped end a moment before their due time. Events that end earlier than this
// were never due.
constexpr int64_t kMicrosAhead = kMinuteMicros;

uint32_t HourOf(absl::Time time) {
  return static_cast<uint32_t>(std::max<int64_t>(ToMicros(time), 0) / kHourMicros);
}

}  // namespace

void StatisticsSums::Add(const StatisticsSums& other) {
  due += other.due;
  succeeded += other.succeeded;
  failed += other.failed;
  others += other.others;
  late += other.late;
  lateness_max_micros = std::max(lateness_max_micros, other.lateness_max_micros);
  attempts += other.attempts;
  errors += other.errors;
  // One process at a time has the policy.
  held = std::max(held, other.held);
  max_concurrent = std::max(max_concurrent, other.max_concurrent);
  waiting = std::max(waiting, other.waiting);
}

StatisticsSums SumsOf(const storage::v1::MinuteRecord& minute) {
  return {.due = minute.due(),
          .succeeded = minute.succeeded(),
          .failed = minute.failed(),
          .others = minute.others(),
          .late = minute.late(),
          .lateness_max_micros = minute.lateness_max_micros(),
          .attempts = minute.attempts(),
          .errors = minute.errors(),
          .held = minute.held(),
          .max_concurrent = minute.max_concurrent(),
          .waiting = minute.waiting()};
}

storage::v1::StatisticsRecord MinuteSums::Hour::Record() const {
  storage::v1::StatisticsRecord record;
  for (const Minute& each : minutes) {
    storage::v1::MinuteRecord& minute = *record.add_minutes();
    minute.set_minute(each.minute);
    minute.set_due(each.sums.due);
    minute.set_succeeded(each.sums.succeeded);
    minute.set_failed(each.sums.failed);
    minute.set_others(each.sums.others);
    minute.set_late(each.sums.late);
    minute.set_lateness_max_micros(each.sums.lateness_max_micros);
    minute.set_attempts(each.sums.attempts);
    minute.set_errors(each.sums.errors);
    minute.set_held(each.sums.held);
    minute.set_max_concurrent(each.sums.max_concurrent);
    minute.set_waiting(each.sums.waiting);
  }
  return record;
}

void MinuteSums::Subject::Find(int64_t micros) {
  const int64_t minute = micros / kMinuteMicros;
  minute_begin_ = minute * kMinuteMicros;
  const uint32_t hour = static_cast<uint32_t>(minute / 60);
  auto found = micros < sums_.oldest_micros_ ? hours_.end() : hours_.find(hour);
  if (found == hours_.end()) {
    if (micros < sums_.oldest_micros_ || sums_.hours_ >= hours_max_) {
      hour_ = &sums_.unwritten_;
      hour_->minutes.resize(1);
      minute_ = &hour_->minutes[0].sums;
      return;
    }
    found = hours_.try_emplace(hour, ++sums_.hours_made_).first;
    ++sums_.hours_;
  }
  hour_ = &found->second;
  const uint32_t of_hour = static_cast<uint32_t>(minute % 60);
  std::vector<Hour::Minute>& minutes = hour_->minutes;
  auto place =
      std::lower_bound(minutes.begin(), minutes.end(), of_hour,
                       [](const Hour::Minute& each, uint32_t of) { return each.minute < of; });
  if (place == minutes.end() || place->minute != of_hour)
    place = minutes.insert(place, {.minute = of_hour, .sums = {}});
  minute_ = &place->sums;
}

MinuteSums::SubjectPtr MinuteSums::Of(const std::string& subject, size_t hours_max) {
  SubjectPtr& found = subjects_[subject];
  if (found == nullptr) found = std::make_shared<Subject>(*this, hours_max);
  return found;
}

absl::Duration MinuteSums::Step(absl::Time now) {
  if (ended_ || now == absl::InfinitePast()) return kStatisticsEvery;
  const absl::Duration elapsed = runtime_.clock().Elapsed();
  if (committing_) return kStatisticsMoreEvery;
  if (elapsed < next_) return next_ - elapsed;
  kv::Group group;
  std::vector<Hour*> taken;
  const bool more = TakeChanged(now, group, taken);
  const absl::Duration again = more ? kStatisticsMoreEvery : kStatisticsEvery;
  next_ = elapsed + again;
  if (!taken.empty()) Commit(std::move(group), std::move(taken));
  return again;
}

void MinuteSums::WriteLast(absl::Time now, Closure done) {
  CHECK(!std::exchange(ended_, true));
  last_done_ = std::move(done);
  last_now_ = now;
  if (!committing_) WriteRest();
}

// At most kStatisticsHoursMax / kStatisticsRowsMax commits.
void MinuteSums::WriteRest() {
  kv::Group group;
  std::vector<Hour*> taken;
  if (last_now_ != absl::InfinitePast()) TakeChanged(last_now_, group, taken);
  if (taken.empty()) return executor_->Post(std::exchange(last_done_, nullptr));
  Commit(std::move(group), std::move(taken));
}

bool MinuteSums::TakeChanged(absl::Time now, kv::Group& group, std::vector<Hour*>& taken) {
  const absl::Duration elapsed = runtime_.clock().Elapsed();
  oldest_micros_ = ToMicros(now - kStatisticsKeptFor);
  const uint32_t now_hour = HourOf(now);
  auto next = subjects_.upper_bound(last_);
  for (size_t left = subjects_.size(); left > 0; --left) {
    if (next == subjects_.end()) next = subjects_.begin();
    const auto here = next++;
    Subject& subject = *here->second;
    DropHours(subject, now_hour, elapsed);
    if (subject.hours_.empty()) {
      if (here->second.use_count() == 1) subjects_.erase(here);
      continue;
    }
    if (taken.size() >= kStatisticsRowsMax) return true;
    last_ = here->first;
    for (auto& [hour, sums] : subject.hours_) {
      if (!std::exchange(sums.changed, false)) continue;
      if (id_.empty()) id_ = absl::StrCat(absl::Hex(runtime_.random().Next(), absl::kZeroPad16));
      sums.written = elapsed;
      group.mutations.push_back(
          kv::Put(kv::ColumnFamily::kPolicies,
                  StatisticsKey(here->first, hour, absl::StrCat(id_, ".", sums.number)),
                  sums.Record().SerializeAsString()));
      taken.push_back(&sums);
    }
  }
  return false;
}

void MinuteSums::DropHours(Subject& subject, uint32_t now_hour, absl::Duration elapsed) {
  const size_t dropped = std::erase_if(subject.hours_, [&](const auto& each) {
    const auto& [hour, sums] = each;
    return hour < now_hour && !sums.changed && elapsed - sums.written >= kStatisticsHourKept;
  });
  if (dropped > 0) subject.hour_ = nullptr;
  hours_ -= dropped;
}

void MinuteSums::Commit(kv::Group group, std::vector<Hour*> taken) {
  committing_ = true;
  kv::Commit commit;
  commit.groups.push_back(std::move(group));
  // Hours are dropped and subjects forgotten only while no commit is under way.
  client_.CommitAsync(
      std::move(commit), executor_,
      [this, taken = std::move(taken)](const absl::StatusOr<kv::CommitResult>& result) {
        committing_ = false;
        if (!result.ok()) {
          for (Hour* const hour : taken) hour->changed = true;
        }
        if (!ended_) return;
        if (!result.ok()) last_now_ = absl::InfinitePast();
        WriteRest();
      });
}

void EndedEvents::Add(absl::string_view tenant, storage::v1::OutcomeKind outcome, uint64_t count,
                      int64_t unsent_due_micros) {
  if (!ended_.empty()) {
    Alike& last = ended_.back();
    if (last.outcome == outcome && last.unsent_due_micros == unsent_due_micros &&
        last.tenant == tenant) {
      last.count += count;
      return;
    }
  }
  ended_.push_back({std::string(tenant), outcome, unsent_due_micros, count});
}

void EndedEvents::CountIn(MinuteSums& sums, int64_t now_micros) const {
  const std::string* tenant = nullptr;
  MinuteSums::SubjectPtr subject;
  for (const Alike& each : ended_) {
    if (tenant == nullptr || *tenant != each.tenant) {
      tenant = &each.tenant;
      subject = sums.Of(TenantStatistics(each.tenant));
    }
    StatisticsSums& now = subject->At(now_micros);
    (each.outcome == storage::v1::OUTCOME_KIND_SUCCEEDED ? now.succeeded
     : each.outcome == storage::v1::OUTCOME_KIND_FAILED  ? now.failed
                                                         : now.others) += each.count;
    if (each.unsent_due_micros != 0 && each.unsent_due_micros <= now_micros + kMicrosAhead)
      subject->At(each.unsent_due_micros).due += each.count;
  }
}

}  // namespace escapement
