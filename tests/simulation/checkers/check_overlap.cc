#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/simulation/checkers/checkers.h"

namespace escapement::simulation {
namespace {

using Overlap = Definition::Overlap;

// Events that were claimed before their run was cancelled are sent within this time.
constexpr absl::Duration kSentAfterClaim = absl::Seconds(1);

class OverlapChecker {
 public:
  explicit OverlapChecker(const History& history) : history_(history) {
    for (const ScheduleLife& life : history.schedules) {
      for (const ScheduleChange& change : life.changes) {
        if (change.kind == ScheduleChange::Kind::kCreate ||
            change.kind == ScheduleChange::Kind::kUpdate)
          versions_[life.uid].push_back(&change);
      }
    }
  }

  std::vector<Violation> Run() {
    for (const Commit& commit : history_.commits) {
      commit_ = &commit;
      for (const TimesWrite& write : commit.times)
        std::visit([this](const auto& one) { Take(one); }, write);
      for (const TimesWrite& write : commit.times) {
        if (const auto* launch = std::get_if<LaunchWrite>(&write)) CheckCancels(*launch);
      }
    }
    if (history_.only_downtimes) CheckReceipts();
    return std::move(violations_);
  }

 private:
  struct Schedule {
    std::set<std::string> active;
    // Launched run → number of its events that have not ended.
    std::map<std::string, int64_t> open;
    std::map<std::string, absl::Time> nominal;  // launched run → its nominal time
    std::set<std::string> set_off;              // runs that were triggered or backfilled
    std::optional<LaunchWrite> launched;
    std::map<absl::Time, absl::Time> cancelled;  // "runs before this nominal time" → when cancelled
    absl::Time cancelled_before = absl::InfinitePast();
  };

  template <typename... Parts>
  void Report(const Parts&... parts) {
    violations_.push_back(
        {"overlap",
         absl::StrCat("commit ", commit_->seq, " at ",
                      absl::FormatTime(commit_->store_time, absl::UTCTimeZone()), ": ", parts...)});
  }

  // nullopt if there is no such version.
  std::optional<Overlap> PolicyOf(const std::string& uid, uint64_t version) const {
    const auto of_life = versions_.find(uid);
    if (of_life == versions_.end() || version == 0 || version > of_life->second.size())
      return std::nullopt;
    return of_life->second[version - 1]->definition.overlap;
  }

  void Take(const EmissionWrite& write) {
    Schedule& schedule = schedules_[write.uid];
    if (write.triggered) schedule.set_off.insert(write.occurrence);
  }

  void Take(const MarkWrite& write) {
    std::set<std::string>& active = schedules_[write.uid].active;
    if (write.deleted) {
      active.erase(write.occurrence);
    } else {
      active.insert(write.occurrence);
    }
  }

  void Take(const LaunchWrite& write) {
    Schedule& schedule = schedules_[write.uid];
    const std::optional<Overlap> policy = PolicyOf(write.uid, write.version);
    if (!policy.has_value()) Report(write.occurrence, " is launched for an unknown version");
    const bool alone = policy == Overlap::kSkip || policy == Overlap::kBufferOne;
    if (alone && !schedule.active.empty())
      Report(write.occurrence, " of ", write.uid, " is launched while ", *schedule.active.begin(),
             " is active");
    if (alone && !schedule.open.empty())
      Report(write.occurrence, " of ", write.uid, " is launched, and events of ",
             schedule.open.begin()->first, " have not ended");
    schedule.open[write.occurrence] = static_cast<int64_t>(write.count);
    schedule.nominal[write.occurrence] = write.nominal;
    schedule.launched = write;
  }

  // A launch under CANCEL_PREVIOUS must cancel the earlier runs in the same commit.
  void CheckCancels(const LaunchWrite& write) {
    const Schedule& schedule = schedules_[write.uid];
    if (PolicyOf(write.uid, write.version) != Overlap::kCancelPrevious ||
        schedule.set_off.count(write.occurrence) > 0 || schedule.cancelled_before >= write.nominal)
      return;
    for (const auto& [occurrence, events] : schedule.open) {
      if (schedule.nominal.at(occurrence) >= write.nominal ||
          schedule.set_off.count(occurrence) > 0)
        continue;
      return Report(write.occurrence, " of ", write.uid, " is launched, and does not cancel ",
                    occurrence);
    }
  }

  void Take(const CancelWrite& write) {
    Schedule& schedule = schedules_[write.uid];
    if (write.before == schedule.cancelled_before) return;
    if (write.before < schedule.cancelled_before)
      Report("runs of ", write.uid, " that were cancelled are no more");
    const bool explained =
        schedule.launched.has_value() && schedule.launched->nominal == write.before &&
        PolicyOf(write.uid, schedule.launched->version) == Overlap::kCancelPrevious;
    if (!explained) Report("runs of ", write.uid, " are cancelled by no launch");
    schedule.cancelled_before = write.before;
    schedule.cancelled[write.before] = commit_->time;
  }

  void Take(const OutcomeWrite& write) {
    if (write.deleted) return;
    Schedule& schedule = schedules_[write.uid];
    if (const auto run = schedule.open.find(write.occurrence); run != schedule.open.end()) {
      run->second -= static_cast<int64_t>(write.count);
      if (run->second <= 0) schedule.open.erase(run);
    }
    const bool gave_way = write.nominal < schedule.cancelled_before;
    // check_cancelled judges runs that CancelRun cancelled.
    if (write.outcome == Outcome::kCancelled && write.reason != "cancelled") {
      if (write.reason != "overlap" || !gave_way || schedule.set_off.count(write.occurrence) > 0)
        Report(write.occurrence, " of ", write.uid, " is cancelled (", write.reason,
               "), and gave way to no run");
    }
    if (write.outcome != Outcome::kSkipped || write.reason != "overlap") return;
    if (!write.run_skipped)
      Report(write.occurrence, " of ", write.uid, " has rows, and is skipped");
    if (schedule.active.empty() && !gave_way)
      Report(write.occurrence, " of ", write.uid, " is skipped (overlap), and no run is active");
    if (!AnyPolicy(write.uid))
      Report(write.occurrence, " of ", write.uid, " is skipped (overlap), and may overlap");
  }

  bool AnyPolicy(const std::string& uid) const {
    const auto of_life = versions_.find(uid);
    return of_life != versions_.end() &&
           std::any_of(of_life->second.begin(), of_life->second.end(),
                       [&](const ScheduleChange* change) {
                         return change->definition.overlap != Overlap::kAllow &&
                                change->called <= commit_->time;
                       });
  }

  void CheckReceipts() {
    for (const Receipt& receipt : history_.receipts) {
      const auto schedule = schedules_.find(receipt.uid);
      if (schedule == schedules_.end() || schedule->second.set_off.count(receipt.occurrence) > 0)
        continue;
      const auto cancelled = schedule->second.cancelled.upper_bound(receipt.nominal);
      if (cancelled == schedule->second.cancelled.end()) continue;
      if (receipt.sent <= cancelled->second + kSentAfterClaim) continue;
      violations_.push_back(
          {"overlap", absl::StrCat("event ", receipt.event_id, " ", receipt.occurrence, "[",
                                   receipt.index, "] of ", receipt.uid, " was sent at ",
                                   absl::FormatTime(receipt.sent, absl::UTCTimeZone()),
                                   ", and its run had given way at ",
                                   absl::FormatTime(cancelled->second, absl::UTCTimeZone()))});
    }
  }

  const History& history_;
  std::map<std::string, std::vector<const ScheduleChange*>> versions_;  // by uid
  std::map<std::string, Schedule> schedules_;                           // by uid
  const Commit* commit_ = nullptr;
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> CheckOverlap(const History& history) {
  return OverlapChecker(history).Run();
}

}  // namespace escapement::simulation
