#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
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

namespace {

// Far more events than any run has. Stops a broken record from taking all memory.
constexpr uint64_t kCountMax = 1'000'000;

class ClaimedChecker {
 public:
  explicit ClaimedChecker(const History& history) : history_(history) {}

  std::vector<Violation> Run() {
    NoteClaims();
    std::vector<const Receipt*> by_sending;
    for (const Receipt& receipt : history_.receipts) by_sending.push_back(&receipt);
    std::stable_sort(by_sending.begin(), by_sending.end(),
                     [](const Receipt* a, const Receipt* b) { return a->sent < b->sent; });
    for (const Receipt* receipt : by_sending) CheckSending(*receipt);
    return std::move(violations_);
  }

 private:
  struct Claim {
    absl::Time time;
    uint16_t shard = 0;
    // Sender, and how often the shard had been acquired.
    std::vector<std::pair<std::string, size_t>> senders;
  };

  // The name of one attempt of an event.
  static std::string NameOf(const std::string& uid, const std::string& occurrence, uint64_t index,
                            uint32_t attempt) {
    return absl::StrCat(uid, " ", occurrence, " ", index, " ", attempt);
  }

  void NoteClaims() {
    for (const Commit& commit : history_.commits) {
      for (const QueueWrite& write : commit.queue) {
        const auto* put = std::get_if<ClaimPut>(&write);
        if (put == nullptr) continue;
        for (const ClaimedEvents& events : put->events) Note(commit, put->claim.shard, events);
      }
      for (const LeaseWrite& write : commit.leases) {
        uint64_t& epoch = epochs_[write.lease];
        if (write.epoch > epoch) acquired_[write.lease].push_back(commit.time);
        epoch = std::max(epoch, write.epoch);
      }
    }
  }

  void Note(const Commit& commit, uint16_t shard, const ClaimedEvents& events) {
    const uint64_t end = events.events.first + std::min(events.events.count, kCountMax);
    for (uint64_t i = events.events.first; i < end; ++i)
      claims_[NameOf(events.uid, events.occurrence, i, events.attempts + 1)].push_back(
          {commit.time, shard, {}});
  }

  // How often the shard had been acquired by then.
  size_t Acquired(uint16_t shard, absl::Time at) const {
    const auto times = acquired_.find(absl::StrCat("queue_shard/", shard));
    if (times == acquired_.end()) return 0;
    return static_cast<size_t>(std::upper_bound(times->second.begin(), times->second.end(), at) -
                               times->second.begin());
  }

  void CheckSending(const Receipt& receipt) {
    const std::string& occurrence = receipt.uid.empty() ? receipt.event_id : receipt.occurrence;
    const auto of_attempt =
        claims_.find(NameOf(receipt.uid, occurrence, receipt.index, receipt.attempt));
    bool claimed = false;
    if (of_attempt != claims_.end()) {
      for (Claim& claim : of_attempt->second) {
        if (claim.time > receipt.sent) break;
        claimed = true;
        const auto sender = std::make_pair(receipt.sender, Acquired(claim.shard, receipt.sent));
        if (std::find(claim.senders.begin(), claim.senders.end(), sender) != claim.senders.end())
          continue;
        claim.senders.push_back(sender);
        return;
      }
    }
    violations_.push_back(
        {"claimed",
         absl::StrCat("event ", receipt.event_id, " ", receipt.occurrence, "[", receipt.index,
                      "] attempt ", receipt.attempt, " was sent at ",
                      absl::FormatTime(receipt.sent, absl::UTCTimeZone()), " from ", receipt.sender,
                      claimed ? ", which had sent it for the same claim"
                              : ", and no commit had claimed it by then")});
  }

  const History& history_;
  std::unordered_map<std::string, uint64_t> epochs_;                   // by lease
  std::unordered_map<std::string, std::vector<absl::Time>> acquired_;  // by lease
  std::unordered_map<std::string, std::vector<Claim>> claims_;         // by attempt, in order
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> CheckClaimed(const History& history) {
  return ClaimedChecker(history).Run();
}

}  // namespace escapement::simulation
