#include "tests/e2e/chaos/base/chaos_plan.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "absl/strings/str_cat.h"
#include "common/sim/sim_random.h"

namespace escapement::chaos {
namespace {

// Pause between two faults of one process, in which it can work.
constexpr absl::Duration kRest = absl::Milliseconds(500);

class Planner {
 public:
  explicit Planner(const PlanOptions& options)
      : options_(options), random_(options.seed, "chaos") {}

  std::vector<Fault> Plan() {
    std::vector<Fault::Kind> kinds;
    kinds.insert(kinds.end(), options_.kills, Fault::Kind::kKill);
    kinds.insert(kinds.end(), options_.pauses, Fault::Kind::kPause);
    kinds.insert(kinds.end(), options_.terminations, Fault::Kind::kTerminate);
    kinds.insert(kinds.end(), options_.links.empty() ? 0 : options_.cuts, Fault::Kind::kCut);
    for (size_t i = kinds.size(); i > 1; --i) std::swap(kinds[i - 1], kinds[random_.Below(i)]);
    // Each fault begins in a part of the time of its own, so that all of them fit in.
    const absl::Duration part =
        (options_.end - options_.begin) / static_cast<int64_t>(std::max<size_t>(kinds.size(), 1));
    for (size_t i = 0; i < kinds.size(); ++i) {
      const absl::Duration from = options_.begin + part * static_cast<int64_t>(i);
      Draw(kinds[i], from + random_.Between(absl::ZeroDuration(), part));
    }
    std::stable_sort(faults_.begin(), faults_.end(),
                     [](const Fault& a, const Fault& b) { return a.begin < b.begin; });
    return std::move(faults_);
  }

 private:
  void Draw(Fault::Kind kind, absl::Duration begin) {
    Fault fault;
    fault.kind = kind;
    absl::Duration longest = options_.down_max;
    if (kind == Fault::Kind::kPause) longest = options_.pause_max;
    if (kind == Fault::Kind::kCut) longest = options_.cut_max;
    const absl::Duration length = random_.Between(absl::Milliseconds(100), longest);
    const auto& victims = kind == Fault::Kind::kCut ? options_.links : options_.processes;
    // Draws victims until one is free. If none was, the last one drawn gets the fault as soon as it
    // is free.
    fault.victim = victims[random_.Below(victims.size())];
    for (size_t i = 0; i < 2 * victims.size() && free_[fault.victim] > begin; ++i)
      fault.victim = victims[random_.Below(victims.size())];
    fault.begin = std::max(begin, free_[fault.victim]);
    fault.end = std::min(fault.begin + length, std::max(options_.end, fault.begin));
    free_[fault.victim] = fault.end + kRest;
    if (kind == Fault::Kind::kCut) {
      constexpr Cut kCuts[] = {Cut::kReset, Cut::kBlackHole, Cut::kNoRequest, Cut::kNoAnswer,
                               Cut::kSlow};
      fault.cut = kCuts[random_.Below(std::size(kCuts))];
      fault.reset = random_.Below(2) == 0;
    }
    faults_.push_back(std::move(fault));
  }

  const PlanOptions& options_;
  sim::SimRandom random_;
  std::map<std::string, absl::Duration> free_;
  std::vector<Fault> faults_;
};

}  // namespace

std::vector<Fault> PlanChaos(const PlanOptions& options) { return Planner(options).Plan(); }

std::string Describe(const Fault& fault) {
  static constexpr absl::string_view kKinds[] = {"kill",   "pause",   "terminate", "cut",
                                                 "forget", "promote", "split"};
  static constexpr absl::string_view kCuts[] = {
      "", " (reset)", " (black hole)", " (no request)", " (no answer)", " (slow)", " (torn)"};
  return absl::StrCat(kKinds[static_cast<size_t>(fault.kind)], " ", fault.victim,
                      kCuts[static_cast<size_t>(fault.cut)], " for ",
                      absl::FormatDuration(fault.end - fault.begin));
}

}  // namespace escapement::chaos
