#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/simulation/checkers/checkers.h"
#include "tests/simulation/checkers/model/expectations.h"

namespace escapement::simulation {

namespace {

// A change around the time of the account may be seen before or after it.
constexpr absl::Duration kBlur = absl::Seconds(2);

class AccountChecker {
 public:
  AccountChecker(const History& history, const Expectations& expected)
      : history_(history), expected_(expected) {
    for (const DoneRow& row : history.done) {
      rows_[{row.uid, row.occurrence}].push_back(&row);
      if (row.occurrences > 1) summaries_[row.uid].push_back(&row);
    }
  }

  std::vector<Violation> Run() {
    for (const AccountSeen& account : history_.accounts) CheckOne(account);
    return std::move(violations_);
  }

 private:
  using Key =
      std::pair<std::string, std::string>;  // schedule and occurrence, or uid and occurrence

  template <typename... Parts>
  void Report(const AccountSeen& account, const Parts&... parts) {
    violations_.push_back(
        {"account",
         absl::StrCat("account of ", absl::FormatTime(account.called, absl::UTCTimeZone()), ": ",
                      parts...)});
  }

  static std::string Name(const AccountedRun& run) {
    return absl::StrCat(run.schedule, "/", run.occurrence, " (", run.result, " ", run.reason, ")");
  }

  // The only incarnation of the schedule from the account's call until `end`; null if there was
  // none or several.
  const ScheduleLife* LifeDuring(const AccountSeen& account, absl::Time end,
                                 const std::string& schedule, size_t* index) const {
    const ScheduleLife* found = nullptr;
    for (size_t i = 0; i < history_.schedules.size(); ++i) {
      const ScheduleLife& life = history_.schedules[i];
      if (life.id != schedule || life.changes.empty()) continue;
      const ScheduleChange& last = life.changes.back();
      const bool deleted = last.kind == ScheduleChange::Kind::kDelete;
      if (life.changes.front().answered < account.called && (!deleted || last.called > end)) {
        found = &life;
        *index = i;
      } else if (life.changes.front().called < end &&
                 (!deleted || last.answered > account.called)) {
        return nullptr;
      }
    }
    return found;
  }

  void CheckOne(const AccountSeen& account) {
    std::set<Key> accounted;
    for (const AccountedRun& run : account.runs) {
      if (run.result == "UNACCOUNTED") Report(account, Name(run));
      if (!accounted.insert({run.schedule, run.occurrence}).second)
        Report(account, Name(run), " is in it twice");
    }
    if (account.counted != static_cast<int64_t>(account.runs.size()))
      Report(account, "counts ", account.counted, " of ", account.runs.size(), " occurrences");
    if (history_.clock_leaps) return;
    std::set<std::string> ids;
    for (const ScheduleLife& life : history_.schedules) ids.insert(life.id);
    for (const std::string& id : ids) {
      size_t index = 0;
      if (const ScheduleLife* life = LifeDuring(account, account.answered, id, &index))
        CheckLife(account, *life, expected_.models[index], accounted);
    }
    if (account.last) CheckLists(account);
  }

  void CheckLife(const AccountSeen& account, const ScheduleLife& life, const LifeModel& model,
                 const std::set<Key>& accounted) {
    for (const AccountedRun& run : account.runs) {
      if (run.schedule == life.id && run.nominal < account.called - kBlur)
        CheckResult(account, life, run);
    }
    // The account leaves out what may be beyond max_runs.
    const bool limited =
        std::any_of(model.versions().begin(), model.versions().end(),
                    [](const auto& version) { return version.definition.max_runs > 0; });
    if (limited) return;
    for (auto it = expected_.runs.lower_bound({life.uid, ""});
         it != expected_.runs.end() && it->first.first == life.uid; ++it) {
      const ExpectedRun& run = it->second;
      if (!run.required || run.backfilled || run.due < account.begin ||
          run.due >= account.called - kBlur || IsTriggered(life, it->first.second))
        continue;
      if (!accounted.contains({life.id, it->first.second})) {
        Report(account, "has no ", life.id, "/", it->first.second, ", which was due ",
               absl::FormatTime(run.due, absl::UTCTimeZone()));
      }
    }
  }

  static bool IsTriggered(const ScheduleLife& life, const std::string& occurrence) {
    return std::any_of(life.triggered.begin(), life.triggered.end(),
                       [&](const TriggeredRun& run) { return run.occurrence == occurrence; });
  }

  bool InSummary(const std::string& uid, absl::Time nominal) const {
    const auto of_life = summaries_.find(uid);
    return of_life != summaries_.end() &&
           std::any_of(of_life->second.begin(), of_life->second.end(), [&](const DoneRow* row) {
             return row->nominal <= nominal && nominal <= row->last;
           });
  }

  void CheckResult(const AccountSeen& account, const ScheduleLife& life, const AccountedRun& run) {
    const auto expected = expected_.runs.find({life.uid, run.occurrence});
    if (expected == expected_.runs.end())
      return Report(account, Name(run), " is in it, but nobody asked for it");
    if (run.result == "PENDING" || run.result == "UNACCOUNTED" || expected->second.backfilled)
      return;
    const auto rows = rows_.find({life.uid, run.occurrence});
    if (rows == rows_.end()) {
      if (run.result != "SKIPPED" || !InSummary(life.uid, run.nominal))
        Report(account, Name(run), " has no outcome");
      return;
    }
    bool sent = false;
    bool failed = false;
    for (const DoneRow* row : rows->second) {
      sent |= row->outcome == Outcome::kSucceeded;
      failed |= row->outcome == Outcome::kFailed || row->outcome == Outcome::kExpired ||
                row->outcome == Outcome::kCancelled;
    }
    const std::string ended = failed ? "FAILED" : sent ? "ON_TIME or LATE" : "SKIPPED";
    if (ended.find(run.result) == std::string::npos)
      Report(account, Name(run), " has ended as ", ended);
  }

  // The lists and gets came after the account, so a run may have gone on since.
  void CheckLists(const AccountSeen& account) {
    std::map<Key, const ListedRun*> listed;
    for (const ListedRun& run : account.listed) {
      if (!listed.try_emplace({run.schedule, run.occurrence}, &run).second)
        Report(account, "run ", run.schedule, "/", run.occurrence, " is listed twice");
    }
    for (const AccountedRun& run : account.runs) {
      size_t index = 0;
      const ScheduleLife* life = LifeDuring(account, account.compared, run.schedule, &index);
      if (life == nullptr || !life->backfills.empty()) continue;
      const auto found = listed.find({run.schedule, run.occurrence});
      const std::string state = found == listed.end() ? "none" : found->second->state;
      const bool failed = found != listed.end() && found->second->failed;
      const bool summarised = InSummary(life->uid, run.nominal);
      const bool waits = run.reason.find("it waits") == 0;
      if (waits && state == "none") Report(account, Name(run), " is not in the list of runs");
      if (waits && run.got == "none") Report(account, Name(run), " cannot be got");
      if (!Agrees(run, state, failed, summarised))
        Report(account, Name(run), " is ", state, " in the list of runs");
      if (!run.got.empty() && !Agrees(run, run.got, run.got_failed, summarised))
        Report(account, Name(run), " is ", run.got, " when it is got");
    }
  }

  static bool Agrees(const AccountedRun& run, const std::string& state, bool failed,
                     bool summarised) {
    // It has ended since, or is not emitted.
    if (run.result == "PENDING") return true;
    if (run.result == "SKIPPED") return state == "SKIPPED" || (state == "none" && summarised);
    if (run.result == "FAILED") return state == "CANCELLED" || (state == "COMPLETED" && failed);
    if (run.result == "ON_TIME" || run.result == "LATE") return state == "COMPLETED" && !failed;
    return true;
  }

  const History& history_;
  const Expectations& expected_;
  std::map<Key, std::vector<const DoneRow*>> rows_;               // by uid and occurrence
  std::map<std::string, std::vector<const DoneRow*>> summaries_;  // by uid
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> CheckAccount(const History& history, const Expectations& expected) {
  return AccountChecker(history, expected).Run();
}

std::vector<Violation> CheckAccount(const History& history) {
  return CheckAccount(history, Expect(history));
}

}  // namespace escapement::simulation
