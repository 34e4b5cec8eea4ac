#include <algorithm>
#include <string>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "tests/simulation/checkers/checkers.h"

namespace escapement::simulation {
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
