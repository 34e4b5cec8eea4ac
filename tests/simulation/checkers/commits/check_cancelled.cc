#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/simulation/checkers/commits/commit_checks.h"

namespace escapement::simulation {
namespace {

class CancelledChecker {
 public:
  explicit CancelledChecker(const History& history) : history_(history) {
    for (const ScheduleLife& life : history.schedules) {
      for (const CancelledRun& cancel : life.cancels) wanted_.insert({life.uid, cancel.occurrence});
    }
  }

  std::vector<Violation> Run() {
    for (const Commit& commit : history_.commits) {
      for (const QueueWrite& write : commit.queue) {
        if (const auto* claim = std::get_if<ClaimPut>(&write)) CheckClaim(commit, *claim);
      }
      for (const QueueWrite& write : commit.queue) {
        if (const auto* state = std::get_if<StateWrite>(&write)) Take(commit, *state);
      }
      for (const TimesWrite& write : commit.times) {
        if (const auto* end = std::get_if<OutcomeWrite>(&write)) CheckEnd(commit, *end);
      }
    }
    for (const Receipt& receipt : history_.receipts) CheckReceipt(receipt);
    CheckAnswers();
    return std::move(violations_);
  }

 private:
  using RunName = std::pair<std::string, std::string>;  // uid, occurrence

  template <typename... Parts>
  void Report(absl::Time time, const RunName& run, const Parts&... parts) {
    violations_.push_back(
        {"cancelled", absl::StrCat("at ", absl::FormatTime(time, absl::UTCTimeZone()), ": run ",
                                   run.second, " of ", run.first, " ", parts...)});
  }

  void Take(const Commit& commit, const StateWrite& state) {
    for (const std::string& occurrence : state.cancelled_runs) {
      const RunName run = {state.uid, occurrence};
      if (!cancelled_.try_emplace(run, commit.time).second) continue;
      if (wanted_.count(run) == 0) Report(commit.time, run, "is cancelled, and nobody wanted that");
    }
  }

  void CheckClaim(const Commit& commit, const ClaimPut& claim) {
    for (const ClaimedEvents& events : claim.events) {
      const RunName run = {events.uid, events.occurrence};
      if (cancelled_.count(run) > 0)
        Report(commit.time, run, "is cancelled, and [", events.events.first, " +",
               events.events.count, "] of it are claimed");
    }
  }

  void CheckEnd(const Commit& commit, const OutcomeWrite& end) {
    if (end.deleted || end.outcome != Outcome::kCancelled) return;
    const RunName run = {end.uid, end.occurrence};
    ended_.insert(run);
    if (end.reason == "cancelled" && cancelled_.count(run) == 0)
      Report(commit.time, run, "has events that end as cancelled, and it is not");
  }

  void CheckReceipt(const Receipt& receipt) {
    const RunName run = {receipt.uid, receipt.occurrence};
    const auto since = cancelled_.find(run);
    if (since == cancelled_.end() || receipt.sent <= since->second + receipt.timeout) return;
    Report(receipt.sent, run, "was cancelled at ",
           absl::FormatTime(since->second, absl::UTCTimeZone()), ", and [", receipt.index,
           "] of it is sent");
  }

  void CheckAnswers() {
    for (const ScheduleLife& life : history_.schedules) {
      for (const CancelledRun& cancel : life.cancels) {
        const RunName run = {life.uid, cancel.occurrence};
        if (cancel.cancelled && cancelled_.count(run) == 0 && ended_.count(run) == 0)
          Report(cancel.called, run, "was cancelled, as the user was told, and is not");
      }
    }
  }

  const History& history_;
  std::set<RunName> wanted_;
  std::map<RunName, absl::Time> cancelled_;  // run → when it was cancelled
  std::set<RunName> ended_;                  // runs with events that ended as cancelled
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> CheckCancelled(const History& history) {
  return CancelledChecker(history).Run();
}

}  // namespace escapement::simulation
