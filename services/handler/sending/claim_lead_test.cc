#include "gtest/gtest.h"
#include "services/handler/base/options.h"
#include "services/handler/sending/send_loop.h"

namespace escapement::handler {
namespace claim_lead_test {

const absl::Time kTick = absl::UnixEpoch() + 1000 * kClaimTick;
constexpr absl::Duration kStep = absl::Microseconds(1);

class ClaimLeadTest : public ::testing::Test {
 protected:
  // Steps at every tick.
  void Run(absl::Duration duration) {
    for (const absl::Time end = now_ + duration; now_ < end; now_ += kClaimTick) {
      lead_.Step(now_, now_ - kTick);
    }
  }
  absl::Duration Lead() const { return kClaimLead + lead_.extra(); }

  ClaimLead lead_;
  absl::Time now_ = kTick;
};

TEST_F(ClaimLeadTest, RowIsClaimedAtATickBetweenLeadAndLeadPlusOneTick) {
  for (const absl::Duration slowest : {absl::ZeroDuration(), absl::Milliseconds(77)}) {
    lead_.OnCommitted(slowest);
    Run(absl::Seconds(1));
    for (absl::Duration i = absl::ZeroDuration(); i < 3 * kClaimTick; i += absl::Microseconds(37)) {
      const absl::Time due = now_ + i;
      const absl::Time claim = lead_.ClaimTimeOf(due);
      EXPECT_GE(due - claim, Lead());
      EXPECT_LT(due - claim, Lead() + kClaimTick + kStep);
      EXPECT_GE(lead_.LatestDueClaimedAt(claim), due) << "it is due for a claim at that time";
      EXPECT_LT(lead_.LatestDueClaimedAt(claim - kStep), due) << "and not before";
    }
  }
}

TEST_F(ClaimLeadTest, ClaimedRowsDoNotGrowWithinATick) {
  EXPECT_EQ(lead_.LatestDueClaimedAt(kTick), lead_.LatestDueClaimedAt(kTick + kClaimTick - kStep));
  EXPECT_EQ(lead_.LatestDueClaimedAt(kTick + kClaimTick),
            lead_.LatestDueClaimedAt(kTick) + kClaimTick);
  lead_.OnCommitted(absl::Seconds(1));
  lead_.Step(kTick, absl::ZeroDuration());
  const absl::Time until = lead_.LatestDueClaimedAt(kTick);
  lead_.OnCommitted(absl::Seconds(2));
  lead_.Step(kTick + kClaimTick - kStep, absl::Milliseconds(19));
  EXPECT_EQ(lead_.LatestDueClaimedAt(kTick), until);
}

TEST_F(ClaimLeadTest, TheLeadIsAQuarterMoreThanTheSlowestCommitTakes) {
  Run(absl::Seconds(1));
  lead_.OnCommitted(absl::Milliseconds(100));
  lead_.OnCommitted(absl::Milliseconds(4));
  Run(absl::Seconds(1));
  EXPECT_EQ(Lead(), absl::Milliseconds(125));
  lead_.OnCommitted(absl::Seconds(3));
  Run(absl::Seconds(1));
  EXPECT_EQ(Lead(), kClaimLeadMax);
}

TEST_F(ClaimLeadTest, FastCommitsDoNotMoveTheLead) {
  Run(absl::Seconds(1));
  lead_.OnCommitted(absl::Milliseconds(16));
  Run(absl::Seconds(1));
  EXPECT_EQ(Lead(), kClaimLead);
}

TEST_F(ClaimLeadTest, LeadMovesByHalfATickPerTick) {
  Run(absl::Seconds(1));
  lead_.OnCommitted(absl::Milliseconds(160));
  for (absl::Duration lead = kClaimLead; lead < absl::Milliseconds(200);) {
    const absl::Time until = lead_.LatestDueClaimedAt(now_ - kClaimTick);
    Run(kClaimTick);
    lead += kClaimTick / 2;
    EXPECT_EQ(Lead(), lead);
    EXPECT_EQ(lead_.LatestDueClaimedAt(now_ - kClaimTick), until + 1.5 * kClaimTick);
  }
}

TEST_F(ClaimLeadTest, ASlowCommitIsForgottenAfterFiveToTenMinutes) {
  Run(absl::Seconds(1));
  lead_.OnCommitted(absl::Milliseconds(100));
  Run(absl::Minutes(5) - absl::Seconds(2));
  EXPECT_EQ(Lead(), absl::Milliseconds(125));
  Run(absl::Minutes(5) + absl::Seconds(2));
  EXPECT_EQ(Lead(), kClaimLead);
}

TEST_F(ClaimLeadTest, HandlerThatWasPausedForgetsSlowCommitsAtOnce) {
  lead_.OnCommitted(absl::Milliseconds(100));
  Run(absl::Seconds(1));
  now_ += absl::Minutes(10);
  Run(kClaimTick);
  EXPECT_EQ(Lead(), kClaimLead);
}

}  // namespace claim_lead_test
}  // namespace escapement::handler
