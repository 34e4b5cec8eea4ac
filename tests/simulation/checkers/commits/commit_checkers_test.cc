// The checkers of claims, ends, pauses, requests and answers in commit order pass correct histories
// and catch planted breaches.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/simulation/checkers/checkers.h"
#include "tests/simulation/checkers/commits/commit_checks.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {
namespace commit_checkers_test {

using Kind = StateWrite::Kind;
using Table = RowWrite::Table;

testing::AssertionResult Says(const std::vector<Violation>& violations, const std::string& what) {
  for (const Violation& violation : violations) {
    if (violation.what.find(what) != std::string::npos) return testing::AssertionSuccess();
  }
  return testing::AssertionFailure()
         << "instead: " << (violations.empty() ? "nothing" : violations[0].what);
}

// Commits of session 1, one a second.
Commit& NewCommit(History* history) {
  Commit commit;
  commit.seq = history->commits.size() + 1;
  commit.time = commit.store_time = At(static_cast<double>(commit.seq));
  commit.session = 1;
  commit.number = commit.seq;
  commit.verdicts = 7;
  history->commits.push_back(commit);
  return history->commits.back();
}

ClaimPut Claim(uint64_t number, Indices events, uint32_t attempts = 0, uint64_t version = 1) {
  ClaimPut put;
  put.claim = {0, 1, number};
  put.timeout = absl::Seconds(2);
  put.events = {{"u1", "o1", events, attempts, version}};
  return put;
}
QueuePut Row(Indices events) {
  QueuePut put;
  put.key = 5;
  put.uid = "u1";
  put.occurrence = "o1";
  put.events = events;
  return put;
}
OutcomeWrite End(Indices events) {
  OutcomeWrite write;
  write.uid = "u1";
  write.occurrence = "o1";
  write.first = events.first;
  write.count = events.count;
  write.outcome = Outcome::kSucceeded;
  return write;
}
OutcomeWrite SkippedWhole(uint64_t occurrences) {
  OutcomeWrite write = End({0, 3});
  write.outcome = Outcome::kSkipped;
  write.reason = "misfire";
  write.run_skipped = true;
  write.occurrences = occurrences;
  return write;
}
StateWrite State(Kind kind, uint64_t version = 1) { return {"u1", kind, version}; }

Receipt Received(double sent, uint64_t index, uint32_t attempt) {
  Receipt receipt;
  receipt.event_id = "e";
  receipt.uid = "u1";
  receipt.occurrence = "o1";
  receipt.index = index;
  receipt.attempt = attempt;
  receipt.sender = "handler#1";
  receipt.sent = receipt.time = At(sent);
  receipt.timeout = absl::Seconds(2);
  return receipt;
}

// A schedule is made (1), and a run of three is emitted (2) and claimed (3). Two end, and the third
// is to be retried (4); it is claimed again (5) and ends (6).
History Good() {
  History history;
  NewCommit(&history).queue = {State(Kind::kEnabled)};
  NewCommit(&history).queue = {Row({0, 3})};
  NewCommit(&history).queue = {QueueGone{5}, Claim(1, {0, 3})};
  Commit& retry = NewCommit(&history);
  retry.times = {End({0, 2})};
  retry.queue = {Row({2, 1})};
  NewCommit(&history).queue = {QueueGone{5}, Claim(2, {2, 1}, 1)};
  Commit& end = NewCommit(&history);
  end.times = {End({2, 1})};
  end.queue = {ClaimGone{{0, 1, 2}}};
  for (uint64_t i = 0; i < 3; ++i) history.receipts.push_back(Received(3.1, i, 1));
  history.receipts.push_back(Received(5.2, 2, 2));
  return history;
}

TEST(CheckFinalTest, PassesWhatEndsOnce) { EXPECT_EQ(CheckFinal(Good()).size(), 0u); }

TEST(CheckFinalTest, CatchesWhatGoesOnAfterItsEnd) {
  History claimed = Good();
  NewCommit(&claimed).queue = {Claim(3, {1, 1}, 1)};
  EXPECT_TRUE(Says(CheckFinal(claimed), "[1 +1] is claimed, and had ended with commit 6"));

  History put = Good();
  NewCommit(&put).queue = {Row({0, 3})};
  EXPECT_TRUE(Says(CheckFinal(put), "is put into a queue"));

  History again = Good();
  NewCommit(&again).times = {End({2, 1})};
  EXPECT_TRUE(Says(CheckFinal(again), "[2 +1] ends again"));

  // The commit that ends the event puts a row of it.
  History both = Good();
  both.commits.back().queue.push_back(Row({2, 1}));
  EXPECT_TRUE(Says(CheckFinal(both), "is put into a queue"));

  // The same commit deletes that row.
  both.commits.back().queue.push_back(QueueGone{5});
  EXPECT_EQ(CheckFinal(both).size(), 0u);
}

TEST(CheckFinalTest, CatchesOneOffEventsThatGoOn) {
  History history;
  ClaimPut claim = Claim(1, {0, 1});
  claim.events = {{"", "e1", {0, 1}, 0, 0}};
  NewCommit(&history).queue = {claim};
  NewCommit(&history).queue = {OneOffEnd{"e1", Outcome::kSucceeded, ""}};
  EXPECT_EQ(CheckFinal(history).size(), 0u);
  NewCommit(&history).queue = {claim};
  EXPECT_TRUE(Says(CheckFinal(history), "e1 [0 +1] is claimed"));
}

TEST(CheckFinalTest, RunSkippedAsAWholeGoesOnlyAfterABackfill) {
  History history;
  NewCommit(&history).times = {SkippedWhole(1)};
  NewCommit(&history).times = {SkippedWhole(4)};  // a summary whose count has grown
  EXPECT_EQ(CheckFinal(history).size(), 0u);

  History fired = history;
  NewCommit(&fired).queue = {Row({0, 3})};
  EXPECT_TRUE(Says(CheckFinal(fired), "is put into a queue"));

  History counted_down = history;
  NewCommit(&counted_down).times = {SkippedWhole(2)};
  EXPECT_TRUE(Says(CheckFinal(counted_down), "is skipped as a whole"));

  History backfilled = history;
  Commit& commit = NewCommit(&backfilled);
  OutcomeWrite back = SkippedWhole(1);
  back.deleted = true;
  commit.times = {back};
  commit.queue = {Row({0, 3})};
  EXPECT_EQ(CheckFinal(backfilled).size(), 0u);
}

TEST(CheckPausedTest, PassesClaimsBeforeAPauseAndAfterTheResume) {
  History history = Good();
  EXPECT_EQ(CheckPaused(history).size(), 0u);
  NewCommit(&history).queue = {State(Kind::kPaused)};  // 7
  // Claimed before the pause, sent in time.
  history.receipts.push_back(Received(8.9, 2, 3));
  NewCommit(&history).queue = {State(Kind::kEnabled, 2)};   // 8
  NewCommit(&history).queue = {Claim(3, {0, 1}, 0, 2)};     // 9
  NewCommit(&history).queue = {State(Kind::kFinished, 2)};  // 10
  NewCommit(&history).queue = {Claim(4, {1, 1}, 0, 2)};     // 11
  history.receipts.push_back(Received(20, 0, 1));
  EXPECT_EQ(CheckPaused(history).size(), 0u);
}

TEST(CheckPausedTest, CatchesClaimsWhilePausedDeletedOrOfAnotherVersion) {
  for (const auto& [kind, name] :
       {std::make_pair(Kind::kPaused, "paused"), std::make_pair(Kind::kDeleted, "deleted"),
        std::make_pair(Kind::kGone, "not there")}) {
    History history = Good();
    NewCommit(&history).queue = {State(kind)};
    NewCommit(&history).queue = {Claim(3, {0, 1})};
    EXPECT_TRUE(Says(CheckPaused(history), std::string("whose schedule is ") + name));
  }
  History history = Good();
  NewCommit(&history).queue = {State(Kind::kEnabled, 2)};
  NewCommit(&history).queue = {Claim(3, {0, 1})};
  EXPECT_TRUE(Says(CheckPaused(history), "for version 1, and version 2 is in force"));
}

TEST(CheckPausedTest, CatchesWhatIsSentLongAfterThePause) {
  History history = Good();
  NewCommit(&history).queue = {State(Kind::kPaused)};  // 7
  NewCommit(&history).queue = {State(Kind::kDeleted)};
  history.receipts.push_back(Received(9.1, 2, 2));
  EXPECT_TRUE(Says(CheckPaused(history), "and its schedule was paused or deleted at"));
}

TEST(CheckClaimedTest, PassesOneSendingForEachClaimAndSender) {
  History history = Good();
  EXPECT_EQ(CheckClaimed(history).size(), 0u);
  // The next owner adopts the former owner's claims.
  history.receipts.push_back(Received(9, 2, 2));
  history.receipts.back().sender = "handler#2";
  EXPECT_EQ(CheckClaimed(history).size(), 0u);
  // A handler that lost its lease and acquired it again adopts its own earlier claims.
  History own = Good();
  own.commits[0].leases = {{"queue_shard/0", 1, "handler#1"}};
  Commit& acquired = NewCommit(&own);  // 7
  acquired.leases = {{"queue_shard/0", 2, "handler#1"}};
  own.receipts.push_back(Received(9, 2, 2));
  EXPECT_EQ(CheckClaimed(own).size(), 0u);
  own.receipts.push_back(Received(9.5, 2, 2));
  EXPECT_TRUE(Says(CheckClaimed(own), "which had sent it for the same claim"));
}

TEST(CheckClaimedTest, CatchesWhatIsSentBeforeItsClaimOrTwice) {
  History early = Good();
  early.receipts[0].sent = At(2.9);
  EXPECT_TRUE(Says(CheckClaimed(early), "no commit had claimed it by then"));

  History twice = Good();
  twice.receipts.push_back(Received(5.3, 2, 2));
  EXPECT_TRUE(Says(CheckClaimed(twice), "which had sent it for the same claim"));

  History uncounted = Good();
  uncounted.receipts.back().attempt = 3;
  EXPECT_TRUE(Says(CheckClaimed(uncounted), "attempt 3"));
}

TEST(CheckRequestsTest, CatchesASecondEffectAndAnotherAnswer) {
  History history;
  NewCommit(&history).queue = {RequestWrite{"t/r1", false, "Pause", 11}};
  NewCommit(&history).queue = {RequestWrite{"t/r2", false, "Pause", 12}};
  history.answers = {{"t/r1", At(3), 11}, {"t/r1", At(4), 11}, {"t/r2", At(4), 12}};
  EXPECT_EQ(CheckRequests(history).size(), 0u);

  History other = history;
  other.answers[1].response_hash = 13;
  EXPECT_TRUE(Says(CheckRequests(other), "request t/r1 was answered at"));

  History unknown = history;
  unknown.answers[2].request_id = "t/r3";
  EXPECT_TRUE(Says(CheckRequests(unknown), "and no commit has it"));

  History twice = history;
  NewCommit(&twice).queue = {RequestWrite{"t/r1", false, "Pause", 11}};
  EXPECT_TRUE(Says(CheckRequests(twice), "request t/r1 (Pause) takes effect again"));

  // The record has expired.
  History expired = history;
  NewCommit(&expired).queue = {RequestWrite{"t/r1", true}};
  NewCommit(&expired).queue = {RequestWrite{"t/r1", false, "Pause", 11}};
  EXPECT_EQ(CheckRequests(expired).size(), 0u);
}

Acknowledged Told(uint64_t seq, double called, double answered) {
  Acknowledged told;
  told.process = "handler#1";
  told.session = 1;
  told.number = seq;
  told.seq = seq;
  told.applied = true;
  told.verdicts = 7;
  told.called = told.last_called = At(called);
  told.answered = At(answered);
  return told;
}

// Commits answered half a second after they were durable; 3 and 4 overlap.
History Answered() {
  History history = Good();
  for (uint64_t seq = 1; seq <= 6; ++seq) {
    const double at = static_cast<double>(seq);
    history.acknowledged.push_back(Told(seq, at - (seq == 4 ? 1.1 : 0.3), at + 0.5));
  }
  return history;
}

TEST(CheckAcknowledgedTest, PassesWhatWasAnsweredAsItIs) {
  EXPECT_EQ(CheckAcknowledged(Answered()).size(), 0u);
}

TEST(CheckAcknowledgedTest, CatchesWhatIsLost) {
  // The store has lost answered commits and gone on with others.
  History lost = Answered();
  lost.commits[5].number = 9;
  EXPECT_TRUE(Says(CheckAcknowledged(lost), "it is one of session 1 number 9"));

  History gone = Answered();
  gone.commits.pop_back();
  EXPECT_TRUE(Says(CheckAcknowledged(gone), "there is no such commit"));

  History hole = Answered();
  hole.commits.erase(hole.commits.begin() + 2);
  EXPECT_TRUE(Says(CheckAcknowledged(hole), "commit 4 follows 2"));

  History in_part = Answered();
  in_part.commits[3].verdicts = 8;
  EXPECT_TRUE(Says(CheckAcknowledged(in_part), "other groups of it have applied"));

  History before = Answered();
  before.acknowledged[1].answered = At(1.9);
  EXPECT_TRUE(Says(CheckAcknowledged(before), "it became durable at"));

  History twice = Answered();
  twice.commits[4].number = 2;
  EXPECT_TRUE(Says(CheckAcknowledged(twice), "which was commit 2"));
}

TEST(CheckAcknowledgedTest, CatchesWhatGoesBackInTime) {
  History history = Answered();
  // Called after 6 had been answered, but it is commit 5.
  history.acknowledged[4] = Told(5, 6.6, 7);
  EXPECT_TRUE(Says(CheckAcknowledged(history), "somebody had been told of commit 6"));
}

}  // namespace commit_checkers_test
}  // namespace escapement::simulation
