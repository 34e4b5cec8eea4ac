// The checkers of throttling pass a correct history and catch planted breaches.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "tests/simulation/checkers/tokens/token_checks.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {
namespace token_checkers_test {

using simulation::At;  // beside the overload below

RowWrite Waits(uint64_t first, uint64_t count, double due = 10) {
  RowWrite row;
  row.key = "row of p";
  row.policy = "p";
  row.uid = "u";
  row.occurrence = "o";
  row.events = {first, count};
  row.due = At(due);
  return row;
}

RowWrite Gone() {
  RowWrite row = Waits(0, 0);
  row.deleted = true;
  return row;
}

// The row of event 0's second attempt.
RowWrite Retry(double due, std::string error) {
  RowWrite row = Waits(0, 1, due);
  row.key = "retry row of p";
  row.last_error = std::move(error);
  return row;
}

GrantWrite Holds(uint64_t number, std::vector<Indices> holders, double time) {
  GrantWrite grant;
  grant.name = {"p", 1, number};
  grant.deleted = holders.empty();
  grant.uid = "u";
  grant.occurrence = "o";
  grant.holders = std::move(holders);
  grant.grant_time = At(time);
  grant.send_before = At(time + 10);
  return grant;
}

ClaimWrite Claim(uint64_t number, Indices events) { return {{"p", 1, number}, {events}}; }

EndWrite Ended(uint64_t index, std::string reason = "") {
  return {"u", "o", {index, 1}, reason.empty() ? Outcome::kSucceeded : Outcome::kFailed, reason};
}

Commit At(double seconds, std::vector<ThrottleWrite> writes) {
  Commit commit;
  commit.time = commit.store_time = At(seconds);
  commit.throttle = std::move(writes);
  commit.fence.push_back({"policy_shard/0", 1});
  return commit;
}

Receipt Received(uint64_t index, double seconds) {
  Receipt receipt;
  receipt.time = receipt.sent = At(seconds);
  receipt.event_id = "e" + std::to_string(index);
  receipt.uid = "u";
  receipt.occurrence = "o";
  receipt.index = index;
  receipt.timeout = absl::Seconds(2);
  receipt.result = SendResult::kAccepted;
  receipt.result_time = At(seconds + 0.01);
  return receipt;
}

ScheduleLife LifeOf(std::string uid, std::string target) {
  ScheduleLife life;
  life.uid = std::move(uid);
  life.target = std::move(target);
  return life;
}

PolicyWrite PolicyWith(std::string name, uint64_t max_concurrent) {
  PolicyWrite policy;
  policy.policy = std::move(name);
  policy.max_concurrent = max_concurrent;
  return policy;
}

// A run of three under a policy of two: two are granted, one ends, and the third follows.
History GoodHistory() {
  History history;
  history.calm = kBegin;
  history.end = At(60);
  history.schedules.push_back(LifeOf("u", "t"));
  history.commits = {
      At(1, {PolicyWith("p", 2), ScheduleStateWrite{"u", true}}),
      At(9, {Waits(0, 3)}),
      At(10, {Waits(2, 1), Holds(1, {{0, 2}}, 10), Claim(1, {0, 2})}),
      At(12, {Holds(1, {{1, 1}}, 10), Ended(0), Gone(), Holds(2, {{2, 1}}, 12), Claim(2, {2, 1})}),
      At(13, {Holds(1, {}, 10), Ended(1)}),
      At(14, {Holds(2, {}, 12), Ended(2)}),
  };
  history.receipts = {Received(0, 10.1), Received(1, 10.1), Received(2, 12.1)};
  for (size_t i = 0; i < history.receipts.size(); ++i) {
    Work work;
    work.receipt = i;
    work.on_release = true;
    work.begun = history.receipts[i].time;
    work.ended = At(i == 0 ? 11.9 : i == 1 ? 12.9 : 13.9);
    history.works.push_back(work);
  }
  return history;
}

TEST(TokenCheckers, FindNothingInAHistoryThatIsRight) {
  const History history = GoodHistory();
  EXPECT_EQ(Texts(CheckCap(history)), "");
  EXPECT_EQ(Texts(CheckTokenEnd(history)), "");
  EXPECT_EQ(Texts(CheckIdle(history)), "");
  EXPECT_EQ(Texts(CheckSink(history)), "");
}

PolicyWrite& PolicyOf(History& history) {
  return std::get<PolicyWrite>(history.commits[0].throttle[0]);
}

TEST(CheckCap, CatchesOneHolderTooMany) {
  History history = GoodHistory();
  PolicyOf(history).max_concurrent = 1;
  EXPECT_TRUE(absl::StrContains(Texts(CheckCap(history)), "has 2 holders after a grant, of 1"));
}

TEST(CheckCap, LetsALowerLimitTakeNothingBackButCatchesTheNextGrant) {
  History history = GoodHistory();
  PolicyWrite lower = PolicyOf(history);
  lower.max_concurrent = 1;
  history.commits.insert(history.commits.begin() + 3, At(11, {lower}));
  EXPECT_EQ(CheckCap(history).size(), 1u) << "the grant at 12 s, and nothing before it";
}

TEST(CheckCap, CatchesGrantsWhenPolicyOrScheduleIsPausedOrPolicyIsGone) {
  History history = GoodHistory();
  PolicyOf(history).paused = true;
  EXPECT_TRUE(absl::StrContains(Texts(CheckCap(history)), "which is paused"));
  history = GoodHistory();
  std::get<ScheduleStateWrite>(history.commits[0].throttle[1]).enabled = false;
  EXPECT_TRUE(absl::StrContains(Texts(CheckCap(history)), "paused or deleted"));
  history = GoodHistory();
  PolicyOf(history).deleted = true;
  EXPECT_TRUE(absl::StrContains(Texts(CheckCap(history)), "not there"));
}

TEST(CheckCap, CatchesARateThatIsExceeded) {
  History history = GoodHistory();
  PolicyOf(history).max_per_second = 1;
  PolicyOf(history).burst = 2;
  EXPECT_EQ(Texts(CheckCap(history)), "");
  PolicyOf(history).max_per_second = 0.4;  // allows two at 10 s, but no third at 12 s
  EXPECT_TRUE(absl::StrContains(Texts(CheckCap(history)), "at once"));
}

TEST(CheckCap, CatchesAGrantFromTheFuture) {
  History history = GoodHistory();
  std::get<GrantWrite>(history.commits[2].throttle[1]).grant_time = At(10.1);
  EXPECT_TRUE(absl::StrContains(Texts(CheckCap(history)), "bears the time"));
}

// The violations of CheckTokenEnd if one write of commit `index` is missing.
std::string Lacking(size_t index, size_t write) {
  History history = GoodHistory();
  auto& writes = history.commits[index].throttle;
  writes.erase(writes.begin() + static_cast<std::ptrdiff_t>(write));
  return Texts(CheckTokenEnd(history));
}

TEST(CheckTokenEnd, CatchesATokenThatIsLost) {
  EXPECT_TRUE(absl::StrContains(Lacking(4, 1), "lost its token without outcome"));
}

TEST(CheckTokenEnd, CatchesATokenThatIsKeptAfterTheEnd) {
  EXPECT_TRUE(absl::StrContains(Lacking(4, 0), "keeps its token"));
}

TEST(CheckTokenEnd, CatchesAGrantThatIsNotClaimed) {
  EXPECT_TRUE(absl::StrContains(Lacking(2, 2), "not claimed"));
}

TEST(CheckTokenEnd, CatchesARowThatStays) {
  EXPECT_TRUE(absl::StrContains(Lacking(2, 0), "granted and still waits"));
}

TEST(CheckTokenEnd, CatchesAnEventThatEndsAndWaits) {
  History history = GoodHistory();
  history.commits[3].throttle.push_back(Retry(12, "x"));
  EXPECT_TRUE(absl::StrContains(Texts(CheckTokenEnd(history)), "has ended and waits again"));
}

// A schedule was changed away from the occurrence and back to it without the policy. The row of the
// former version still waits, until a token manager judges it.
TEST(CheckTokenEnd, LetsARowWaitThatAChangeBackHasMadeAgainAmongTheEvents) {
  RowWrite again = Waits(0, 3);
  again.table = RowWrite::Table::kEvents;
  again.key = "event row";
  History history = GoodHistory();
  history.commits.resize(2);
  history.commits.push_back(At(9.2, {again}));
  history.commits.push_back(At(9.6, {Ended(0)}));
  EXPECT_TRUE(absl::StrContains(Texts(CheckTokenEnd(history)), "has ended and still waits"))
      << "its token manager moved it, and left it where it was";
  history.commits[2].fence.clear();
  EXPECT_EQ(Texts(CheckTokenEnd(history)), "");
}

TEST(CheckTokenEnd, CatchesTwoOutcomesAndAGrantAfterTheEnd) {
  History history = GoodHistory();
  history.commits.push_back(At(15, {Ended(2)}));
  EXPECT_TRUE(absl::StrContains(Texts(CheckTokenEnd(history)), "two outcomes"));
  history = GoodHistory();
  history.commits.push_back(At(15, {Holds(3, {{2, 1}}, 15), Claim(3, {2, 1})}));
  EXPECT_TRUE(absl::StrContains(Texts(CheckTokenEnd(history)), "granted after its end"));
}

TEST(CheckTokenEnd, CatchesTwoTokensOfOneEventReusedNameAndClaimWithoutToken) {
  History history = GoodHistory();
  history.commits.insert(history.commits.begin() + 3,
                         At(11, {Holds(9, {{1, 1}}, 11), Claim(9, {1, 1})}));
  EXPECT_TRUE(absl::StrContains(Texts(CheckTokenEnd(history)), "holds 2 tokens"));
  history = GoodHistory();
  history.commits.push_back(At(15, {Holds(2, {{3, 1}}, 15), Claim(2, {3, 1})}));
  EXPECT_TRUE(absl::StrContains(Texts(CheckTokenEnd(history)), "had been in use"));
  history = GoodHistory();
  history.commits.insert(history.commits.begin() + 4, At(12.5, {Claim(1, {0, 1})}));
  EXPECT_TRUE(absl::StrContains(Texts(CheckTokenEnd(history)), "claimed without holding"));
}

TEST(CheckTokenEnd, CatchesACompletionThatTookEffectAndDidNotCount) {
  History history = GoodHistory();
  DoneRow row;
  row.uid = "u";
  row.occurrence = "o";
  row.count = 3;
  row.outcome = Outcome::kSucceeded;
  history.done.push_back(row);
  history.works[1].word = WorkWord::kFailedFinally;
  EXPECT_EQ(Texts(CheckTokenEnd(history)), "");
  history.works[1].took_effect = true;
  EXPECT_TRUE(absl::StrContains(Texts(CheckTokenEnd(history)), "ended otherwise"));
}

TEST(CheckTokenEnd, LetsARetryPass) {
  History history = GoodHistory();
  history.commits[3].throttle[1] = Retry(13, "500");
  history.commits.push_back(At(15, {[] {
                                      RowWrite row = Retry(0, "");
                                      row.deleted = true;
                                      return row;
                                    }(),
                                    Holds(4, {{0, 1}}, 15), Claim(4, {0, 1})}));
  EXPECT_EQ(Texts(CheckTokenEnd(history)), "");
}

TEST(CheckTokenEnd, ComparesCountsWithHolders) {
  History history = GoodHistory();
  const auto counts = [&](size_t commit, uint64_t held) {
    history.commits[commit].throttle.push_back(CountsWrite{"p", false, held});
  };
  // The last counts of a commit are those that stay.
  counts(2, 0);
  counts(2, 2);
  counts(3, 2);
  counts(4, 1);
  counts(5, 0);
  EXPECT_EQ(Texts(CheckTokenEnd(history)), "");
  std::get<CountsWrite>(history.commits[4].throttle.back()).held = 0;
  EXPECT_TRUE(absl::StrContains(Texts(CheckTokenEnd(history)), "counts 0 holders, and has 1"));
}

TEST(CheckIdle, CatchesATokenThatIsFreeForTooLong) {
  History history = GoodHistory();
  // The third is granted only at 13.5 s, though a token is free from 12 s on.
  auto& writes = history.commits[3].throttle;
  std::vector<ThrottleWrite> late(writes.begin() + 2, writes.end());
  writes.erase(writes.begin() + 2, writes.end());
  std::get<GrantWrite>(late[1]).grant_time = At(13.5);
  history.commits.erase(history.commits.begin() + 4, history.commits.end());
  history.commits.push_back(At(13.5, late));
  EXPECT_TRUE(absl::StrContains(Texts(CheckIdle(history)), "free token (1 held)"));
  history.commits.back().time = At(13);
  EXPECT_EQ(Texts(CheckIdle(history)), "");
}

TEST(CheckIdle, UnderstandsWhoMayNotGo) {
  History history = GoodHistory();
  history.commits.erase(history.commits.begin() + 2, history.commits.end());
  RowWrite& row = std::get<RowWrite>(history.commits[1].throttle[0]);
  EXPECT_EQ(CheckIdle(history).size(), 1u);
  row.due = At(70);
  EXPECT_EQ(CheckIdle(history).size(), 0u) << "not due";
  row.due = At(10);
  row.closes = At(10.5);
  EXPECT_EQ(CheckIdle(history).size(), 0u) << "its window is closed";
  row.closes = absl::InfiniteFuture();
  row.window_begin = At(10);
  row.window = absl::Seconds(1000);
  row.pace_count = 10;
  row.events.first = 1;
  EXPECT_EQ(CheckIdle(history).size(), 0u) << "its place in the window is to come";
  row.pace_count = 0;
  PolicyOf(history).paused = true;
  EXPECT_EQ(CheckIdle(history).size(), 0u) << "the policy is paused";
  PolicyOf(history).paused = false;
  history.calm = At(60);
  EXPECT_EQ(CheckIdle(history).size(), 0u) << "there are faults";
}

TEST(CheckIdle, UnderstandsTargetsThatArePassedOver) {
  History history = GoodHistory();
  history.commits.erase(history.commits.begin() + 4, history.commits.end());
  history.commits[3] = At(12, {Holds(1, {{1, 1}}, 10), Ended(0),
                               ReportWrite{{"p", 1, 1}, /*unreachable=*/true, false}});
  EXPECT_EQ(Texts(CheckIdle(history)), "");
  std::get<ReportWrite>(history.commits[3].throttle[2]).unreachable = false;
  EXPECT_EQ(CheckIdle(history).size(), 1u);
}

TEST(CheckIdle, PolicyWithoutGrantsMayKnowOutagesFromOtherPolicies) {
  History history = GoodHistory();
  history.commits.erase(history.commits.begin() + 4, history.commits.end());
  history.commits[0].leases.push_back({.lease = "policy_shard/0", .epoch = 1, .owner = "owner"});
  history.commits[3] = At(12, {Holds(1, {{1, 1}}, 10), Ended(0),
                               ReportWrite{{"p", 1, 1}, /*unreachable=*/true, false}});
  history.schedules.push_back(LifeOf("v", "t"));
  RowWrite row = Waits(0, 1, 13);
  row.key = "row of q";
  row.policy = "q";
  row.uid = "v";
  history.commits.push_back(At(12.5, {PolicyWith("q", 1), ScheduleStateWrite{"v", true}, row}));
  EXPECT_EQ(Texts(CheckIdle(history)), "");
  history.schedules.back().target = "another";
  EXPECT_TRUE(absl::StrContains(Texts(CheckIdle(history)), "policy q has a free token"));
}

TEST(CheckTokenEnd, KnowsOfALaunchRecordThatWasMadeBesideARow) {
  History history = GoodHistory();
  history.commits.erase(history.commits.begin() + 2, history.commits.end());
  history.commits.push_back(At(11, {Ended(0)}));
  EXPECT_TRUE(absl::StrContains(Texts(CheckTokenEnd(history)), "has ended and still waits"));
  EmissionWrite emission;
  emission.uid = "u";
  emission.occurrence = "o";
  history.commits[1].times = {emission};
  EXPECT_TRUE(absl::StrContains(Texts(CheckTokenEnd(history)), "has ended and still waits"));
  emission.record = true;
  history.commits.insert(history.commits.begin() + 2, At(10, {}));
  history.commits[2].times = {emission};
  EXPECT_EQ(Texts(CheckTokenEnd(history)), "");
}

TEST(CheckSink, CatchesWhatArrivesWithoutAToken) {
  History history = GoodHistory();
  history.works[2].begun = history.receipts[2].time = history.receipts[2].sent = At(11);
  EXPECT_TRUE(absl::StrContains(Texts(CheckSink(history)), "holds no token"));
  history.receipts[2].result = SendResult::kUnknown;
  history.receipts[2].result_time = At(10.9);
  EXPECT_EQ(Texts(CheckSink(history)), "") << "its sender had given it up";
}

TEST(CheckSink, LetsASecondDeliveryArriveThatWasSentWhileItsEventWasOut) {
  History history = GoodHistory();
  history.receipts.push_back(Received(0, 12.5));
  Work work = history.works[0];
  work.receipt = history.receipts.size() - 1;
  work.begun = work.ended = At(12.5);
  history.works.push_back(work);
  history.receipts.back().sent = At(11);
  EXPECT_EQ(Texts(CheckSink(history)), "");
  history.receipts.back().sent = At(12.1);
  EXPECT_TRUE(absl::StrContains(Texts(CheckSink(history)), "holds no token"))
      << "it was given back at 12";
}

TEST(CheckSink, CatchesATokenThatIsTakenBackWhileTheEventIsOut) {
  History history = GoodHistory();
  history.works[0].ended = At(20);
  EXPECT_TRUE(absl::StrContains(Texts(CheckSink(history)), "took its token back"));
  history.commits[3].throttle[1] = Retry(13, "hold_expired");
  EXPECT_EQ(Texts(CheckSink(history)), "") << "it is on record that its hold time ran out";
}

TEST(CheckSink, LetsAQuarantinedEventEndOnceItsAttemptHasTimedOut) {
  History history = GoodHistory();
  history.works[0].ended = At(20);
  history.commits[3].throttle[1] = Retry(13, "quarantined after 3 claims without a result");
  EXPECT_TRUE(absl::StrContains(Texts(CheckSink(history)), "took its token back"));
  history.receipts[0].timeout = absl::Seconds(1);
  EXPECT_EQ(Texts(CheckSink(history)), "");
}

// Adds a second delivery of event 0 that is out until 20 s, as the first is.
Receipt& SendAgain(History& history, double seconds) {
  history.receipts.push_back(Received(0, seconds));
  history.works[0].ended = At(20);
  Work again = history.works[0];
  again.receipt = history.receipts.size() - 1;
  again.begun = At(seconds);
  history.works.push_back(again);
  return history.receipts.back();
}

TEST(CheckSink, CatchesATokenThatIsTakenBackWhileASecondDeliveryIsOut) {
  History history = GoodHistory();
  SendAgain(history, 11.5).sender = "handler1";
  history.receipts[0].timeout = absl::Seconds(1);
  history.commits[3].throttle[1] = Retry(13, "no answer");
  EXPECT_TRUE(absl::StrContains(Texts(CheckSink(history)), "took its token back"))
      << "only the first has timed out";
  history.died["handler1"] = At(11.9);
  EXPECT_EQ(Texts(CheckSink(history)), "");
  history.died.clear();
  history.receipts.back().timeout = absl::Milliseconds(400);
  EXPECT_EQ(Texts(CheckSink(history)), "");
}

TEST(CheckSink, CatchesATokenThatIsTakenBackWhileTheNextAttemptIsOut) {
  History history = GoodHistory();
  SendAgain(history, 11.5).attempt = 2;
  history.receipts[0].result = SendResult::kUnknown;
  EXPECT_TRUE(absl::StrContains(Texts(CheckSink(history)), "took its token back"))
      << "only the first was given up";
  history.receipts.back().result = SendResult::kUnknown;
  EXPECT_EQ(Texts(CheckSink(history)), "");
}

TEST(CheckSink, CatchesOneEventTooManyAtTheConsumer) {
  History history = GoodHistory();
  // Three events hold tokens under a limit of two, and all are out.
  history.commits.erase(history.commits.begin() + 4, history.commits.end());
  history.commits[3].throttle.erase(history.commits[3].throttle.begin(),
                                    history.commits[3].throttle.begin() + 2);
  for (Work& work : history.works) work.ended = At(20);
  EXPECT_TRUE(
      absl::StrContains(Texts(CheckSink(history)), "with it 3 are out under policy p of 2"));
  EXPECT_TRUE(absl::StrContains(Texts(CheckCap(history)), "has 3 holders"));
}

TEST(CheckSink, LetsWhatWasOutUnderAHigherLimitStayOut) {
  History history = GoodHistory();
  PolicyWrite lower = PolicyOf(history);
  lower.max_concurrent = 1;
  history.commits.insert(history.commits.begin() + 3, At(10.05, {lower}));
  history.commits.erase(history.commits.begin() + 4, history.commits.end());
  history.works.pop_back();
  for (Work& work : history.works) work.ended = At(20);
  EXPECT_EQ(Texts(CheckSink(history)), "");
}

TEST(CheckSink, CatchesWhatIsSentLongAfterItsGrant) {
  History history = GoodHistory();
  std::get<GrantWrite>(history.commits[2].throttle[1]).send_before = At(4);
  EXPECT_TRUE(absl::StrContains(Texts(CheckSink(history)), "not to be sent after"));
}

}  // namespace token_checkers_test
}  // namespace escapement::simulation
