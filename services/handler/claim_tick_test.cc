#include "services/handler/claim_tick.h"

#include "gtest/gtest.h"

namespace escapement::handler {
namespace {

const HandlerOptions kOptions;
const absl::Time kTick = absl::UnixEpoch() + 1000 * kOptions.claim_tick;
constexpr absl::Duration kStep = absl::Microseconds(1);

TEST(ClaimTickTest, ARowIsClaimedAtATickAtLeastTheLeadAndAtMostATickMoreBeforeItIsDue) {
  for (absl::Duration i = absl::ZeroDuration(); i < 3 * kOptions.claim_tick;
       i += absl::Microseconds(37)) {
    const absl::Time due = kTick + i;
    const absl::Time claim = ClaimTime(kOptions, due);
    EXPECT_GE(due - claim, kOptions.claim_lead);
    EXPECT_LT(due - claim, kOptions.claim_lead + kOptions.claim_tick + kStep);
    EXPECT_GE(ClaimUntil(kOptions, claim), due) << "it is due for a claim at that time";
    EXPECT_LT(ClaimUntil(kOptions, claim - kStep), due) << "and not before";
  }
}

TEST(ClaimTickTest, WhatIsClaimedDoesNotGrowWithinATick) {
  EXPECT_EQ(ClaimUntil(kOptions, kTick), ClaimUntil(kOptions, kTick + kOptions.claim_tick - kStep));
  EXPECT_EQ(ClaimUntil(kOptions, kTick + kOptions.claim_tick),
            ClaimUntil(kOptions, kTick) + kOptions.claim_tick);
}

}  // namespace
}  // namespace escapement::handler
