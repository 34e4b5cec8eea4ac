#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
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
    CheckBodies();
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

  // An event that was replaced is never sent.
  void CheckBodies() {
    std::unordered_map<std::string, const OneOff*> one_offs;
    for (const OneOff& one_off : history_.one_offs) one_offs[one_off.event_id] = &one_off;
    for (const Receipt& receipt : history_.receipts) {
      const auto found = receipt.uid.empty() ? one_offs.find(receipt.event_id) : one_offs.end();
      if (found == one_offs.end() || found->second->bodies.empty()) continue;
      if (!found->second->bodies.contains(receipt.body_hash))
        Report("event ", receipt.event_id, " was sent with the body of another revision");
    }
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

std::vector<Violation> CheckRequests(const History& history) {
  struct Seen {
    uint64_t seq = 0;
  };
  std::vector<Violation> violations;
  std::unordered_map<std::string, Seen> written;  // by request: its last record
  std::unordered_map<std::string, bool> present;
  for (const Commit& commit : history.commits) {
    for (const QueueWrite& write : commit.queue) {
      const auto* request = std::get_if<RequestWrite>(&write);
      if (request == nullptr) continue;
      bool& there = present[request->request];
      if (request->deleted) {
        there = false;  // the record has expired
        continue;
      }
      if (there) {
        violations.push_back(
            {"requests", absl::StrCat("commit ", commit.seq, ": request ", request->request, " (",
                                      request->method, ") takes effect again, after commit ",
                                      written[request->request].seq)});
      }
      there = true;
      written[request->request] = {commit.seq};
    }
  }
  std::unordered_map<std::string, const Answer*> first;  // by request
  for (const Answer& answer : history.answers) {
    const auto record = written.find(answer.request_id);
    const Answer& before = *first.try_emplace(answer.request_id, &answer).first->second;
    if (record == written.end()) {
      violations.push_back({"requests", absl::StrCat("request ", answer.request_id,
                                                     " was answered OK, and no commit has it")});
    } else if (before.response_hash != answer.response_hash) {
      violations.push_back(
          {"requests", absl::StrCat("request ", answer.request_id, " was answered at ",
                                    absl::FormatTime(answer.time, absl::UTCTimeZone()),
                                    ", and otherwise than at ",
                                    absl::FormatTime(before.time, absl::UTCTimeZone()))});
    }
  }
  return violations;
}

namespace {

class AcknowledgedChecker {
 public:
  explicit AcknowledgedChecker(const History& history) : history_(history) {}

  std::vector<Violation> Run() {
    CheckDense();
    for (const Acknowledged& told : history_.acknowledged) CheckTold(told);
    CheckRealTime();
    return std::move(violations_);
  }

 private:
  template <typename... Parts>
  void Report(const Parts&... parts) {
    violations_.push_back({"acknowledged", absl::StrCat(parts...)});
  }
  template <typename... Parts>
  void ReportTold(const Acknowledged& told, const Parts&... parts) {
    Report(told.process, " was told at ", absl::FormatTime(told.answered, absl::UTCTimeZone()),
           " that its commit (session ", told.session, " number ", told.number, ") is ", told.seq,
           ": ", parts...);
  }

  void CheckDense() {
    // Session → number → seq.
    std::unordered_map<uint64_t, std::unordered_map<uint64_t, uint64_t>> seen;
    for (size_t i = 0; i < history_.commits.size(); ++i) {
      const Commit& commit = history_.commits[i];
      if (i > 0 && commit.seq != history_.commits[i - 1].seq + 1)
        Report("commit ", commit.seq, " follows ", history_.commits[i - 1].seq);
      if (commit.session == 0) continue;  // the store's own commit
      const auto [first, fresh] = seen[commit.session].try_emplace(commit.number, commit.seq);
      if (!fresh)
        Report("commit ", commit.seq, " is that of session ", commit.session, " number ",
               commit.number, ", which was commit ", first->second);
    }
  }

  const Commit* Find(uint64_t seq) const {
    const auto it =
        std::lower_bound(history_.commits.begin(), history_.commits.end(), seq,
                         [](const Commit& commit, uint64_t at) { return commit.seq < at; });
    return it == history_.commits.end() || it->seq != seq ? nullptr : &*it;
  }

  void CheckTold(const Acknowledged& told) {
    if (!told.applied) return;
    const Commit* commit = Find(told.seq);
    if (commit == nullptr) return ReportTold(told, "there is no such commit");
    if (commit->session != told.session || commit->number != told.number)
      return ReportTold(told, "it is one of session ", commit->session, " number ", commit->number);
    if (commit->verdicts != told.verdicts) ReportTold(told, "other groups of it have applied");
    if (commit->time > told.answered)
      ReportTold(told, "it became durable at ",
                 absl::FormatTime(commit->time, absl::UTCTimeZone()));
  }

  // Goes through the commits in order of their calls, and compares each with the highest sequence
  // that had been answered before the call.
  void CheckRealTime() {
    std::vector<const Acknowledged*> by_call;
    for (const Acknowledged& told : history_.acknowledged) {
      if (told.applied) by_call.push_back(&told);
    }
    std::vector<const Acknowledged*> by_answer = by_call;
    std::stable_sort(
        by_call.begin(), by_call.end(),
        [](const Acknowledged* a, const Acknowledged* b) { return a->called < b->called; });
    std::stable_sort(
        by_answer.begin(), by_answer.end(),
        [](const Acknowledged* a, const Acknowledged* b) { return a->answered < b->answered; });
    uint64_t highest = 0;
    size_t answered = 0;
    for (const Acknowledged* told : by_call) {
      for (; answered < by_answer.size() && by_answer[answered]->answered < told->called;
           ++answered)
        highest = std::max(highest, by_answer[answered]->seq);
      if (told->seq <= highest)
        ReportTold(*told, "before it was called somebody had been told of commit ", highest);
    }
  }

  const History& history_;
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> CheckAcknowledged(const History& history) {
  return AcknowledgedChecker(history).Run();
}

}  // namespace escapement::simulation
