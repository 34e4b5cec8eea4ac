#include "tests/e2e/judge.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace escapement::e2e {
namespace {

constexpr size_t kProblemsShown = 5;

struct Seen {
  const Arrival* first = nullptr;
  uint64_t arrivals = 0;
};

// Keeps the first few problems and counts the rest.
class Problems {
 public:
  void Add(std::string words) {
    if (++count_ <= kProblemsShown) shown_.push_back(std::move(words));
  }
  std::vector<std::string> Take() {
    if (count_ > kProblemsShown)
      shown_.push_back(absl::StrCat("… and ", count_ - kProblemsShown, " more"));
    return std::move(shown_);
  }

 private:
  std::vector<std::string> shown_;
  size_t count_ = 0;
};

int64_t Percentile(const std::vector<int64_t>& sorted, double fraction) {
  if (sorted.empty()) return 0;
  const size_t rank = static_cast<size_t>(fraction * static_cast<double>(sorted.size()));
  return sorted[std::min(rank, sorted.size() - 1)];
}

// Checks every event: one id has one body and place; none is early; none comes again.
std::vector<Seen> JudgeCommon(const std::vector<Arrival>& arrivals, bool again_allowed,
                              Verdict* verdict, Problems* problems) {
  absl::flat_hash_map<std::string, size_t> places;
  std::vector<Seen> events;
  std::vector<int64_t> lateness;
  for (const Arrival& arrival : arrivals) {
    const auto [place, is_new] = places.emplace(arrival.event_id, events.size());
    if (is_new) {
      events.push_back({&arrival, 0});
      lateness.push_back(std::max<int64_t>(0, arrival.wall_micros - arrival.launch_micros));
    }
    Seen& seen = events[place->second];
    ++seen.arrivals;
    if (arrival.wall_micros < arrival.launch_micros) {
      ++verdict->early;
      problems->Add(absl::StrCat(arrival.event_id, " arrived ",
                                 arrival.launch_micros - arrival.wall_micros, " µs early"));
    }
    if (arrival.body_hash != seen.first->body_hash || arrival.index != seen.first->index ||
        arrival.launch_micros != seen.first->launch_micros) {
      problems->Add(absl::StrCat(arrival.event_id, " came again as something else"));
    }
    if (seen.arrivals > 1) {
      ++verdict->again;
      if (!again_allowed)
        problems->Add(absl::StrCat(arrival.event_id, " arrived ", seen.arrivals, " times"));
    }
  }
  verdict->events = events.size();
  std::sort(lateness.begin(), lateness.end());
  verdict->p50_micros = Percentile(lateness, 0.50);
  verdict->p99_micros = Percentile(lateness, 0.99);
  verdict->max_micros = lateness.empty() ? 0 : lateness.back();
  return events;
}

// Requires one event for each of `instants`. Returns how many came for each launch time.
std::map<int64_t, int> JudgeFired(const std::vector<Arrival>& arrivals,
                                  const std::set<int64_t>& instants, bool again_allowed,
                                  Verdict* verdict, Problems* problems) {
  verdict->expected = instants.size();
  std::map<int64_t, int> fired;
  for (const Seen& seen : JudgeCommon(arrivals, again_allowed, verdict, problems))
    ++fired[seen.first->launch_micros];
  for (const int64_t instant : instants) {
    if (fired.count(instant) == 0)
      problems->Add(absl::StrCat("nothing came for instant ", instant));
  }
  for (const auto& [instant, count] : fired) {
    if (instants.count(instant) == 0)
      problems->Add(absl::StrCat("something came for the wrong instant ", instant));
    if (count > 1) problems->Add(absl::StrCat(count, " events came for instant ", instant));
  }
  return fired;
}

// Removes skipped occurrences from `due`. Each must be there exactly once.
void TakeSkipped(const OccurrenceFacts& facts, std::set<int64_t>* due, Problems* problems) {
  for (const Skipped& skipped : facts.skipped) {
    if (skipped.reason != facts.reason)
      problems->Add(absl::StrCat(skipped.first_micros, " was skipped: ", skipped.reason));
    const auto begin = due->lower_bound(skipped.first_micros);
    const auto end = due->upper_bound(skipped.last_micros);
    const int64_t count = begin == due->end() || *begin > skipped.last_micros
                              ? 0
                              : static_cast<int64_t>(std::distance(begin, end));
    if (count != skipped.count) {
      problems->Add(absl::StrCat(skipped.count, " skipped from ", skipped.first_micros, " to ",
                                 skipped.last_micros, ", where ", count, " were left"));
    }
    if (count > 0) due->erase(begin, end);
  }
}

std::string SkippedFigure(const OccurrenceFacts& facts) {
  int64_t singly = 0, in_summaries = 0;
  for (const Skipped& skipped : facts.skipped)
    (skipped.count > 1 ? in_summaries : singly) += skipped.count;
  return absl::StrCat("of ", facts.due.size(), " occurrences ", singly + in_summaries,
                      " skipped, reason ", facts.reason, ": ", in_summaries, " in a summary, ",
                      singly, " with records of their own");
}

}  // namespace

Verdict JudgeInstants(std::string what, const std::vector<Arrival>& arrivals,
                      const std::set<int64_t>& instants, bool again_allowed) {
  Verdict verdict;
  Problems problems;
  verdict.what = std::move(what);
  JudgeFired(arrivals, instants, again_allowed, &verdict, &problems);
  verdict.problems = problems.Take();
  return verdict;
}

Verdict JudgeOccurrences(std::string what, const std::vector<Arrival>& arrivals,
                         const OccurrenceFacts& facts) {
  Verdict verdict;
  Problems problems;
  verdict.what = std::move(what);
  std::set<int64_t> due = facts.due;
  TakeSkipped(facts, &due, &problems);
  JudgeFired(arrivals, due, /*again_allowed=*/false, &verdict, &problems);
  if (facts.completed != due) {
    problems.Add(absl::StrCat("the platform's own record says: ", facts.completed.size(),
                              " runs completed"));
  }
  if (!facts.reason.empty()) {
    verdict.figures.push_back(SkippedFigure(facts));
    if (facts.skipped.empty()) problems.Add(absl::StrCat("nothing was skipped: ", facts.reason));
  }
  std::vector<int64_t> begun;
  for (const Arrival& arrival : arrivals) begun.push_back(arrival.wall_micros);
  std::sort(begun.begin(), begun.end());
  for (size_t i = 1; i < begun.size(); ++i) {
    if (begun[i] - begun[i - 1] < facts.apart_micros)
      problems.Add(absl::StrCat("a run began ", begun[i] - begun[i - 1], " µs after another"));
  }
  verdict.problems = problems.Take();
  return verdict;
}

Verdict JudgeBatch(std::string what, const std::vector<Arrival>& arrivals, uint64_t n,
                   bool again_allowed) {
  Verdict verdict;
  Problems problems;
  verdict.what = std::move(what);
  verdict.expected = n;
  std::vector<uint8_t> ids(n, 0);
  for (const Seen& seen : JudgeCommon(arrivals, again_allowed, &verdict, &problems)) {
    const int64_t index = seen.first->index;
    if (index < 0 || static_cast<uint64_t>(index) >= n) {
      problems.Add(absl::StrCat("index ", index, " is not of this run"));
    } else if (ids[index]++ > 0) {
      problems.Add(absl::StrCat("index ", index, " has a second id"));
    }
  }
  const auto lost = std::count(ids.begin(), ids.end(), 0);
  if (lost > 0) problems.Add(absl::StrCat(lost, " events never came"));
  verdict.problems = problems.Take();
  return verdict;
}

void JudgeThrottle(const ThrottleFacts& facts, Verdict* verdict) {
  verdict->figures.push_back(absl::StrFormat(
      "at most %d of %d out at once, %.1f %% of them busy; all ended %.2f s after the due time "
      "(ideal %.1f s, allowed %.1f s); succeeded: %d",
      facts.out_max, facts.concurrent, 100 * facts.busy, facts.took_seconds, facts.ideal_seconds,
      facts.allowed_seconds, facts.succeeded));
  std::vector<std::string>& problems = verdict->problems;
  if (facts.out_max > facts.concurrent) {
    problems.push_back(absl::StrCat(facts.out_max, " events were out at once, ", facts.concurrent,
                                    " are allowed"));
  }
  if (facts.out_left != 0)
    problems.push_back(absl::StrCat(facts.out_left, " events are out at the end"));
  if (facts.took_seconds > facts.allowed_seconds) {
    problems.push_back(absl::StrFormat("it took %.2f s, %.2f s are allowed", facts.took_seconds,
                                       facts.allowed_seconds));
  }
  if (!facts.completed || facts.succeeded != static_cast<int64_t>(verdict->expected) ||
      facts.others != 0) {
    problems.push_back(absl::StrCat(
        "the platform's own record says: ", facts.completed ? "completed" : "not completed", ", ",
        facts.succeeded, " succeeded, ", facts.others, " otherwise"));
  }
}

std::string FormatVerdicts(const std::vector<Verdict>& verdicts) {
  const auto millis = [](int64_t micros) {
    return absl::StrFormat("%.2f", static_cast<double>(micros) / 1000);
  };
  std::string text =
      absl::StrFormat("%-44s %9s %9s %7s %6s %9s %9s %9s  %s\n", "what", "expected", "arrived",
                      "again", "early", "p50 ms", "p99 ms", "max ms", "verdict");
  for (const Verdict& v : verdicts) {
    absl::StrAppendFormat(&text, "%-44s %9d %9d %7d %6d %9s %9s %9s  %s\n", v.what, v.expected,
                          v.events, v.again, v.early, millis(v.p50_micros), millis(v.p99_micros),
                          millis(v.max_micros), v.problems.empty() ? "ok" : "FAILED");
    for (const std::string& figure : v.figures) absl::StrAppend(&text, "    ", figure, "\n");
    for (const std::string& problem : v.problems) absl::StrAppend(&text, "    ", problem, "\n");
  }
  return text;
}

}  // namespace escapement::e2e
