#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/simulation/checkers/commits/commit_checks.h"

namespace escapement::simulation {
namespace {

using Kind = StateWrite::Kind;

class PausedChecker {
 public:
  explicit PausedChecker(const History& history) : history_(history) {}

  std::vector<Violation> Run() {
    for (const Commit& commit : history_.commits) {
      for (const QueueWrite& write : commit.queue) {
        if (const auto* claim = std::get_if<ClaimPut>(&write)) CheckClaim(commit, *claim);
      }
      for (const QueueWrite& write : commit.queue) {
        if (const auto* state = std::get_if<StateWrite>(&write)) Take(commit, *state);
      }
    }
    for (const Receipt& receipt : history_.receipts) CheckReceipt(receipt);
    return std::move(violations_);
  }

 private:
  struct Schedule {
    StateWrite state;
    // From each of these times on, events are to be sent (true) or not (false).
    std::vector<std::pair<absl::Time, bool>> sends;
  };

  static bool Sends(Kind kind) { return kind == Kind::kEnabled || kind == Kind::kFinished; }

  static const char* Name(Kind kind) {
    switch (kind) {
      case Kind::kGone:
        return "not there";
      case Kind::kEnabled:
        return "enabled";
      case Kind::kFinished:
        return "finished";
      case Kind::kPaused:
        return "paused";
      case Kind::kDeleted:
        return "deleted";
    }
    return "";
  }

  void Take(const Commit& commit, const StateWrite& state) {
    Schedule& schedule = schedules_[state.uid];
    schedule.state = state;
    const bool sends = Sends(state.kind);
    if (schedule.sends.empty() || schedule.sends.back().second != sends)
      schedule.sends.emplace_back(commit.time, sends);
  }

  void CheckClaim(const Commit& commit, const ClaimPut& claim) {
    for (const ClaimedEvents& events : claim.events) {
      if (events.uid.empty()) continue;
      const StateWrite& state = schedules_[events.uid].state;
      const auto report = [&](const std::string& why) {
        violations_.push_back(
            {"paused", absl::StrCat("commit ", commit.seq, " at ",
                                    absl::FormatTime(commit.time, absl::UTCTimeZone()), " claims ",
                                    events.uid, " ", events.occurrence, "[", events.events.first,
                                    " +", events.events.count, "] ", why)});
      };
      const bool triggered = state.kind == Kind::kPaused && events.trigger_time > state.paused_at;
      if (triggered)
        triggered_in_pause_.insert(
            {events.uid, events.occurrence, schedules_[events.uid].sends.back().first});
      if (!Sends(state.kind) && !triggered)
        report(absl::StrCat("whose schedule is ", Name(state.kind)));
      if (events.version != state.version)
        report(absl::StrCat("for version ", events.version, ", and version ", state.version,
                            " is in force"));
    }
  }

  void CheckReceipt(const Receipt& receipt) {
    const auto schedule = schedules_.find(receipt.uid);
    if (schedule == schedules_.end()) return;
    const auto& sends = schedule->second.sends;
    auto after = std::upper_bound(
        sends.begin(), sends.end(), receipt.sent,
        [](absl::Time at, const std::pair<absl::Time, bool>& step) { return at < step.first; });
    if (after == sends.begin() || (--after)->second) return;
    if (triggered_in_pause_.count({receipt.uid, receipt.occurrence, after->first}) > 0) return;
    if (receipt.sent <= after->first + receipt.timeout) return;
    violations_.push_back(
        {"paused",
         absl::StrCat("event ", receipt.event_id, " ", receipt.occurrence, "[", receipt.index,
                      "] of ", receipt.uid, " attempt ", receipt.attempt, " was sent at ",
                      absl::FormatTime(receipt.sent, absl::UTCTimeZone()), " from ", receipt.sender,
                      ", and its schedule was paused or deleted at ",
                      absl::FormatTime(after->first, absl::UTCTimeZone()))});
  }

  const History& history_;
  std::map<std::string, Schedule> schedules_;  // by uid
  // Runs that were rightly claimed during a pause: uid, occurrence, begin of the pause.
  std::set<std::tuple<std::string, std::string, absl::Time>> triggered_in_pause_;
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> CheckPaused(const History& history) { return PausedChecker(history).Run(); }

}  // namespace escapement::simulation
