#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/simulation/checkers/checkers.h"
#include "tests/simulation/checkers/model/expectations.h"

namespace escapement::simulation {

namespace {

// For each schedule, the shortest window over which its definitions spread a run. Zero unless all
// of them spread it.
std::map<std::string, absl::Duration> PacedWindows(const History& history) {
  std::map<std::string, absl::Duration> windows;
  for (const ScheduleLife& life : history.schedules) {
    absl::Duration shortest = absl::InfiniteDuration();
    for (const ScheduleChange& change : life.changes) {
      if (change.kind == ScheduleChange::Kind::kCreate ||
          change.kind == ScheduleChange::Kind::kUpdate)
        shortest = std::min(shortest, change.definition.paced);
    }
    windows[life.uid] = life.changes.empty() ? absl::ZeroDuration() : shortest;
  }
  return windows;
}

// How long after the run's launch this event may go at the earliest.
absl::Duration PaceOf(const Receipt& receipt, const std::map<std::string, absl::Duration>& paced) {
  const auto window = paced.find(receipt.uid);
  if (window == paced.end() || receipt.run_count == 0) return absl::ZeroDuration();
  return window->second * static_cast<double>(receipt.index) /
         static_cast<double>(receipt.run_count);
}

}  // namespace

std::vector<Violation> CheckEarly(const History& history, const Expectations& expectations) {
  const ExpectedRuns& expected = expectations.runs;
  std::map<std::string, absl::Time> one_off_due;
  for (const OneOff& one_off : history.one_offs) one_off_due[one_off.event_id] = one_off.due;

  const std::map<std::string, absl::Duration> paced = PacedWindows(history);

  std::vector<Violation> violations;
  auto report = [&](const Receipt& receipt, const std::string& why) {
    violations.push_back(
        {"early", absl::StrCat("event ", receipt.event_id, " ", receipt.occurrence, "[",
                               receipt.index, "] received at ",
                               absl::FormatTime(receipt.time, absl::UTCTimeZone()), ": ", why)});
  };
  for (const Receipt& receipt : history.receipts) {
    absl::Time due = receipt.launch;
    if (receipt.uid.empty()) {
      auto it = one_off_due.find(receipt.event_id);
      if (it == one_off_due.end()) {
        report(receipt, "nobody made it");
        continue;
      }
      due = it->second;
    } else {
      auto it = expected.find({receipt.uid, receipt.occurrence});
      if (it == expected.end()) {
        report(receipt, "it is no occurrence of its schedule");
        continue;
      }
      due = it->second.due + PaceOf(receipt, paced);
    }
    // The platform rounds paces to microseconds.
    if (receipt.time < due - absl::Microseconds(due == receipt.launch ? 0 : 1) ||
        receipt.time < receipt.nominal) {
      report(receipt, absl::StrCat("due ", absl::FormatTime(due, absl::UTCTimeZone())));
    }
  }
  return violations;
}

std::vector<Violation> CheckEarly(const History& history) {
  return CheckEarly(history, Expect(history));
}

}  // namespace escapement::simulation
