#include "common/kv/replica/takeover_timer.h"

#include "common/kv/replica/leader_lease.h"
#include "gtest/gtest.h"

namespace escapement::kv {
namespace takeover_timer_test {

LogState At(uint64_t epoch, uint64_t seq) {
  LogState state;
  state.leader = {epoch, "owner"};
  state.last = {seq, seq * 7};
  return state;
}

LogPlace Place(uint64_t epoch, uint64_t seq, RecordKind kind = RecordKind::kBatch) {
  return {{seq, seq * 7}, epoch, kind, 0};
}

TEST(TakeoverTimer, SilenceOfThreeSecondsLetsAFollowerLead) {
  TakeoverTimer timer;
  EXPECT_FALSE(timer.MayLead(Place(4, 10), absl::Seconds(100)));
  timer.Observe(At(4, 10), absl::Seconds(100));
  EXPECT_FALSE(timer.MayLead(Place(4, 10), absl::Seconds(102.9)));
  timer.Observe(At(4, 10), absl::Seconds(102));
  EXPECT_TRUE(timer.MayLead(Place(4, 10), absl::Seconds(103)));
  EXPECT_EQ(timer.end_known_since(), absl::Seconds(100));
}

TEST(TakeoverTimer, RowOrNewLeaderBeginsTheWaitAgain) {
  TakeoverTimer timer;
  timer.Observe(At(4, 10), absl::Seconds(100));
  timer.Observe(At(4, 11), absl::Seconds(102));
  EXPECT_FALSE(timer.MayLead(Place(4, 11), absl::Seconds(104)));
  timer.Observe(At(5, 11), absl::Seconds(104));
  EXPECT_FALSE(timer.MayLead(Place(4, 11), absl::Seconds(106)));
  EXPECT_TRUE(timer.MayLead(Place(4, 11), absl::Seconds(107)));
}

TEST(TakeoverTimer, SilenceWhileTheLogCannotBeReadDoesNotCount) {
  TakeoverTimer timer;
  timer.Observe(At(4, 10), absl::Seconds(100));
  timer.ObserveNothing();
  EXPECT_FALSE(timer.MayLead(Place(4, 10), absl::Seconds(110)));
  timer.Observe(At(4, 10), absl::Seconds(110));
  EXPECT_FALSE(timer.MayLead(Place(4, 10), absl::Seconds(112)));
  EXPECT_TRUE(timer.MayLead(Place(4, 10), absl::Seconds(113)));
}

// Otherwise store time falls behind by the outage, and by a successor that wrote nothing.
TEST(TakeoverTimer, EndStaysKnownOverFailedReadsAndLeadersWithoutRows) {
  TakeoverTimer timer;
  timer.Observe(At(4, 10), absl::Seconds(100));
  timer.ObserveNothing();
  timer.Observe(At(4, 10), absl::Seconds(110));
  EXPECT_EQ(timer.end_known_since(), absl::Seconds(100));
  timer.Observe(At(5, 10), absl::Seconds(111));
  EXPECT_EQ(timer.end_known_since(), absl::Seconds(100));
  timer.Observe(At(5, 11), absl::Seconds(112));
  EXPECT_EQ(timer.end_known_since(), absl::Seconds(112));
}

TEST(TakeoverTimer, OnlyACopyAtTheEndMayLead) {
  TakeoverTimer timer;
  timer.Observe(At(4, 10), absl::Seconds(100));
  EXPECT_FALSE(timer.MayLead(Place(4, 9), absl::Seconds(110)));
  EXPECT_FALSE(timer.MayLead({{10, 1}, 4, RecordKind::kBatch, 0}, absl::Seconds(110)));
}

TEST(TakeoverTimer, HandoverLetsOthersLeadAtOnce) {
  TakeoverTimer timer;
  timer.Observe(At(4, 10), absl::Seconds(100));
  EXPECT_TRUE(timer.MayLead(Place(4, 10, RecordKind::kHandover), absl::Seconds(100)));
  // Another follower was faster, and has not written yet.
  timer.Observe(At(5, 10), absl::Seconds(100));
  EXPECT_FALSE(timer.MayLead(Place(4, 10, RecordKind::kHandover), absl::Seconds(100)));
}

TEST(TakeoverTimer, ReplicaThatGaveUpLeavesTheFirstTryToOthers) {
  TakeoverTimer timer;
  timer.NoteGivenUp(4);
  timer.Observe(At(4, 10), absl::Seconds(100));
  EXPECT_FALSE(timer.MayLead(Place(4, 10, RecordKind::kHandover), absl::Seconds(102)));
  EXPECT_TRUE(timer.MayLead(Place(4, 10, RecordKind::kHandover), absl::Seconds(103)));
}

TEST(LeaderLease, SaysWhenItWasRenewedLast) {
  LeaderLease lease;
  EXPECT_FALSE(lease.renewed_at().has_value());
  lease.Renew(absl::Seconds(10));
  lease.Renew(absl::Seconds(9));
  EXPECT_EQ(lease.renewed_at(), absl::Seconds(10));
  lease.End();
  EXPECT_FALSE(lease.renewed_at().has_value());
}

TEST(LeaderLease, HoldsForLessThanTheSilenceThatOthersWait) {
  LeaderLease lease;
  EXPECT_FALSE(lease.Holds(absl::Seconds(1)));
  lease.Renew(absl::Seconds(10));
  EXPECT_TRUE(lease.Holds(absl::Seconds(10) + kLeaseMax - absl::Nanoseconds(1)));
  EXPECT_FALSE(lease.Holds(absl::Seconds(10) + kLeaseMax));
  lease.Renew(absl::Seconds(9));
  EXPECT_TRUE(lease.Holds(absl::Seconds(12)));
  lease.End();
  lease.Renew(absl::Seconds(20));
  EXPECT_FALSE(lease.Holds(absl::Seconds(11)));
}

}  // namespace takeover_timer_test
}  // namespace escapement::kv
