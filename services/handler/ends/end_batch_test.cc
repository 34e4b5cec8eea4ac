#include "services/handler/ends/end_batch.h"

#include "common/storage/done_table.h"
#include "gtest/gtest.h"

namespace escapement::handler {
namespace {

using kv::ColumnFamily;
using kv::Mutation;

constexpr ReportOrigin kOrigin{.shard = 1, .epoch = 2, .number = 3};

std::shared_ptr<Claim> MakeClaim(uint64_t order, uint64_t count) {
  auto claim = std::make_shared<Claim>();
  claim->id = {.shard = 1, .epoch = 2, .number = order};
  claim->order = order;
  claim->open = count;
  ClaimedEntry entry;
  entry.key = {.shard = 1,
               .lane = 5,
               .due_time = absl::UnixEpoch(),
               .uid = Uid(),
               .occurrence = "o",
               .first = 0};
  entry.event.set_version(1);
  entry.event.set_count(count);
  entry.event.set_run_count(count);
  claim->entries.push_back(std::move(entry));
  return claim;
}

// The parts that the outcomes count in, all of them still empty.
RunParts EmptyParts(const std::vector<Outcome>& outcomes) {
  RunParts parts;
  for (const std::string& key : RunPartKeys(outcomes)) parts[key];
  return parts;
}

size_t CountIn(const EndBatch& batch, ColumnFamily cf, Mutation::Kind kind) {
  size_t n = 0;
  for (const Mutation& mutation : batch.group.mutations)
    n += mutation.cf == cf && mutation.kind == kind ? 1 : 0;
  return n;
}

TEST(EndBatchTest, ContiguousSuccessesInAnyOrderAreOneRecord) {
  const auto claim = MakeClaim(1, 100);
  std::vector<Outcome> outcomes;
  for (uint64_t i = 0; i < 100; ++i)
    outcomes.push_back({.claim = claim, .first = (i * 37) % 100, .attempts = 1});
  const EndBatch batch = BuildEndBatch(outcomes, EmptyParts(outcomes), kOrigin);
  EXPECT_EQ(CountIn(batch, ColumnFamily::kDone, Mutation::Kind::kPut), 1u);
  // Its last end: the claim itself goes, and no end row was written before.
  EXPECT_EQ(CountIn(batch, ColumnFamily::kInflight, Mutation::Kind::kDelete), 1u);
  ASSERT_EQ(batch.finished.size(), 1u);
  ASSERT_EQ(batch.parts.size(), 1u);
  EXPECT_EQ(batch.parts.begin()->second.succeeded(), 100u);
}

TEST(EndBatchTest, GapSplitsRecordsAndOpenClaimGetsAnEndRow) {
  const auto claim = MakeClaim(1, 10);
  std::vector<Outcome> outcomes;
  for (uint64_t i : {0, 1, 2, 6, 7})
    outcomes.push_back({.claim = claim, .first = i, .attempts = 1});
  const EndBatch batch = BuildEndBatch(outcomes, EmptyParts(outcomes), kOrigin);
  EXPECT_EQ(CountIn(batch, ColumnFamily::kDone, Mutation::Kind::kPut), 2u);
  EXPECT_EQ(CountIn(batch, ColumnFamily::kInflight, Mutation::Kind::kPut), 1u);
  EXPECT_EQ(claim->open, 5u);
  EXPECT_EQ(claim->ends_written, 1u);
  EXPECT_TRUE(batch.finished.empty());
}

TEST(EndBatchTest, CountsContinueFromTheStore) {
  const auto claim = MakeClaim(1, 10);
  std::vector<Outcome> outcomes = {
      {.claim = claim, .first = 0, .attempts = 1},
      {.claim = claim, .kind = EndKind::kSkipped, .first = 1, .reason = "x"}};
  RunParts parts;
  parts[RunPartKeys(outcomes).at(0)].set_succeeded(41);
  const EndBatch batch = BuildEndBatch(outcomes, parts, kOrigin);
  EXPECT_EQ(batch.parts.begin()->second.succeeded(), 42u);
  EXPECT_EQ(batch.parts.begin()->second.skipped(), 1u);
}

TEST(EndBatchTest, ReturnedEventsAreOneRowAgain) {
  const auto claim = MakeClaim(1, 10);
  std::vector<Outcome> outcomes = {
      {.claim = claim, .kind = EndKind::kReturn, .first = 4, .count = 6}};
  const EndBatch batch = BuildEndBatch(outcomes, EmptyParts(outcomes), kOrigin);
  ASSERT_EQ(batch.rows.size(), 1u);
  EXPECT_EQ(DecodeEventKey(batch.rows[0].key())->first, 4u);
  storage::v1::EventRecord row;
  row.ParseFromString(std::string(batch.rows[0].value()));
  EXPECT_EQ(row.count(), 6u);
  EXPECT_EQ(CountIn(batch, ColumnFamily::kDone, Mutation::Kind::kPut), 0u);
}

TEST(EndBatchTest, EachClaimEndsByItself) {
  const auto a = MakeClaim(1, 1);
  const auto b = MakeClaim(2, 2);
  std::vector<Outcome> outcomes = {{.claim = b, .first = 0, .attempts = 1},
                                   {.claim = a, .first = 0, .attempts = 1}};
  const EndBatch batch = BuildEndBatch(outcomes, EmptyParts(outcomes), kOrigin);
  ASSERT_EQ(batch.finished.size(), 1u);
  EXPECT_EQ(batch.finished[0], a);
  EXPECT_EQ(b->open, 1u);
}

}  // namespace
}  // namespace escapement::handler
