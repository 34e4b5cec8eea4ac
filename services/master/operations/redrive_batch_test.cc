#include "services/master/operations/redrive_batch.h"

#include <string>
#include <utility>

#include "common/storage/event_id.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "gtest/gtest.h"

namespace escapement::master {
namespace redrive_batch_test {

using kv::ColumnFamily;

constexpr char kOccurrence[] = "20260301T000000-0-UTC";
const absl::Time kNow = absl::FromUnixSeconds(1'772'323'200);
const Uid kUid = Uid::FromHalves(7, 7);

// A failed event of a run of ten.
StoredDeadLetter Letter(uint64_t index, uint32_t attempts = 1) {
  storage::v1::DeadLetterRecord record;
  record.set_uid(std::string(kUid.bytes()));
  record.set_occurrence(kOccurrence);
  record.set_index(index);
  record.set_schedule_id("s");
  record.mutable_event()->set_tenant("default");
  record.mutable_event()->set_version(1);
  record.mutable_event()->set_run_count(10);
  record.mutable_event()->set_attempts(attempts);
  const std::string event_id = RunIdentity("default", kUid, kOccurrence).EventId(index);
  const auto letter =
      ReadDeadLetter(EncodeDeadLetterKey({"default", kNow, event_id}), record.SerializeAsString());
  EXPECT_TRUE(letter.ok()) << letter.status();
  return *letter;
}

class RedriveBatchTest : public ::testing::Test {
 protected:
  RedriveBatchTest() {
    storage::v1::StateRecord state;
    state.set_kind(storage::v1::SCHEDULE_STATE_KIND_ENABLED);
    state.set_version(1);
    storage::v1::RunPartRecord part;
    part.set_failed(10);
    facts_ = {{kState, state.SerializeAsString()},
              {kRun, storage::v1::RunRecord().SerializeAsString()},
              {kPart, part.SerializeAsString()}};
  }
  // The failed events of the run after the batch.
  uint64_t FailedAfter(RedriveBatch& batch) const { return PartAfter(batch).failed(); }
  storage::v1::RunPartRecord PartAfter(RedriveBatch& batch) const {
    kv::Group group;
    batch.MoveTo(group);
    storage::v1::RunPartRecord part;
    for (const kv::Mutation& mutation : group.mutations) {
      if (mutation.cf != ColumnFamily::kRunParts) continue;
      EXPECT_TRUE(part.ParseFromString(mutation.value));
    }
    return part;
  }

  const std::pair<ColumnFamily, std::string> kState{ColumnFamily::kStates, StateKey(kUid)};
  const std::pair<ColumnFamily, std::string> kRun{ColumnFamily::kRuns,
                                                  EncodeRunKey({kUid, kOccurrence})};
  const std::pair<ColumnFamily, std::string> kPart{ColumnFamily::kRunParts,
                                                   RunPartKey({kUid, kOccurrence}, kMasterRunPart)};
  RedriveFacts facts_;
};

TEST_F(RedriveBatchTest, RowsOfAScheduleAndARunAreParsedOnce) {
  RedriveBatch batch(facts_, kv::Layout(), kNow);
  ASSERT_TRUE(batch.Add(Letter(0), kNow).ok());
  // Facts do not change; here they show when they are parsed.
  facts_[kState] = "\xff";
  facts_[kPart] = "\xff";
  for (uint64_t index = 1; index < 4; ++index)
    EXPECT_TRUE(batch.Add(Letter(index), kNow).ok()) << index;
  EXPECT_EQ(FailedAfter(batch), 6u);
}

TEST_F(RedriveBatchTest, EventThatNeverStartedIsTakenBackFromItsRunsReport) {
  RedriveBatch batch(facts_, kv::Layout(), kNow);
  ASSERT_TRUE(batch.Add(Letter(0), kNow).ok());
  ASSERT_TRUE(batch.Add(Letter(1, /*attempts=*/0), kNow).ok());
  const storage::v1::RunPartRecord part = PartAfter(batch);
  EXPECT_EQ(part.failed(), 8u);
  // Below zero: the handler's part has counted it.
  EXPECT_EQ(part.never_started(), ~uint64_t{0});
}

TEST_F(RedriveBatchTest, BrokenRowsRefuseEveryLetter) {
  const RedriveFacts good = facts_;
  for (const auto& row : {kState, kPart}) {
    facts_ = good;
    facts_[row] = "\xff";
    RedriveBatch batch(facts_, kv::Layout(), kNow);
    for (uint64_t index = 0; index < 2; ++index)
      EXPECT_EQ(batch.Add(Letter(index), kNow).code(), absl::StatusCode::kDataLoss);
    kv::Group group;
    batch.MoveTo(group);
    EXPECT_TRUE(group.mutations.empty());
  }
}

TEST_F(RedriveBatchTest, PartOfARunWithoutRecordIsNotWritten) {
  facts_[kRun] = std::nullopt;
  RedriveBatch batch(facts_, kv::Layout(), kNow);
  ASSERT_TRUE(batch.Add(Letter(0), kNow).ok());
  EXPECT_TRUE(batch.row().counts_in_no_run());
  EXPECT_EQ(FailedAfter(batch), 0u);
}

}  // namespace redrive_batch_test
}  // namespace escapement::master
