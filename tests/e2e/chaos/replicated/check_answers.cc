#include "tests/e2e/chaos/replicated/check_answers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace escapement::chaos {
namespace {

constexpr absl::string_view kPrefix = "probe/";

class Checker {
 public:
  explicit Checker(const std::vector<LoggedCommit>& commits) : commits_(commits) {
    for (const LoggedCommit& commit : commits) {
      for (size_t i = 0; i < commit.record.request->groups.size(); ++i) {
        if (!commit.record.verdicts.at(i).applied) continue;
        for (const kv::Mutation& mutation : commit.record.request->groups[i].mutations) {
          if (absl::StartsWith(mutation.key, kPrefix))
            written_[mutation.key].emplace_back(commit.record.seq, mutation.value);
        }
      }
    }
  }

  std::vector<simulation::Violation> Check(std::vector<ProbeAnswer> answers) {
    std::sort(answers.begin(), answers.end(),
              [](const ProbeAnswer& a, const ProbeAnswer& b) { return a.answered < b.answered; });
    // The highest sequence that anybody had been told, by time.
    std::vector<kv::CommitSeq> known;
    for (const ProbeAnswer& answer : answers)
      known.push_back(std::max(known.empty() ? 0 : known.back(), answer.seq));
    for (const ProbeAnswer& answer : answers) {
      const auto before = std::lower_bound(
          answers.begin(), answers.end(), answer.called,
          [](const ProbeAnswer& other, absl::Time called) { return other.answered < called; });
      if (before != answers.begin()) CheckFresh(answer, known[before - answers.begin() - 1]);
      if (answer.session != 0) {
        CheckCommit(answer);
      } else {
        CheckRead(answer);
      }
    }
    return std::move(violations_);
  }

 private:
  void Report(const std::string& rule, const ProbeAnswer& answer, const std::string& why) {
    violations_.push_back(
        {rule, absl::StrCat(answer.store, " answered at ",
                            absl::FormatTime(answer.answered, absl::UTCTimeZone()), " a ",
                            answer.session != 0 ? "commit" : "read", " of ",
                            absl::FormatTime(answer.called, absl::UTCTimeZone()), " with ",
                            answer.seq, ": ", why)});
  }

  void CheckFresh(const ProbeAnswer& answer, kv::CommitSeq known) {
    if (answer.seq < known)
      Report("answer_stale", answer, absl::StrCat(known, " was known when it was called"));
  }

  void CheckCommit(const ProbeAnswer& answer) {
    const bool there = answer.seq >= 1 && answer.seq <= commits_.size() &&
                       commits_[answer.seq - 1].record.request->session == answer.session &&
                       commits_[answer.seq - 1].record.request->number == answer.number;
    if (!there)
      Report("answer_lost", answer,
             absl::StrCat("number ", answer.number, " was acknowledged and is not in the log"));
  }

  void CheckRead(const ProbeAnswer& answer) {
    if (answer.seq > commits_.size())
      return Report("answer_phantom", answer, "the log has no such commit");
    for (const auto& [key, value] : answer.values) {
      const std::string expected = ValueAt(key, answer.seq);
      if (value != expected)
        Report("answer_phantom", answer,
               absl::StrCat(key, " was '", value, "' instead of '", expected, "'"));
    }
  }

  std::string ValueAt(const std::string& key, kv::CommitSeq seq) const {
    const auto written = written_.find(key);
    if (written == written_.end()) return "";
    const auto after =
        std::upper_bound(written->second.begin(), written->second.end(), seq,
                         [](kv::CommitSeq at, const auto& write) { return at < write.first; });
    return after == written->second.begin() ? "" : std::prev(after)->second;
  }

  const std::vector<LoggedCommit>& commits_;
  // By key: the sequences at which it was written, and the values.
  std::map<std::string, std::vector<std::pair<kv::CommitSeq, std::string>>> written_;
  std::vector<simulation::Violation> violations_;
};

}  // namespace

std::string ProbeKey(absl::string_view store) { return absl::StrCat(kPrefix, store); }

std::vector<simulation::Violation> CheckAnswers(const std::vector<ProbeAnswer>& answers,
                                                const std::vector<LoggedCommit>& commits) {
  return Checker(commits).Check(answers);
}

}  // namespace escapement::chaos
