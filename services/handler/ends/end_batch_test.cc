#include "services/handler/ends/end_batch.h"

#include "common/storage/run_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement::handler {
namespace end_batch_test {

using kv::ColumnFamily;
using kv::Mutation;
using storage::v1::AttemptRecord;
using ::testing::ElementsAre;

constexpr ReportOrigin kOrigin{.shard = 1, .epoch = 2, .number = 3};

const std::string kRunPart = RunPartKey({.uid = Uid(), .occurrence = "o"}, 1);
const std::string kCounts = ScheduleCountsKey(Uid(), 1);

std::shared_ptr<const DeliveryContext> ScheduleContext() {
  auto context = std::make_shared<DeliveryContext>();
  context->definition = std::make_shared<storage::v1::DefinitionRecord>();
  return context;
}

// Only failures need a context.
std::shared_ptr<Claim> MakeClaim(uint64_t order, uint64_t count,
                                 std::shared_ptr<const DeliveryContext> context = nullptr) {
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
  storage::v1::EventRecord event;
  event.set_version(1);
  event.set_count(count);
  event.set_run_count(count);
  entry.event = EventRow(std::move(event));
  entry.context = std::move(context);
  claim->entries.push_back(std::move(entry));
  return claim;
}

// The counts that the outcomes change, all of them empty.
KnownParts EmptyParts(const std::vector<Outcome>& outcomes) {
  KnownParts parts;
  VisitRunParts(outcomes, [&](std::string key) { parts[key]; });
  return parts;
}

size_t CountIn(const EndBatch& batch, ColumnFamily cf, Mutation::Kind kind) {
  size_t n = 0;
  for (const Mutation& mutation : batch.group.mutations)
    n += mutation.cf == cf && mutation.kind == kind ? 1 : 0;
  return n;
}

// The value of the only put in the column family.
std::string OnlyPut(const EndBatch& batch, ColumnFamily cf) {
  EXPECT_EQ(CountIn(batch, cf, Mutation::Kind::kPut), 1u);
  for (const Mutation& mutation : batch.group.mutations) {
    if (mutation.cf == cf && mutation.kind == Mutation::Kind::kPut) return mutation.value;
  }
  return "";
}

storage::v1::DoneRecord OnlyDone(const EndBatch& batch) {
  storage::v1::DoneRecord done;
  const std::string bytes = OnlyPut(batch, ColumnFamily::kDone);
  EXPECT_TRUE(done.ParseFromString(bytes));
  EXPECT_EQ(done.SerializeAsString(), bytes) << "they are written without the message";
  return done;
}

TEST(EndBatchTest, ContiguousSuccessesInAnyOrderAreOneRecord) {
  const auto claim = MakeClaim(1, 100);
  std::vector<Outcome> outcomes;
  for (uint64_t i = 0; i < 100; ++i)
    outcomes.push_back({.claim = claim, .first = (i * 37) % 100, .attempts = 1});
  const EndBatch batch = BuildEndBatch(outcomes, EmptyParts(outcomes), kOrigin);
  EXPECT_EQ(CountIn(batch, ColumnFamily::kDone, Mutation::Kind::kPut), 1u);
  // This is the last end: the claim is deleted, and it has no end row.
  EXPECT_EQ(CountIn(batch, ColumnFamily::kInflight, Mutation::Kind::kDelete), 1u);
  ASSERT_EQ(batch.finished.size(), 1u);
  ASSERT_EQ(batch.parts.size(), 2u);
  EXPECT_EQ(batch.parts.at(kRunPart).succeeded(), 100u);
  EXPECT_EQ(batch.parts.at(kCounts).succeeded(), 100u);
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
  KnownParts parts = EmptyParts(outcomes);
  parts.at(kRunPart).set_succeeded(41);
  const EndBatch batch = BuildEndBatch(outcomes, parts, kOrigin);
  EXPECT_EQ(batch.parts.at(kRunPart).succeeded(), 42u);
  EXPECT_EQ(batch.parts.at(kRunPart).skipped(), 1u);
}

TEST(EndBatchTest, RunPartHasTheSlowestEventsAndThoseThatNeverStarted) {
  const auto claim = MakeClaim(1, 16, ScheduleContext());
  std::vector<Outcome> outcomes;
  for (uint64_t i = 0; i < 12; ++i) {
    outcomes.push_back({.claim = claim,
                        .kind = i % 4 == 3 ? EndKind::kFailed : EndKind::kSucceeded,
                        .first = i,
                        .attempts = 1,
                        .dispatch_micros = 100,
                        .complete_micros = 200 + 5 * static_cast<int64_t>(i),
                        .attempt = AttemptRecord::ACCEPTED});
  }
  // An attempt that is to be repeated does not end the event.
  outcomes.push_back({.claim = claim,
                      .kind = EndKind::kRetry,
                      .first = 12,
                      .attempts = 1,
                      .dispatch_micros = 100,
                      .complete_micros = 9000,
                      .attempt = AttemptRecord::FAILED});
  outcomes.push_back({.claim = claim,
                      .kind = EndKind::kSkipped,
                      .first = 13,
                      .count = 2,
                      .complete_micros = 300,
                      .reason = "x"});
  outcomes.push_back({.claim = claim,
                      .kind = EndKind::kSkipped,
                      .first = 15,
                      .attempts = 1,
                      .complete_micros = 290,
                      .reason = "x"});
  const storage::v1::RunPartRecord part =
      BuildEndBatch(outcomes, EmptyParts(outcomes), kOrigin).parts.at(kRunPart);
  EXPECT_EQ(part.never_started(), 2u);
  EXPECT_EQ(part.skipped(), 3u);
  EXPECT_EQ(part.last_end_time_micros(), 300);
  ASSERT_EQ(part.slowest_size(), 10);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(part.slowest(i).index(), static_cast<uint64_t>(11 - i));
    EXPECT_EQ(part.slowest(i).duration_micros(), 155 - 5 * i);
  }
}

TEST(EndBatchTest, RunOfOneEventHasNoSlowestEvents) {
  const auto claim = MakeClaim(1, 1);
  storage::v1::EventRecord event = claim->entries[0].event.record();
  event.set_run_kept(true);
  claim->entries[0].event = EventRow(std::move(event));
  std::vector<Outcome> outcomes = {{.claim = claim,
                                    .attempts = 1,
                                    .dispatch_micros = 100,
                                    .complete_micros = 200,
                                    .attempt = AttemptRecord::ACCEPTED}};
  const storage::v1::RunPartRecord part =
      BuildEndBatch(outcomes, EmptyParts(outcomes), kOrigin).parts.at(kRunPart);
  EXPECT_EQ(part.succeeded(), 1u);
  EXPECT_EQ(part.slowest_size(), 0);
  EXPECT_EQ(part.last_end_time_micros(), 0);
}

TEST(EndBatchTest, SuccessesAndFailuresCountInTheSchedule) {
  const auto claim = MakeClaim(1, 4, ScheduleContext());
  std::vector<Outcome> outcomes = {
      {.claim = claim, .first = 0, .complete_micros = 50},
      {.claim = claim, .kind = EndKind::kSkipped, .first = 1, .complete_micros = 90},
      {.claim = claim, .kind = EndKind::kFailed, .first = 2, .complete_micros = 70},
      {.claim = claim, .first = 3, .complete_micros = 60}};
  KnownParts parts = EmptyParts(outcomes);
  parts.at(kCounts).set_failed(5);
  const RunParts after = BuildEndBatch(outcomes, parts, kOrigin).parts;
  const storage::v1::RunPartRecord& counts = after.at(kCounts);
  EXPECT_EQ(counts.succeeded(), 2u);
  EXPECT_EQ(counts.failed(), 6u);
  EXPECT_EQ(counts.skipped(), 0u);
  EXPECT_EQ(counts.last_end_time_micros(), 70);
  EXPECT_EQ(counts.last_outcome(), storage::v1::OUTCOME_KIND_FAILED);
}

TEST(EndBatchTest, RangeKeepsTheTimesOfEachAttempt) {
  const auto claim = MakeClaim(1, 3);
  std::vector<Outcome> outcomes;
  for (uint64_t i = 0; i < 3; ++i) {
    outcomes.push_back({.claim = claim,
                        .first = i,
                        .attempts = 1,
                        .dispatch_micros = 100 + static_cast<int64_t>(i),
                        .complete_micros = 200 + 5 * static_cast<int64_t>(i),
                        .attempt = AttemptRecord::ACCEPTED,
                        .status = 204});
  }
  const storage::v1::DoneRecord done =
      OnlyDone(BuildEndBatch(outcomes, EmptyParts(outcomes), kOrigin));
  EXPECT_EQ(done.count(), 3u);
  EXPECT_EQ(done.status(), 204);
  EXPECT_THAT(done.begin_offset_micros(), ElementsAre(0, 1, 2));
  EXPECT_THAT(done.duration_micros(), ElementsAre(100, 104, 108));
}

TEST(EndBatchTest, DifferentAnswersAreRecordsOfTheirOwn) {
  const auto claim = MakeClaim(1, 4);
  std::vector<Outcome> outcomes;
  for (const char* answer : {"a", "a", "b"}) {
    outcomes.push_back({.claim = claim,
                        .first = outcomes.size(),
                        .attempts = 1,
                        .attempt = AttemptRecord::ACCEPTED,
                        .status = 200,
                        .answer = answer});
  }
  outcomes.push_back(outcomes.back());
  outcomes.back().first = 3;
  outcomes.back().status = 202;
  const EndBatch batch = BuildEndBatch(outcomes, EmptyParts(outcomes), kOrigin);
  EXPECT_EQ(CountIn(batch, ColumnFamily::kDone, Mutation::Kind::kPut), 3u);
}

TEST(EndBatchTest, FailedAttemptIsRememberedInTheRetryRow) {
  const auto claim = MakeClaim(1, 1);
  std::vector<Outcome> outcomes = {{.claim = claim,
                                    .kind = EndKind::kRetry,
                                    .attempts = 4,
                                    .dispatch_micros = 100,
                                    .complete_micros = 130,
                                    .reason = "HTTP 503",
                                    .retry_at = absl::UnixEpoch(),
                                    .attempt = AttemptRecord::FAILED,
                                    .status = 503,
                                    .answer = "busy"}};
  const EndBatch batch = BuildEndBatch(outcomes, EmptyParts(outcomes), kOrigin);
  ASSERT_EQ(batch.rows.size(), 1u);
  storage::v1::EventRecord row;
  ASSERT_TRUE(row.ParseFromString(std::string(batch.rows[0].value())));
  ASSERT_EQ(row.tried_size(), 1);
  EXPECT_EQ(row.tried(0).number(), 4u);
  EXPECT_EQ(row.tried(0).begin_micros(), 100);
  EXPECT_EQ(row.tried(0).duration_micros(), 30);
  EXPECT_EQ(row.tried(0).kind(), AttemptRecord::FAILED);
  EXPECT_EQ(row.tried(0).status(), 503);
  EXPECT_EQ(row.tried(0).error(), "HTTP 503");
  EXPECT_EQ(row.tried(0).answer(), "busy");
}

TEST(EndBatchTest, DeadLetterRemembersTheLastAttemptAndDoneHasIt) {
  const auto claim = MakeClaim(1, 1, ScheduleContext());
  storage::v1::EventRecord event = claim->entries[0].event.record();
  event.add_tried()->set_number(1);
  claim->entries[0].event = EventRow(std::move(event));
  std::vector<Outcome> outcomes = {{.claim = claim,
                                    .kind = EndKind::kFailed,
                                    .attempts = 2,
                                    .reason = "HTTP 400",
                                    .attempt = AttemptRecord::REJECTED,
                                    .status = 400,
                                    .answer = "no such order"}};
  const EndBatch batch = BuildEndBatch(outcomes, EmptyParts(outcomes), kOrigin);
  const storage::v1::DoneRecord done = OnlyDone(batch);
  ASSERT_EQ(done.tried_size(), 1);
  EXPECT_EQ(done.tried(0).number(), 1u);
  EXPECT_EQ(done.last_attempt(), AttemptRecord::REJECTED);
  EXPECT_EQ(done.status(), 400);
  EXPECT_EQ(done.answer(), "no such order");
  EXPECT_EQ(done.output(), "");
  storage::v1::DeadLetterRecord letter;
  ASSERT_TRUE(letter.ParseFromString(OnlyPut(batch, ColumnFamily::kDeadLetters)));
  ASSERT_EQ(letter.event().tried_size(), 2);
  EXPECT_EQ(letter.event().tried(1).number(), 2u);
  EXPECT_EQ(letter.event().tried(1).kind(), AttemptRecord::REJECTED);
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

TEST(EndBatchDeathTest, ClaimCannotEndMoreEventsThanAreOpen) {
  const auto claim = MakeClaim(1, 1);
  std::vector<Outcome> outcomes = {{.claim = claim, .first = 0, .attempts = 1},
                                   {.claim = claim, .first = 1, .attempts = 1}};
  EXPECT_DEATH(BuildEndBatch(outcomes, EmptyParts(outcomes), kOrigin),
               "more is taken than was counted");
}

TEST(EndBatchDeathTest, CountsOfARunMustHaveBeenRead) {
  std::vector<Outcome> outcomes = {{.claim = MakeClaim(1, 2), .first = 0, .attempts = 1}};
  EXPECT_DEATH(BuildEndBatch(outcomes, {}, kOrigin), "the counts of a run were not read");
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

}  // namespace end_batch_test
}  // namespace escapement::handler
