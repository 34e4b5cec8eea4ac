// Coverage counts situations by name and reports the missing ones.

#include "tests/simulation/coverage.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/simulation/checkers/checkers.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {
namespace coverage_test {

Receipt Sent(double at, uint32_t attempt, const std::string& sender) {
  Receipt receipt;
  receipt.event_id = "e";
  receipt.uid = "u1";
  receipt.occurrence = "o1";
  receipt.attempt = attempt;
  receipt.sender = sender;
  receipt.sent = receipt.time = At(at);
  receipt.nominal = receipt.launch = At(1);
  return receipt;
}

void Acquire(History* history, double at, uint64_t epoch, const std::string& owner) {
  Commit commit;
  commit.seq = history->commits.size() + 1;
  commit.time = commit.store_time = At(at);
  commit.leases = {{"queue_shard/3", epoch, owner}};
  history->commits.push_back(commit);
}

// h1 claims and sends. h2 acquires the lease at 5 s and sends again at 8 s.
History TakenOver() {
  History history;
  Acquire(&history, 0, 1, "h1");
  ClaimPut claim;
  claim.claim = {3, 1, 7};
  claim.events = {{"u1", "o1", {0, 1}, 0, 1}};
  Commit commit;
  commit.seq = 2;
  commit.time = commit.store_time = At(0.9);
  commit.queue = {claim};
  history.commits.push_back(commit);
  Acquire(&history, 5, 2, "h2");
  history.receipts = {Sent(1, 1, "h1"), Sent(8, 1, "h2")};
  return history;
}

RepeatCause CauseOf(const History& history) {
  const std::vector<Repeat> repeats = ExplainRepeats(history);
  EXPECT_EQ(repeats.size(), 1u);
  EXPECT_EQ(repeats[0].receipt, history.receipts.size() - 1);
  return repeats.empty() ? RepeatCause::kFailed : repeats[0].cause;
}

TEST(ExplainRepeatsTest, TellsTheWindowsApart) {
  History history = TakenOver();
  EXPECT_EQ(CauseOf(history), RepeatCause::kEndNotCommitted);

  History unknown = history;
  unknown.unknown_ends = {{"h1", At(3), {3, 1, 7}}};
  EXPECT_EQ(CauseOf(unknown), RepeatCause::kEndUnknown);
  unknown.unknown_ends = {{"h1", At(3), {3, 1, 8}}};  // names another claim
  EXPECT_EQ(CauseOf(unknown), RepeatCause::kEndNotCommitted);

  History lost = history;
  lost.receipts[0].time = At(5.5);  // sent before h2 acquired the lease
  EXPECT_EQ(CauseOf(lost), RepeatCause::kLeaseLost);
}

TEST(ExplainRepeatsTest, TellsRetriesApart) {
  History history = TakenOver();
  history.receipts[1].attempt = 2;
  history.receipts[0].result = SendResult::kFailed;
  history.receipts[0].result_time = At(2);
  EXPECT_EQ(CauseOf(history), RepeatCause::kFailed);
  history.receipts[0].result = SendResult::kUnknown;
  EXPECT_EQ(CauseOf(history), RepeatCause::kNoAnswer);
}

TEST(CoverageTest, CountsMergesAndTellsWhatIsMissing) {
  History history = TakenOver();
  Commit commit;
  commit.seq = 4;
  OutcomeWrite skipped;
  skipped.outcome = Outcome::kSkipped;
  skipped.reason = "misfire";
  skipped.run_skipped = true;
  skipped.occurrences = 3;
  commit.times = {skipped};
  history.commits.push_back(commit);
  Coverage coverage = CoverageOf(history);
  EXPECT_EQ(coverage.counts["window W1: sent, its end not committed"], 1u);
  EXPECT_EQ(coverage.counts["skipped: misfire, a summary"], 1u);
  EXPECT_EQ(coverage.counts["takeover: queue_shard"], 1u);

  Coverage all;
  Merge(coverage, &all);
  Merge(coverage, &all);
  AddFaults({{"store killed", 2}}, &all);
  EXPECT_EQ(all.counts["takeover: queue_shard"], 2u);
  EXPECT_EQ(all.counts["fault: store killed"], 2u);

  std::vector<std::string> missing = Missing(all);
  const auto is_missing = [&](const std::string& name) {
    return std::find(missing.begin(), missing.end(), name) != missing.end();
  };
  EXPECT_TRUE(is_missing("skipped: overlap"));
  EXPECT_FALSE(is_missing("skipped: misfire, a summary"));
  for (const std::string& name : missing) all.Add(name);
  EXPECT_TRUE(Missing(all).empty());
}

}  // namespace coverage_test
}  // namespace escapement::simulation
