#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/simulation/checkers/checkers.h"

namespace escapement::simulation {
namespace {

// At most this much time lies between the decision of a commit and its durability. A store may
// stand still in between for 4 s, and once more before it has done anything. A replica may also be
// cut off from the log for 9 s, while the log loses calls for 8 s.
absl::Duration DecidedBefore(const History& history) {
  return absl::Seconds(history.log.empty() ? 10 : 30);
}

constexpr double kSlewMax = 500e-6;

bool Confirmed(const History& history, absl::Time from, absl::Time to) {
  return std::any_of(history.clock_confirmed.begin(), history.clock_confirmed.end(),
                     [&](absl::Time at) { return at >= from && at <= to; });
}

// The store may follow a step forward of minutes once the step has lasted for five seconds. It may
// follow a larger step if also the kernel calls the clock synchronised and all other machines show
// the same.
constexpr absl::Duration kStepMax = absl::Minutes(10);
constexpr absl::Duration kStepStable = absl::Seconds(5);

bool Followed(const History& history, const Commit& commit, absl::Duration leap) {
  const bool large = leap > kStepMax + DecidedBefore(history);
  return std::any_of(history.clock_set.begin(), history.clock_set.end(), [&](const ClockSet& set) {
    const ClockSet* next = &set + 1;
    const bool lasted = next == history.clock_set.data() + history.clock_set.size() ||
                        next->time >= set.time + kStepStable;
    const bool evidence = set.synchronised && set.everywhere;
    return lasted && set.time + kStepStable <= commit.time && (!large || evidence);
  });
}

bool Plans(const Commit& commit) {
  return std::any_of(commit.checkpoints.begin(), commit.checkpoints.end(),
                     [](const CheckpointWrite& write) {
                       return absl::StartsWith(write.checkpoint, "planned_to/");
                     });
}

}  // namespace

std::vector<Violation> CheckClock(const History& history) {
  std::vector<Violation> violations;
  auto report = [&](const Commit& commit, const std::string& why) {
    violations.push_back(
        {"clock", absl::StrCat("commit ", commit.seq, " at ",
                               absl::FormatTime(commit.time, absl::UTCTimeZone()), ": ", why)});
  };
  const Commit* before = nullptr;
  bool held = false;
  for (const Commit& commit : history.commits) {
    if (before != nullptr) {
      const absl::Duration passed = commit.store_time - before->store_time;
      const absl::Duration real = commit.time - before->time + DecidedBefore(history);
      if (passed < absl::ZeroDuration())
        report(commit,
               absl::StrCat("the store's time went back by ", absl::FormatDuration(-passed)));
      if (passed > real + real * kSlewMax &&
          !Confirmed(history, before->time - DecidedBefore(history), commit.time) &&
          !Followed(history, commit, passed - real))
        report(commit, absl::StrCat("the store's time leapt by ", absl::FormatDuration(passed)));
    }
    before = &commit;
    if (held && Plans(commit) && commit.clock_hold.value_or(true))
      report(commit, "it plans while the clock is held");
    held = commit.clock_hold.value_or(held);
  }
  return violations;
}

}  // namespace escapement::simulation
