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

using RunRows = std::map<std::pair<std::string, std::string>, std::vector<const DoneRow*>>;

class LostChecker {
 public:
  LostChecker(const History& history, const Expectations& expected)
      : history_(history), expected_(expected.runs) {
    for (const ScheduleLife& life : history.schedules) {
      if (life.may_drop) may_drop_.insert(life.uid);
    }
  }

  std::vector<Violation> Run() {
    RunRows rows;
    std::map<std::string, std::vector<const DoneRow*>> one_off_rows;
    for (const DoneRow& row : history_.done) {
      if (row.uid.empty()) {
        one_off_rows[row.event_id].push_back(&row);
      } else {
        rows[{row.uid, row.occurrence}].push_back(&row);
      }
    }
    for (auto& [key, of_run] : rows) CheckRows(key, of_run);
    CheckSummaries(rows);
    for (const auto& [key, run] : expected_) {
      if (run.required && rows.count(key) == 0 && !InSummary(key.first, run.due))
        Report(Name(key, run), " has no outcome");
    }
    for (const OneOff& one_off : history_.one_offs) {
      CheckOneOff(one_off, one_off_rows[one_off.event_id]);
      one_off_rows.erase(one_off.event_id);
    }
    for (const auto& [event_id, unknown] : one_off_rows)
      Report("event ", event_id, " ended, but nobody made it");
    for (const std::string& row : history_.leftover) Report("left over: ", row);
    return std::move(violations_);
  }

 private:
  template <typename... Parts>
  void Report(const Parts&... parts) {
    violations_.push_back({"lost", absl::StrCat(parts...)});
  }

  static std::string Name(const std::pair<std::string, std::string>& key, const ExpectedRun& run) {
    return absl::StrCat("run ", key.second, " of ", key.first, " due ",
                        absl::FormatTime(run.due, absl::UTCTimeZone()));
  }

  // A summary stands for occurrences without a record of their own. One of them is the occurrence
  // in its key.
  void CheckSummaries(const RunRows& rows) {
    for (const auto& [key, of_run] : rows) {
      for (const DoneRow* row : of_run) {
        if (row->occurrences > 1) summaries_[key.first].push_back(row);
      }
    }
    for (auto& [uid, of_life] : summaries_) {
      std::sort(of_life.begin(), of_life.end(),
                [](const DoneRow* a, const DoneRow* b) { return a->nominal < b->nominal; });
      for (size_t i = 0; i < of_life.size(); ++i) {
        if (i > 0 && of_life[i]->nominal <= of_life[i - 1]->last)
          Report("summary ", of_life[i]->occurrence, " of ", uid, " begins within the one before");
        CheckSummary(rows, *of_life[i]);
      }
    }
  }

  void CheckSummary(const RunRows& rows, const DoneRow& summary) {
    uint64_t at_least = 0;
    uint64_t at_most = 0;
    for (auto it = expected_.lower_bound({summary.uid, ""});
         it != expected_.end() && it->first.first == summary.uid; ++it) {
      const ExpectedRun& run = it->second;
      if (run.due < summary.nominal || run.due > summary.last) continue;
      const bool own = it->first.second == summary.occurrence;
      const bool other = !own && rows.count(it->first) > 0;
      // A backfill may fire an occurrence out of the middle of a summary; the summary still counts
      // it.
      if (own || (run.required && !other)) ++at_least;
      if (!other || run.backfilled) ++at_most;
    }
    if (summary.occurrences < at_least || summary.occurrences > at_most) {
      Report("summary ", summary.occurrence, " of ", summary.uid, " to ",
             absl::FormatTime(summary.last, absl::UTCTimeZone()), " counts ", summary.occurrences,
             " occurrences, not ", at_least, " to ", at_most);
    }
  }

  bool InSummary(const std::string& uid, absl::Time due) const {
    const auto of_life = summaries_.find(uid);
    return of_life != summaries_.end() &&
           std::any_of(of_life->second.begin(), of_life->second.end(),
                       [&](const DoneRow* row) { return due >= row->nominal && due <= row->last; });
  }

  // The rows of one run must cover [0, n) once.
  void CheckRows(const std::pair<std::string, std::string>& key,
                 std::vector<const DoneRow*>& rows) {
    const bool none_sent = std::all_of(rows.begin(), rows.end(), [](const DoneRow* row) {
      return row->outcome == Outcome::kSkipped || row->outcome == Outcome::kExpired ||
             row->outcome == Outcome::kCancelled;
    });
    auto expected = expected_.find(key);
    if (expected == expected_.end()) {
      return Report("run ", key.second, " of ", key.first,
                    " has an outcome, but nobody asked for it");
    }
    const std::string name = Name(key, expected->second);
    if (expected->second.only_skips && !none_sent) {
      return Report(name, " was delivered, but its schedule was not to fire then");
    }
    std::sort(rows.begin(), rows.end(),
              [](const DoneRow* a, const DoneRow* b) { return a->first < b->first; });
    uint64_t covered = 0;
    for (const DoneRow* row : rows) {
      if (row->outcome == Outcome::kNone)
        Report(name, " index ", row->first, " ended without an outcome");
      if (row->outcome == Outcome::kExpired && may_drop_.count(key.first) == 0)
        Report(name, " index ", row->first, " expired, but no window of it drops anything");
      if (row->outcome == Outcome::kSkipped && row->reason.empty())
        Report(name, " was skipped for no reason");
      if (row->first < covered) Report(name, " index ", row->first, " ended twice");
      if (row->first > covered)
        Report(name, " indices ", covered, " to ", row->first - 1, " have no outcome");
      covered = std::max(covered, row->first + row->count);
    }
    if (expected->second.counts.count(static_cast<int64_t>(covered)) == 0) {
      Report(name, " has ", covered, " outcomes, not ", *expected->second.counts.rbegin());
    }
  }

  void CheckOneOff(const OneOff& one_off, const std::vector<const DoneRow*>& rows) {
    const std::string name = absl::StrCat("event ", one_off.event_id);
    if (rows.size() > 1) Report(name, " ended twice");
    if (rows.empty()) {
      if (one_off.created) Report(name, " has no outcome");
      return;
    }
    if (rows[0]->count != 1 || rows[0]->outcome == Outcome::kNone)
      Report(name, " has a malformed outcome");
    const bool cancelled = rows[0]->outcome == Outcome::kCancelled;
    if (one_off.cancelled && !cancelled) Report(name, " was cancelled, but ended otherwise");
    if (cancelled && !one_off.cancel_called) Report(name, " was cancelled by nobody");
  }

  const History& history_;
  const ExpectedRuns& expected_;
  std::set<std::string> may_drop_;                                // uids
  std::map<std::string, std::vector<const DoneRow*>> summaries_;  // by uid, in order
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> CheckLost(const History& history, const Expectations& expected) {
  return LostChecker(history, expected).Run();
}

std::vector<Violation> CheckLost(const History& history) {
  return CheckLost(history, Expect(history));
}

}  // namespace escapement::simulation
