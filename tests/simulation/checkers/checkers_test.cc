// Each checker passes a correct history and catches a planted breach.

#include "tests/simulation/checkers/checkers.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/simulation/checkers/commits/commit_checks.h"
#include "tests/simulation/checkers/model/expectations.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {
namespace checkers_test {

// A schedule with two events every 10 seconds, made at 5 s and deleted at 35 s, and a one-off event
// at 12 s. All went well.
History GoodHistory() {
  History history;
  history.begin = kBegin;
  history.end = At(60);
  ScheduleLife life{.id = "s", .uid = "u1", .changes = {}, .triggered = {}};
  life.changes.push_back(
      {ScheduleChange::Kind::kCreate, At(5), At(5.1), {"*/10 * * * * *", "UTC", 2}});
  life.changes.push_back({ScheduleChange::Kind::kDelete, At(35), At(35.2), {}});
  history.schedules.push_back(life);
  history.one_offs.push_back({.event_id = "e1", .due = At(12), .called = At(1), .created = true});
  for (int tenth = 1; tenth <= 3; ++tenth) {
    const std::string occurrence = "20260301T0000" + std::to_string(tenth) + "0-0-UTC";
    for (uint64_t index = 0; index < 2; ++index) {
      Receipt receipt;
      receipt.time = receipt.sent = At(10 * tenth);
      receipt.nominal = receipt.launch = At(10 * tenth);
      receipt.event_id = occurrence + std::to_string(index);
      receipt.uid = "u1";
      receipt.occurrence = occurrence;
      receipt.index = index;
      receipt.run_count = 2;
      receipt.sender = "handler#1";
      receipt.result = SendResult::kAccepted;
      receipt.result_time = receipt.time + absl::Milliseconds(1);
      history.receipts.push_back(receipt);
    }
    DoneRow row;
    row.uid = "u1";
    row.occurrence = occurrence;
    row.count = 2;
    row.shard = 3;
    row.outcome = Outcome::kSucceeded;
    history.done.push_back(row);
  }
  Receipt receipt;
  receipt.time = receipt.sent = receipt.nominal = receipt.launch = At(12);
  receipt.event_id = "e1";
  receipt.sender = "handler#1";
  receipt.result = SendResult::kAccepted;
  history.receipts.push_back(receipt);
  DoneRow row;
  row.event_id = "e1";
  row.outcome = Outcome::kSucceeded;
  history.done.push_back(row);
  history.commits.push_back({1, At(1), {}, {{"queue_shard/3", 1, "h1"}}, {}, {}, {}});
  history.commits.push_back({2,
                             At(9),
                             {{"queue_shard/3", 1}},
                             {},
                             {{"claim", "queue_shard/3", 1}},
                             {{"emitted_to/0", 20}},
                             {}});
  history.commits.push_back(
      {3, At(11), {{"queue_shard/3", 1}}, {}, {{"end", "queue_shard/3", {}}}, {}, {{"k", "ok"}}});
  return history;
}

void ExpectAllClean(const History& history) {
  for (const auto& check : {CheckLost, CheckEarly, CheckDoubled, CheckStaleEpoch}) {
    for (const Violation& violation : check(history))
      ADD_FAILURE() << violation.rule << ": " << violation.what;
  }
}

std::string First(const std::vector<Violation>& violations) {
  return violations.empty() ? "" : violations[0].what;
}

TEST(Checkers, FindNothingInAHistoryThatIsRight) { ExpectAllClean(GoodHistory()); }

TEST(Expectations, AreOpenWhileAChangeIsUnderWay) {
  History history = GoodHistory();
  // The delete took effect between 29 s and 35.2 s.
  history.schedules[0].changes[1].called = At(29);
  const ExpectedRuns runs = ExpectRuns(history);
  EXPECT_TRUE(runs.at({"u1", "20260301T000020-0-UTC"}).required);
  EXPECT_FALSE(runs.at({"u1", "20260301T000030-0-UTC"}).required);
  EXPECT_FALSE(runs.at({"u1", "20260301T000030-0-UTC"}).only_skips);
  EXPECT_TRUE(runs.at({"u1", "20260301T000040-0-UTC"}).only_skips);
}

TEST(Expectations, OccurrenceOfBothDefinitionsIsRequiredDuringTheUpdate) {
  History history = GoodHistory();
  auto& changes = history.schedules[0].changes;
  changes.insert(changes.begin() + 1,
                 {ScheduleChange::Kind::kUpdate, At(18), At(22), {"*/20 * * * * *", "UTC", 2}});
  const ExpectedRuns runs = ExpectRuns(history);
  EXPECT_TRUE(runs.at({"u1", "20260301T000020-0-UTC"}).required);
  EXPECT_TRUE(runs.at({"u1", "20260301T000030-0-UTC"}).only_skips);
}

TEST(CheckLost, CatchesARunWithoutOutcome) {
  History history = GoodHistory();
  history.done.erase(history.done.begin() + 1);
  EXPECT_NE(First(CheckLost(history)).find("has no outcome"), std::string::npos);
}

TEST(CheckLost, CatchesAnEventOfARunWithoutOutcome) {
  History history = GoodHistory();
  history.done[1].count = 1;
  EXPECT_NE(First(CheckLost(history)).find("has 1 outcomes"), std::string::npos);
}

TEST(CheckLost, CatchesALostOneOffEvent) {
  History history = GoodHistory();
  history.done.pop_back();
  EXPECT_NE(First(CheckLost(history)).find("event e1 has no outcome"), std::string::npos);
}

TEST(CheckLost, CatchesCancelsThatWereNotAskedForOrNotObeyed) {
  History history = GoodHistory();
  history.one_offs[0].cancelled = history.one_offs[0].cancel_called = true;
  EXPECT_NE(First(CheckLost(history)).find("ended otherwise"), std::string::npos);
  history.done.back().outcome = Outcome::kCancelled;
  EXPECT_EQ(First(CheckLost(history)), "");
  history.one_offs[0].cancelled = history.one_offs[0].cancel_called = false;
  EXPECT_NE(First(CheckLost(history)).find("by nobody"), std::string::npos);
  history.one_offs.clear();
  EXPECT_NE(First(CheckLost(history)).find("nobody made it"), std::string::npos);
}

TEST(CheckLost, CatchesAnEventThatEndedTwice) {
  History history = GoodHistory();
  DoneRow again = history.done[0];
  again.first = 1;
  again.count = 1;
  history.done.push_back(again);
  EXPECT_NE(First(CheckLost(history)).find("ended twice"), std::string::npos);
}

TEST(CheckLost, CatchesWhatNobodyAskedFor) {
  History history = GoodHistory();
  history.done[0].occurrence = "20260301T000013-0-UTC";
  EXPECT_NE(First(CheckLost(history)).find("nobody asked"), std::string::npos);
}

TEST(CheckLost, CatchesADeliveryAfterTheScheduleWasDeleted) {
  History history = GoodHistory();
  history.schedules[0].changes[1].called = At(25);
  history.schedules[0].changes[1].answered = At(26);
  EXPECT_NE(First(CheckLost(history)).find("was not to fire"), std::string::npos);
  history.done[2].outcome = Outcome::kSkipped;
  history.done[2].reason = "deleted";
  EXPECT_EQ(First(CheckLost(history)), "");
}

TEST(CheckLost, LetsPassWhatWasClaimedJustBeforeAChangeOrWaitedForAResume) {
  History history = GoodHistory();
  auto& changes = history.schedules[0].changes;
  changes[1].called = At(29.985);
  changes[1].answered = At(29.99);
  EXPECT_EQ(First(CheckLost(history)), "") << "claimed before the delete";
  changes[1].called = At(35);
  changes[1].answered = At(35.2);
  changes.insert(changes.begin() + 1, {{ScheduleChange::Kind::kPause, At(18), At(18.1), {}},
                                       {ScheduleChange::Kind::kResume, At(25), At(25.1), {}}});
  EXPECT_EQ(First(CheckLost(history)), "") << "delivered after the resume";
  history.done.erase(history.done.begin() + 1);
  EXPECT_NE(First(CheckLost(history)).find("has no outcome"), std::string::npos);
  changes.erase(changes.begin() + 2);
  history.done.pop_back();  // the one-off event's row
  history.done.pop_back();
  history.one_offs.clear();
  EXPECT_EQ(First(CheckLost(history)), "") << "without a resume it is owed nothing";
}

TEST(CheckLost, LetsEventsExpireOnlyWhereAWindowDrops) {
  History history = GoodHistory();
  history.done[0].outcome = Outcome::kExpired;
  EXPECT_NE(First(CheckLost(history)).find("no window of it drops"), std::string::npos);
  history.schedules[0].may_drop = true;
  EXPECT_EQ(First(CheckLost(history)), "");
}

TEST(CheckLost, CatchesARowThatStaysInAQueue) {
  History history = GoodHistory();
  history.leftover.push_back("events row");
  EXPECT_NE(First(CheckLost(history)).find("left over"), std::string::npos);
}

TEST(CheckEarly, CatchesAReceiptBeforeItsTimeWhateverTheMessageSays) {
  History history = GoodHistory();
  history.receipts[0].time = history.receipts[0].nominal = history.receipts[0].launch = At(9.999);
  EXPECT_EQ(CheckEarly(history).size(), 1u);
}

TEST(CheckEarly, CatchesAnEventBeforeItsPlaceInAnEvenWindow) {
  History history = GoodHistory();
  history.schedules[0].changes[0].definition.paced = absl::Seconds(4);
  EXPECT_EQ(CheckEarly(history).size(), 3u) << "the second of two may go after two seconds";
  for (Receipt& receipt : history.receipts) {
    if (receipt.index == 1) receipt.time += absl::Seconds(2);
  }
  EXPECT_EQ(First(CheckEarly(history)), "");
}

TEST(CheckEarly, CatchesAnEarlyOneOffEvent) {
  History history = GoodHistory();
  history.receipts.back().time = At(11.9);
  EXPECT_EQ(CheckEarly(history).size(), 1u);
}

Receipt Again(const Receipt& receipt, double seconds) {
  Receipt again = receipt;
  again.time = again.sent = At(seconds);
  return again;
}

TEST(CheckDoubled, CatchesASecondReceiptOfWhatWasAccepted) {
  History history = GoodHistory();
  history.receipts.push_back(Again(history.receipts[0], 40));
  EXPECT_EQ(CheckDoubled(history).size(), 1u);
}

TEST(CheckDoubled, LetsARetryPassOnlyAfterTheSenderKnew) {
  History history = GoodHistory();
  history.receipts[0].result = SendResult::kFailed;
  history.receipts.push_back(Again(history.receipts[0], 40));
  EXPECT_EQ(CheckDoubled(history).size(), 1u) << "the same attempt";
  history.receipts.back().attempt = 2;
  EXPECT_EQ(CheckDoubled(history).size(), 0u);
  history.receipts[0].result_time = At(41);
  EXPECT_EQ(CheckDoubled(history).size(), 1u) << "not known yet";
}

TEST(CheckDoubled, LetsAThrottledEventComeAgainOnlyAfterItsWorkFailed) {
  History history = GoodHistory();
  history.receipts[0].throttled = true;
  history.receipts.push_back(Again(history.receipts[0], 40));
  history.receipts.back().attempt = 2;
  EXPECT_EQ(CheckDoubled(history).size(), 1u);
  RowWrite row;
  row.uid = "u1";
  row.occurrence = history.receipts[0].occurrence;
  row.events = {0, 1};
  row.last_error = "hold_expired";
  history.commits.back().time = At(30);
  history.commits.back().throttle.push_back(row);
  EXPECT_EQ(CheckDoubled(history).size(), 0u);
  history.commits.back().throttle.clear();
  Work work;
  work.ended = At(20);
  work.word = WorkWord::kFailed;
  history.works.push_back(work);
  EXPECT_EQ(CheckDoubled(history).size(), 0u);
  history.receipts.back().attempt = 1;
  EXPECT_EQ(CheckDoubled(history).size(), 1u) << "the same attempt";
}

TEST(CheckDoubled, LetsATakeoverPassUnlessTheRunIsFreeOfFaults) {
  History history = GoodHistory();
  history.receipts.push_back(Again(history.receipts[0], 40));
  history.commits.push_back({4, At(39), {}, {{"queue_shard/3", 2, "h2"}}, {}, {}, {}});
  EXPECT_EQ(CheckDoubled(history).size(), 0u);
  history.fault_free = true;
  EXPECT_EQ(CheckDoubled(history).size(), 1u);
}

TEST(CheckDoubled, ATakeoverOfAnotherShardExplainsNothing) {
  History history = GoodHistory();
  history.receipts.push_back(Again(history.receipts[0], 40));
  history.commits.push_back({4, At(39), {}, {{"queue_shard/4", 1, "h2"}}, {}, {}, {}});
  EXPECT_EQ(CheckDoubled(history).size(), 1u);
}

TEST(CheckDoubled, CatchesTwoBodiesTwoEventsAndTwoIds) {
  History history = GoodHistory();
  history.receipts[0].result = SendResult::kFailed;
  history.receipts.push_back(Again(history.receipts[0], 40));
  history.receipts.back().attempt = 2;
  history.receipts.back().body_hash = 7;
  EXPECT_NE(First(CheckDoubled(history)).find("two bodies"), std::string::npos);
  history.receipts.back().body_hash = 0;
  history.receipts.back().index = 1;
  EXPECT_NE(First(CheckDoubled(history)).find("two events"), std::string::npos);
  history.receipts.back().index = 0;
  history.receipts.back().event_id = "other";
  EXPECT_NE(First(CheckDoubled(history)).find("two ids"), std::string::npos);
}

TEST(CheckStaleEpoch, CatchesACommitOfAnEpochThatIsOver) {
  History history = GoodHistory();
  history.commits.insert(history.commits.begin() + 2,
                         {3, At(10), {}, {{"queue_shard/3", 2, "h2"}}, {}, {}, {}});
  history.commits.back().seq = 4;
  EXPECT_NE(First(CheckStaleEpoch(history)).find("applied under epoch 1"), std::string::npos);
}

TEST(CheckStaleEpoch, CatchesAClaimOfAnEpochThatIsOverAlsoWithoutFence) {
  History history = GoodHistory();
  history.commits.push_back({4, At(12), {}, {{"queue_shard/3", 2, "h2"}}, {}, {}, {}});
  history.commits.push_back({5, At(13), {}, {}, {{"claim", "queue_shard/3", 1}}, {}, {}});
  const auto violations = CheckStaleEpoch(history);
  ASSERT_EQ(violations.size(), 2u);
  EXPECT_NE(violations[0].what.find("without the fence"), std::string::npos);
  EXPECT_NE(violations[1].what.find("by epoch 1"), std::string::npos);
}

TEST(CheckStaleEpoch, CatchesEpochsThatGoBackJumpOrAreShared) {
  History history = GoodHistory();
  history.commits.push_back({4, At(12), {}, {{"queue_shard/3", 1, "h2"}}, {}, {}, {}});
  EXPECT_NE(First(CheckStaleEpoch(history)).find("two owners"), std::string::npos);
  history.commits.back().leases[0].epoch = 3;
  EXPECT_NE(First(CheckStaleEpoch(history)).find("jumped"), std::string::npos);
  history.commits.back().leases[0].epoch = 0;
  EXPECT_NE(First(CheckStaleEpoch(history)).find("went back"), std::string::npos);
}

TEST(CheckStaleEpoch, CatchesALeaseThatIsTakenBeforeItsEnd) {
  History history = GoodHistory();
  history.commits.push_back({4, At(12), {}, {{"queue_shard/4", 1, "h1", At(17)}}, {}, {}, {}});
  history.commits.push_back({5, At(16), {}, {{"queue_shard/4", 2, "h2", At(21)}}, {}, {}, {}});
  EXPECT_NE(First(CheckStaleEpoch(history)).find("h1 had it until"), std::string::npos);
  history.commits.back().store_time = At(17);
  EXPECT_EQ(CheckStaleEpoch(history).size(), 0u);
  // Renewed, and released.
  history.commits.back() = {5, At(16), {}, {{"queue_shard/4", 1, "h1", At(21)}}, {}, {}, {}};
  history.commits.push_back({6, At(17), {}, {{"queue_shard/4", 1, "", At(17)}}, {}, {}, {}});
  history.commits.push_back({7, At(18), {}, {{"queue_shard/4", 2, "h2", At(23)}}, {}, {}, {}});
  EXPECT_EQ(CheckStaleEpoch(history).size(), 0u);
}

TEST(CheckStaleEpoch, CatchesACheckpointThatGoesBackAndASecondEnd) {
  History history = GoodHistory();
  history.commits.push_back({4, At(12), {}, {}, {}, {{"emitted_to/0", 19}}, {}});
  EXPECT_NE(First(CheckStaleEpoch(history)).find("went back"), std::string::npos);
  history.commits.back() = {4, At(12), {}, {}, {}, {}, {{"k", "failed"}}};
  EXPECT_NE(First(CheckStaleEpoch(history)).find("and again"), std::string::npos);
}

}  // namespace checkers_test
}  // namespace escapement::simulation
