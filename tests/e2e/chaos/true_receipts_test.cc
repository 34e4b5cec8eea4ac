// A history that is put together from a socket's observations passes. Each planted fault is caught:
// a missing receipt, one too many, one too early.

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/uid.h"
#include "common/storage/event_id.h"
#include "gtest/gtest.h"
#include "tests/e2e/chaos/judge_chaos.h"

namespace escapement::chaos {
namespace true_receipts_test {

using simulation::ScheduleChange;
using simulation::SendResult;
using simulation::Violation;

const absl::Time kBegin = absl::FromUnixSeconds(1'772'323'200);  // 2026-03-01T00:00:00Z
constexpr char kUid[] = "00112233445566778899aabbccddeeff";

absl::Time At(double seconds) { return kBegin + absl::Seconds(seconds); }

// A schedule of two events every 10 seconds, made at 5 s and deleted at 35 s. Each event arrived
// once, all on one connection, and was accepted.
class TrueReceiptsTest : public testing::Test {
 protected:
  TrueReceiptsTest() {
    history_.begin = kBegin;
    history_.end = At(60);
    history_.calendar = true;
    simulation::ScheduleLife life{.id = "s", .uid = kUid, .changes = {}, .triggered = {}};
    life.changes.push_back(
        {ScheduleChange::Kind::kCreate, At(5), At(5.1), {"*/10 * * * * *", "UTC", 2}});
    life.changes.push_back({ScheduleChange::Kind::kDelete, At(35), At(35.2), {}});
    history_.schedules.push_back(life);
    Commit(At(5.05), simulation::StateWrite{kUid, simulation::StateWrite::Kind::kEnabled, 1});
    for (int tenth = 1; tenth <= 3; ++tenth) {
      const std::string occurrence = absl::StrCat("20260301T0000", tenth, "0-0-UTC");
      for (uint64_t index = 0; index < 2; ++index)
        Arrive(occurrence, index, At(10 * tenth), At(10 * tenth + 0.01 * (1 + double(index))));
      simulation::DoneRow row;
      row.uid = kUid;
      row.occurrence = occurrence;
      row.count = 2;
      row.nominal = At(10 * tenth);
      row.outcome = simulation::Outcome::kSucceeded;
      history_.done.push_back(row);
    }
  }

  void Commit(absl::Time time, const simulation::QueueWrite& write) {
    simulation::Commit commit;
    commit.seq = history_.commits.size() + 1;
    commit.time = commit.store_time = time;
    commit.queue.push_back(write);
    history_.commits.push_back(commit);
  }

  // Adds a claimed attempt that arrives and is answered.
  void Arrive(const std::string& occurrence, uint64_t index, absl::Time due, absl::Time time,
              uint32_t number = 1) {
    simulation::ClaimPut claim;
    claim.claim.number = attempts_.size() + 1;
    claim.events.push_back({kUid, occurrence, {index, 1}, number - 1, 1});
    Commit(time - absl::Milliseconds(5), claim);
    Attempt attempt;
    attempt.number = attempts_.size();
    attempt.time = time;
    attempt.source = "/tenants/default/schedules/s";
    attempt.occurrence = occurrence;
    attempt.index = index;
    attempt.event_id = RunIdentity("default", Uid::FromHex(kUid), occurrence).EventId(index);
    attempt.run_count = 2;
    attempt.attempt = number;
    attempt.nominal = attempt.launch = due;
    attempt.body = "definition 1 of s";
    attempts_.push_back(attempt);
    Fate fate;
    fate.answered = time + absl::Milliseconds(1);
    fate.read = true;
    fates_.push_back(fate);
    // As the simulation's consumer writes it: with its own time, and without a uid.
    simulation::Receipt receipt;
    receipt.time = receipt.sent = time + absl::Milliseconds(2);
    receipt.event_id = attempt.event_id;
    receipt.occurrence = occurrence;
    receipt.uid = std::string(32, '0');
    receipt.index = index;
    receipt.attempt = number;
    receipt.run_count = 2;
    receipt.nominal = receipt.launch = due;
    receipt.sender = absl::StrCat("attempt ", attempt.number);
    receipt.throttled = true;
    receipt.result = SendResult::kAccepted;
    receipt.result_time = receipt.time;
    history_.receipts.push_back(receipt);
  }

  std::vector<Violation> Judge() {
    std::vector<Violation> violations = TellTrueReceipts(attempts_, fates_, &history_);
    for (Violation& violation : JudgeChaos(history_)) violations.push_back(std::move(violation));
    return violations;
  }
  static bool Has(const std::vector<Violation>& violations, const std::string& rule) {
    return std::any_of(violations.begin(), violations.end(),
                       [&](const Violation& violation) { return violation.rule == rule; });
  }

  std::vector<Attempt> attempts_;
  std::vector<Fate> fates_;
  simulation::History history_;
};

TEST_F(TrueReceiptsTest, AHistoryThatIsRightIsFoundRight) {
  for (const Violation& violation : Judge())
    ADD_FAILURE() << violation.rule << ": " << violation.what;
  EXPECT_EQ(history_.receipts[0].uid, kUid);
  EXPECT_EQ(history_.receipts[0].time, attempts_[0].time);
  EXPECT_EQ(history_.receipts[0].version, 1u);
  EXPECT_FALSE(history_.receipts[0].throttled);
}

TEST_F(TrueReceiptsTest, AReceiptThatIsMissingIsCaught) {
  history_.receipts.erase(history_.receipts.begin() + 2);
  attempts_.erase(attempts_.begin() + 2);
  fates_.erase(fates_.begin() + 2);
  for (size_t i = 2; i < attempts_.size(); ++i) {
    attempts_[i].number = i;
    history_.receipts[i].sender = absl::StrCat("attempt ", i);
  }
  EXPECT_TRUE(Has(Judge(), "delivered"));
}

TEST_F(TrueReceiptsTest, AnArrivalOfWhichNobodyTellsIsCaught) {
  history_.receipts.pop_back();
  EXPECT_TRUE(Has(Judge(), "receipts"));
}

TEST_F(TrueReceiptsTest, AReceiptTooManyIsCaught) {
  Arrive("20260301T000010-0-UTC", 0, At(10), At(32));
  EXPECT_TRUE(Has(Judge(), "doubled"));
}

TEST_F(TrueReceiptsTest, AReceiptTooManyIsExplainedIfTheAnswerMayNotHaveBeenRead) {
  Arrive("20260301T000010-0-UTC", 0, At(10), At(32), 2);
  fates_[0].read = false;
  fates_[0].broken = At(31);
  EXPECT_TRUE(Judge().empty());
}

TEST_F(TrueReceiptsTest, AnAttemptMayBeSentAgainByItsTransportIfItsConnectionBroke) {
  Arrive("20260301T000010-0-UTC", 0, At(10), At(32));
  fates_[0].read = false;
  fates_[0].broken = At(31.9);
  EXPECT_FALSE(Has(Judge(), "doubled"));
  EXPECT_EQ(CountRepeats(history_)["of those without an answer, sent again as the same attempt"],
            1u);
}

TEST_F(TrueReceiptsTest, AnAnswerThatWasReadIsReadAlthoughTheConnectionEndedLater) {
  Arrive("20260301T000010-0-UTC", 0, At(10), At(32), 2);
  fates_[0].broken = At(31);
  EXPECT_TRUE(Has(Judge(), "doubled"));
}

TEST_F(TrueReceiptsTest, AReceiptASecondEarlierIsCaught) {
  attempts_[3].time -= absl::Seconds(1);
  EXPECT_TRUE(Has(Judge(), "early"));
}

TEST_F(TrueReceiptsTest, ARunWithoutAnOutcomeIsCaught) {
  history_.done.pop_back();
  EXPECT_TRUE(Has(Judge(), "lost"));
}

TEST_F(TrueReceiptsTest, AnAttemptThatNobodyClaimedIsCaught) {
  history_.commits.pop_back();
  EXPECT_TRUE(Has(Judge(), "claimed"));
}

TEST_F(TrueReceiptsTest, AnIdOfNoEventIsCaught) {
  attempts_[1].event_id = "0123456789abcdef0123456789abcdef";
  EXPECT_TRUE(Has(Judge(), "receipts"));
}

TEST_F(TrueReceiptsTest, ABodyThatNobodyAskedForIsCaught) {
  attempts_[1].body = "definition 1 of another";
  EXPECT_TRUE(Has(Judge(), "receipts"));
}

TEST_F(TrueReceiptsTest, WhetherAnEventHoldsATokenIsAsItWasClaimedForThisAttempt) {
  std::get<simulation::ClaimPut>(history_.commits[1].queue[0]).granted = true;
  // Later, the schedule is taken out of the policy.
  Arrive("20260301T000010-0-UTC", 0, At(10), At(32), 2);
  TellTrueReceipts(attempts_, fates_, &history_);
  EXPECT_TRUE(history_.receipts.front().throttled);
  EXPECT_FALSE(history_.receipts[1].throttled);
  EXPECT_FALSE(history_.receipts.back().throttled);
}

TEST_F(TrueReceiptsTest, WorksFollowTheirReceiptsIntoTheOrderOfArrival) {
  // The consumer wrote the first two in reverse order; both hold tokens.
  std::swap(history_.receipts[0], history_.receipts[1]);
  for (size_t i : {0, 1}) attempts_[i].token = "token";
  for (size_t i : {0, 1}) {
    simulation::Work work;
    work.receipt = i;
    work.begun = history_.receipts[i].time;
    history_.works.push_back(work);
  }
  history_.works.push_back({.receipt = 4, .begun = At(30)});  // holds no token, so it is no work
  TellTrueReceipts(attempts_, fates_, &history_);
  ASSERT_EQ(history_.works.size(), 2u);
  for (size_t i : {0, 1}) {
    EXPECT_EQ(history_.receipts[i].sender, absl::StrCat("attempt ", i));
    EXPECT_EQ(history_.works[i].receipt, i);
    EXPECT_EQ(history_.works[i].begun, attempts_[i].time);
  }
}

}  // namespace true_receipts_test
}  // namespace escapement::chaos
