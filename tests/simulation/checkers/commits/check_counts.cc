#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "tests/simulation/checkers/commits/commit_checks.h"

namespace escapement::simulation {
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

}  // namespace escapement::simulation
