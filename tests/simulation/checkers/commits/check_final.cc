#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "tests/simulation/checkers/commits/commit_checks.h"

namespace escapement::simulation {

namespace {

// Far more events than any run has. Stops a broken record from taking all memory.
constexpr uint64_t kIndexMax = 1'000'000;

class FinalChecker {
 public:
  std::vector<Violation> Run(const History& history) {
    for (const Commit& commit : history.commits) {
      commit_ = &commit;
      // A commit may take an outcome back and put it again.
      for (const TimesWrite& write : commit.times) {
        const auto* outcome = std::get_if<OutcomeWrite>(&write);
        if (outcome != nullptr && outcome->deleted) TakeBack(*outcome);
      }
      for (const QueueWrite& write : commit.queue) CheckQueue(write);
      for (const TimesWrite& write : commit.times) {
        const auto* outcome = std::get_if<OutcomeWrite>(&write);
        if (outcome != nullptr && !outcome->deleted) End(*outcome);
      }
      for (const QueueWrite& write : commit.queue) {
        if (const auto* end = std::get_if<OneOffEnd>(&write))
          End({"", end->event_id}, {0, 1}, end->reason);
      }
      // An end, and a row or claim of the same event, must not be in one commit. A row that the
      // commit itself deletes is allowed.
      std::set<uint64_t> gone;
      for (auto write = commit.queue.rbegin(); write != commit.queue.rend(); ++write) {
        if (const auto* row = std::get_if<QueueGone>(&*write)) gone.insert(row->key);
        const auto* put = std::get_if<QueuePut>(&*write);
        if (put == nullptr || gone.count(put->key) == 0) CheckQueue(*write);
      }
    }
    return std::move(violations_);
  }

 private:
  // Uid, occurrence; for a one-off event: empty, event id.
  using Name = std::pair<std::string, std::string>;
  struct Ended {
    uint64_t seq = 0;           // commit of the last end
    bool whole = false;         // skipped as a whole
    uint64_t occurrences = 0;   // count of a summary
    std::vector<bool> indices;  // true for events that have ended
    bool told = false;          // whether reported; one violation of each run is enough
  };

  template <typename... Parts>
  void Report(const Name& name, Ended* ended, const Parts&... parts) {
    if (std::exchange(ended->told, true)) return;
    violations_.push_back(
        {"final", absl::StrCat("commit ", commit_->seq, ": ", name.first, " ", name.second, " ",
                               parts..., ", and had ended with commit ", ended->seq)});
  }

  static bool Any(const Ended& ended, const Indices& events) {
    if (ended.whole) return true;
    const uint64_t last = std::min<uint64_t>(events.first + events.count, ended.indices.size());
    for (uint64_t i = events.first; i < last; ++i) {
      if (ended.indices[i]) return true;
    }
    return false;
  }

  void CheckGoes(const Name& name, const Indices& events, const char* what) {
    const auto ended = ended_.find(name);
    if (ended == ended_.end() || !Any(ended->second, events)) return;
    Report(name, &ended->second, "[", events.first, " +", events.count, "] ", what);
  }

  void CheckQueue(const QueueWrite& write) {
    if (const auto* claim = std::get_if<ClaimPut>(&write)) {
      for (const ClaimedEvents& events : claim->events)
        CheckGoes({events.uid, events.occurrence}, events.events, "is claimed");
    } else if (const auto* row = std::get_if<QueuePut>(&write)) {
      CheckGoes({row->uid, row->occurrence}, row->events, "is put into a queue");
    }
  }

  void TakeBack(const OutcomeWrite& outcome) {
    const auto it = ended_.find({outcome.uid, outcome.occurrence});
    if (it == ended_.end()) return;
    Ended& ended = it->second;
    if (ended.whole) {
      ended_.erase(it);
    } else if (outcome.first < ended.indices.size()) {
      // The write does not say how many events the record stood for. This takes one run of ended
      // events as one record.
      for (uint64_t i = outcome.first; i < ended.indices.size() && ended.indices[i]; ++i)
        ended.indices[i] = false;
    }
  }

  void End(const OutcomeWrite& outcome) {
    const Name name{outcome.uid, outcome.occurrence};
    if (!outcome.run_skipped) return End(name, {outcome.first, outcome.count}, outcome.reason);
    Ended& ended = ended_[name];
    const bool counts_up = ended.whole && outcome.occurrences > ended.occurrences;
    if ((ended.whole && !counts_up) || !ended.indices.empty())
      Report(name, &ended, "is skipped as a whole (", outcome.reason, ")");
    ended.whole = true;
    ended.occurrences = outcome.occurrences;
    ended.seq = commit_->seq;
  }

  void End(const Name& name, const Indices& events, const std::string& reason) {
    Ended& ended = ended_[name];
    if (Any(ended, events))
      Report(name, &ended, "[", events.first, " +", events.count, "] ends again (", reason, ")");
    const uint64_t last = std::min(events.first + events.count, kIndexMax);
    if (ended.indices.size() < last) ended.indices.resize(last);
    for (uint64_t i = events.first; i < last; ++i) ended.indices[i] = true;
    ended.seq = commit_->seq;
  }

  const Commit* commit_ = nullptr;
  std::map<Name, Ended> ended_;
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> CheckFinal(const History& history) { return FinalChecker().Run(history); }

namespace {

struct Counts {
  uint64_t succeeded = 0;
  uint64_t failed = 0;
};

class CountsChecker {
 public:
  std::vector<Violation> Run(const History& history) {
    for (const Commit& commit : history.commits) {
      std::map<std::string, Counts> ended;  // by uid
      for (const TimesWrite& write : commit.times) {
        if (const auto* outcome = std::get_if<OutcomeWrite>(&write)) Count(*outcome, ended);
      }
      std::map<std::string, Counts> added;
      for (const ScheduleCountsWrite& write : commit.schedule_counts) Add(write, added);
      for (const auto& [uid, counts] : ended) added.try_emplace(uid);
      for (const auto& [uid, counts] : added) {
        const Counts& events = ended[uid];
        if (counts.succeeded == events.succeeded && counts.failed == events.failed) continue;
        violations_.push_back(
            {"counts",
             absl::StrCat("commit ", commit.seq, " ends ", events.succeeded, " events of ", uid,
                          " as succeeded and ", events.failed, " as failed, and adds ",
                          counts.succeeded, " and ", counts.failed, " to its counts")});
      }
    }
    return std::move(violations_);
  }

 private:
  static void Count(const OutcomeWrite& outcome, std::map<std::string, Counts>& ended) {
    if (outcome.deleted || outcome.occurrence.empty()) return;  // deleted, or a one-off event
    if (outcome.outcome == Outcome::kSucceeded) ended[outcome.uid].succeeded += outcome.count;
    if (outcome.outcome == Outcome::kFailed) ended[outcome.uid].failed += outcome.count;
  }

  // Counts that fall wrap around, which no ended events can explain.
  void Add(const ScheduleCountsWrite& write, std::map<std::string, Counts>& added) {
    Counts& before = parts_[{write.uid, write.part}];
    Counts& sum = added[write.uid];
    sum.succeeded += write.succeeded - before.succeeded;
    sum.failed += write.failed - before.failed;
    before = {write.succeeded, write.failed};
  }

  std::map<std::pair<std::string, uint16_t>, Counts> parts_;
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> CheckCounts(const History& history) { return CountsChecker().Run(history); }

namespace {

struct ReportCounts {
  uint64_t never_started = 0;
  uint64_t tokens = 0;
  bool operator==(const ReportCounts&) const = default;
};

class ReportsChecker {
 public:
  std::vector<Violation> Run(const History& history) {
    for (const Commit& commit : history.commits) {
      std::map<Name, ReportCounts> expected;
      for (const TimesWrite& write : commit.times) {
        if (const auto* outcome = std::get_if<OutcomeWrite>(&write)) Count(*outcome, expected);
      }
      for (const ThrottleWrite& write : commit.throttle) {
        if (const auto* grant = std::get_if<GrantWrite>(&write)) Count(*grant, expected);
      }
      std::map<Name, ReportCounts> added;
      for (const RunReportWrite& write : commit.run_reports) {
        ReportCounts& before = parts_[{{write.uid, write.occurrence}, write.part}];
        ReportCounts& sum = added[{write.uid, write.occurrence}];
        sum.never_started += write.never_started - before.never_started;
        sum.tokens += write.tokens - before.tokens;
        before = {write.never_started, write.tokens};
      }
      for (const auto& [run, counts] : added) {
        const ReportCounts& right = expected[run];
        if (counts == right) continue;
        violations_.push_back(
            {"reports",
             absl::StrCat("commit ", commit.seq, " adds to the report of ", run.first, " ",
                          run.second, " ", counts.never_started, " events that never started and ",
                          counts.tokens, " tokens, and not ", right.never_started, " and ",
                          right.tokens)});
      }
    }
    return std::move(violations_);
  }

 private:
  using Name = std::pair<std::string, std::string>;  // uid, occurrence

  void Count(const OutcomeWrite& outcome, std::map<Name, ReportCounts>& expected) {
    if (outcome.occurrence.empty() || outcome.run_skipped) return;
    const Name run = {outcome.uid, outcome.occurrence};
    uint64_t& known = never_started_[{run, outcome.first}];
    if (outcome.deleted) {
      expected[run].never_started -= std::exchange(known, 0);
      return;
    }
    known = outcome.attempts > 0 ? 0 : outcome.count;
    expected[run].never_started += known;
  }

  // A new grant of an event that sleeps keeps a token. Without a policy there are no tokens.
  void Count(const GrantWrite& grant, std::map<Name, ReportCounts>& expected) {
    if (grant.deleted || !grants_.insert(grant.name).second) return;
    if (grant.retry_at > absl::InfinitePast() || grant.name.policy == grant.uid) return;
    uint64_t& tokens = expected[{grant.uid, grant.occurrence}].tokens;
    for (const Indices& events : grant.holders) tokens += events.count * grant.weight;
  }

  std::map<std::pair<Name, uint16_t>, ReportCounts> parts_;
  std::map<std::pair<Name, uint64_t>, uint64_t> never_started_;  // by first event of the record
  std::set<GrantName> grants_;
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> CheckReports(const History& history) {
  return ReportsChecker().Run(history);
}

}  // namespace escapement::simulation
