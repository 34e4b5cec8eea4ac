#include "tests/e2e/chaos/replicated/check_answers.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace escapement::chaos {
namespace check_answers_test {

absl::Time At(int second) { return absl::UnixEpoch() + absl::Seconds(second); }

// Commits 1 to 9 of session 7; each writes its number under the key of store "a".
std::vector<LoggedCommit> Commits() {
  std::vector<LoggedCommit> commits;
  for (uint64_t seq = 1; seq <= 9; ++seq) {
    kv::CommitRequest request{.session = 7, .number = seq};
    request.groups = {{.mutations = {{.key = ProbeKey("a"), .value = absl::StrCat(seq)}}}};
    LoggedCommit commit;
    commit.record.request = std::make_shared<const kv::CommitRequest>(std::move(request));
    commit.record.seq = seq;
    commit.record.verdicts = {{.applied = true}};
    commits.push_back(std::move(commit));
  }
  return commits;
}

ProbeAnswer Read(int called, int answered, kv::CommitSeq seq, const std::string& value) {
  return {.store = "a",
          .called = At(called),
          .answered = At(answered),
          .seq = seq,
          .values = {{ProbeKey("a"), value}}};
}

ProbeAnswer Write(int called, int answered, kv::CommitSeq seq) {
  return {.store = "b",
          .called = At(called),
          .answered = At(answered),
          .seq = seq,
          .session = 7,
          .number = seq};
}

std::string RulesOf(const std::vector<ProbeAnswer>& answers) {
  std::string rules;
  for (const auto& violation : CheckAnswers(answers, Commits()))
    absl::StrAppend(&rules, violation.rule, " ");
  return rules;
}

TEST(CheckAnswersTest, TrueAnswersAreNotReported) {
  EXPECT_EQ(RulesOf({Read(0, 1, 0, ""), Write(2, 3, 1), Read(4, 5, 1, "1"), Write(4, 9, 4),
                     Read(6, 7, 3, "3"), Read(8, 10, 4, "4")}),
            "");
}

TEST(CheckAnswersTest, OverlappingCallsMayBeAnsweredInAnyOrder) {
  EXPECT_EQ(RulesOf({Write(2, 5, 4), Read(4, 6, 3, "3")}), "");
}

TEST(CheckAnswersTest, OlderReadAfterAnAnswerIsStale) {
  EXPECT_EQ(RulesOf({Write(2, 3, 4), Read(4, 5, 3, "3")}), "answer_stale ");
  EXPECT_EQ(RulesOf({Read(2, 3, 4, "4"), Read(4, 5, 3, "3")}), "answer_stale ");
}

TEST(CheckAnswersTest, AcknowledgedCommitThatIsNotInTheLogIsLost) {
  ProbeAnswer other = Write(2, 3, 4);
  other.number = 5;
  EXPECT_EQ(RulesOf({other}), "answer_lost ");
  EXPECT_EQ(RulesOf({Write(2, 3, 10)}), "answer_lost ");
}

TEST(CheckAnswersTest, ReadOfWhatWasNeverTrueIsAPhantom) {
  EXPECT_EQ(RulesOf({Read(2, 3, 4, "5")}), "answer_phantom ");
  EXPECT_EQ(RulesOf({Read(2, 3, 4, "")}), "answer_phantom ");
  EXPECT_EQ(RulesOf({Read(2, 3, 10, "10")}), "answer_phantom ");
}

}  // namespace check_answers_test
}  // namespace escapement::chaos
