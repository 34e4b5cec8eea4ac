#include "services/handler/claims/takeover.h"

#include "gtest/gtest.h"

namespace escapement {
bool operator==(const IndexSlice& a, const IndexSlice& b) {
  return a.first == b.first && a.count == b.count;
}
}  // namespace escapement

namespace escapement::handler {
namespace takeover_test {

using Slices = std::vector<IndexSlice>;

const ClaimId kClaim{.shard = 2, .epoch = 7, .number = 5};

kv::Entry ClaimRow(const ClaimId& id, const std::vector<Slices>& entries) {
  storage::v1::ClaimRecord record;
  for (const Slices& slices : entries) {
    auto* entry = record.add_entries();
    for (const IndexSlice& slice : slices) {
      auto* range = entry->add_ranges();
      range->set_first(slice.first);
      range->set_count(slice.count);
    }
  }
  return {EncodeClaimKey(id), record.SerializeAsString()};
}

kv::Entry EndRow(const ClaimId& id, uint32_t number, uint32_t entry_index, const Slices& slices) {
  storage::v1::ClaimEndRecord record;
  auto* entry = record.add_entries();
  entry->set_entry(entry_index);
  for (const IndexSlice& slice : slices) {
    auto* range = entry->add_ranges();
    range->set_first(slice.first);
    range->set_count(slice.count);
  }
  return {EncodeClaimEndKey(id, number), record.SerializeAsString()};
}

TEST(TakeoverTest, SubtractKeepsTheGaps) {
  EXPECT_EQ(Subtract({{0, 10}}, {{4, 2}, {0, 1}}), Slices({{1, 3}, {6, 4}}));
  EXPECT_EQ(Subtract({{5, 5}}, {{0, 7}}), Slices({{7, 3}}));
  EXPECT_EQ(Subtract({{5, 5}}, {{0, 100}}), Slices());
  EXPECT_EQ(Subtract({{0, 2}, {8, 2}}, {{1, 8}}), Slices({{0, 1}, {9, 1}}));
}

TEST(TakeoverTest, EventsWithoutAnEndAreOpen) {
  const Takeover plan =
      PlanTakeover({ClaimRow(kClaim, {{{0, 100}}, {{7, 1}}}), EndRow(kClaim, 0, 0, {{0, 40}}),
                    EndRow(kClaim, 1, 0, {{60, 40}})});
  ASSERT_EQ(plan.claims.size(), 1u);
  EXPECT_EQ(plan.claims[0].id, kClaim);
  EXPECT_EQ(plan.claims[0].ends_written, 2u);
  EXPECT_EQ(plan.claims[0].entries[0].open, Slices({{40, 20}}));
  EXPECT_EQ(plan.claims[0].entries[1].open, Slices({{7, 1}}));
  EXPECT_TRUE(plan.garbage_keys.empty());
}

TEST(TakeoverTest, EndsWithoutAClaimAndEndedClaimsAreGarbage) {
  const ClaimId other{.shard = 2, .epoch = 7, .number = 6};
  const Takeover plan = PlanTakeover({EndRow(other, 0, 0, {{0, 1}}), ClaimRow(kClaim, {{{0, 3}}}),
                                      EndRow(kClaim, 0, 0, {{0, 3}})});
  EXPECT_TRUE(plan.claims.empty());
  EXPECT_EQ(plan.garbage_keys.size(), 3u);
}

LeftClaim Left() {
  LeftClaim claim;
  claim.id = kClaim;
  claim.timeout_max_micros = 10'000'000;
  return claim;
}

constexpr absl::Duration kMargin = absl::Seconds(1);
const absl::Time kEnd = absl::FromUnixSeconds(1000);

TEST(TakeoverTest, TheWaitCountsFromTheFirstOwnersEnd) {
  LeftClaim claim = Left();
  EXPECT_TRUE(NoteFormerOwner({.end = kEnd, .lost = true}, claim));
  EXPECT_EQ(QuietFrom(claim, kMargin), kEnd + absl::Seconds(11));
  // The next owner goes before it has adopted the claim.
  EXPECT_FALSE(NoteFormerOwner({.end = kEnd + absl::Seconds(7), .lost = true}, claim));
  EXPECT_EQ(QuietFrom(claim, kMargin), kEnd + absl::Seconds(11));
  EXPECT_EQ(claim.takeover.lost_claims(), 1u);
  // It had adopted it.
  claim.takeover.clear_quiet_from_micros();
  EXPECT_TRUE(NoteFormerOwner({.end = kEnd + absl::Seconds(7), .lost = true}, claim));
  EXPECT_EQ(QuietFrom(claim, kMargin), kEnd + absl::Seconds(18));
  EXPECT_EQ(claim.takeover.lost_claims(), 2u);
}

TEST(TakeoverTest, NothingOfADeadOwnerIsUnderWay) {
  LeftClaim claim = Left();
  EXPECT_TRUE(NoteFormerOwner({.end = kEnd, .lost = true, .dead = true, .marked = true}, claim));
  EXPECT_EQ(QuietFrom(claim, kMargin), absl::InfinitePast());
  EXPECT_EQ(claim.takeover.lost_claims(), 1u);
}

// Its consumer may still be busy with it, and nobody asks the consumer again.
TEST(TakeoverTest, AnEventThatIsQuarantinedMayBeUnderWayUntilItsTimeout) {
  LeftClaim claim = Left();
  claim.takeover.mutable_trial()->set_index(3);
  EXPECT_TRUE(NoteFormerOwner({.end = kEnd, .lost = true, .dead = true, .marked = true}, claim));
  EXPECT_TRUE(claim.IsQuarantined(0, {.first = 0, .count = 10}));
  EXPECT_EQ(QuietFrom(claim, kMargin), kEnd + absl::Seconds(11));
}

// The dead owner died before it could note which claims were left by others.
TEST(TakeoverTest, WithoutAMarkTheClaimMayBeOfAnotherOwner) {
  LeftClaim claim = Left();
  EXPECT_TRUE(NoteFormerOwner({.end = kEnd, .lost = true, .dead = true}, claim));
  EXPECT_EQ(QuietFrom(claim, kMargin), kEnd + absl::Seconds(11));
}

TEST(TakeoverTest, AnOwnerThatReleasedTheShardIsNotLost) {
  LeftClaim claim = Left();
  claim.takeover.mutable_trial()->set_index(3);
  EXPECT_TRUE(NoteFormerOwner({.end = kEnd}, claim));
  EXPECT_EQ(claim.takeover.lost_claims(), 0u);
  EXPECT_FALSE(claim.IsQuarantined(0, {.first = 0, .count = 10}));
}

TEST(TakeoverTest, NotesAreReadBack) {
  LeftClaim claim = Left();
  claim.takeover.mutable_trial()->set_entry(1);
  claim.takeover.mutable_trial()->set_index(3);
  ASSERT_TRUE(NoteFormerOwner({.end = kEnd, .lost = true}, claim));
  const Takeover plan =
      PlanTakeover({ClaimRow(kClaim, {{{0, 1}}, {{0, 9}}}),
                    {EncodeClaimTakeoverKey(kClaim), claim.takeover.SerializeAsString()}});
  ASSERT_EQ(plan.claims.size(), 1u);
  const LeftClaim& read = plan.claims[0];
  EXPECT_TRUE(read.has_takeover_row);
  EXPECT_EQ(read.takeover.lost_claims(), 1u);
  EXPECT_EQ(read.takeover.quiet_from_micros(), absl::ToUnixMicros(kEnd));
  EXPECT_TRUE(read.IsQuarantined(1, {.first = 2, .count = 2}));
  EXPECT_FALSE(read.IsQuarantined(1, {.first = 4, .count = 2}));
  EXPECT_FALSE(read.IsQuarantined(0, {.first = 0, .count = 9}));
}

TEST(TakeoverTest, NotesOfEndedClaimsAreGarbage) {
  const Takeover plan = PlanTakeover({{EncodeClaimTakeoverKey(kClaim), ""}});
  EXPECT_TRUE(plan.claims.empty());
  EXPECT_EQ(plan.garbage_keys, std::vector<std::string>{EncodeClaimTakeoverKey(kClaim)});
}

TEST(TakeoverTest, UnreadableClaimsStay) {
  kv::Entry broken = ClaimRow(kClaim, {{{0, 3}}});
  broken.value = "no record";
  const Takeover plan = PlanTakeover({broken, EndRow(kClaim, 0, 0, {{0, 3}})});
  EXPECT_TRUE(plan.claims.empty());
  EXPECT_TRUE(plan.garbage_keys.empty());
  EXPECT_EQ(plan.broken, 1u);
}

}  // namespace takeover_test
}  // namespace escapement::handler
