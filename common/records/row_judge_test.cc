#include "common/records/row_judge.h"

#include <functional>
#include <optional>
#include <utility>

#include "absl/time/civil_time.h"
#include "common/base/proto_time.h"
#include "common/cron/timetable.h"
#include "common/kv/memory/mem_kv_store.h"
#include "common/sim/sim_runtime.h"
#include "common/storage/schedule_table.h"
#include "gtest/gtest.h"

namespace escapement {
namespace row_judge_test {

using Action = RowJudgement::Action;
using kv::ColumnFamily;

// The row is of version 1, for the occurrence at three o'clock.
class RowJudgeTest : public ::testing::Test {
 protected:
  static absl::Time Hour(int hour) {
    return absl::FromCivil(absl::CivilHour(2026, 3, 1, hour), absl::UTCTimeZone());
  }

  RowJudgeTest() : client_(store_, runtime_, Options()) {
    Define("0 3 * * *", 1);
    row_.set_version(1);
    row_.set_nominal_time_micros(ToMicros(Hour(3)));
  }

  static kv::KvClient::Options Options() {
    kv::KvClient::Options options;
    options.name = "test";
    return options;
  }

  // Adds the next version, made at that hour.
  void Define(const std::string& cron, int hour,
              const std::function<void(storage::v1::StateRecord*)>& adjust = nullptr,
              std::optional<absl::Time> former_finish = std::nullopt) {
    ++version_;
    storage::v1::DefinitionRecord definition;
    definition.set_uid(std::string(uid_.bytes()));
    definition.set_version(version_);
    definition.set_cron(cron);
    definition.set_time_zone("UTC");
    definition.set_create_time_micros(ToMicros(Hour(hour)));
    if (former_finish.has_value()) definition.set_former_finish_micros(ToMicros(*former_finish));
    storage::v1::StateRecord state;
    state.set_kind(storage::v1::SCHEDULE_STATE_KIND_ENABLED);
    state.set_version(version_);
    if (adjust) adjust(&state);
    kv::Commit commit;
    commit.groups.resize(1);
    commit.groups[0].mutations = {
        {.cf = ColumnFamily::kDefinitions,
         .key = DefinitionKey(uid_, version_),
         .value = definition.SerializeAsString()},
        {.cf = ColumnFamily::kStates, .key = StateKey(uid_), .value = state.SerializeAsString()}};
    client_.CommitAsync(std::move(commit), executor_, [](absl::StatusOr<kv::CommitResult>) {});
    runtime_.AdvanceBy(absl::Seconds(1));
  }

  RowJudgement Judge() {
    RecordCache cache(client_, executor_, [] {});
    const std::string occurrence =
        cron::FormatCalendarOccurrence(absl::CivilSecond(2026, 3, 1, 3, 0, 0), 0, "UTC");
    RowJudgement judged;
    executor_->Post([&] { cache.Start(); });
    for (int reads = 0; reads < 10; ++reads) {
      runtime_.AdvanceBy(absl::Seconds(1));
      executor_->Post([&] {
        judged = JudgeQueueRow(cache, uid_, occurrence, row_);
        cache.Fetch();
      });
    }
    runtime_.AdvanceBy(absl::Seconds(1));
    return judged;
  }

  sim::SimRuntime runtime_{5};
  kv::MemKvStore store_{runtime_, {}};
  std::shared_ptr<Executor> executor_ = runtime_.NewExecutor("judge");
  kv::KvClient client_;
  const Uid uid_ = Uid();
  uint64_t version_ = 0;
  storage::v1::EventRecord row_;
};

TEST_F(RowJudgeTest, RowOfTheCurrentVersionIsSent) { EXPECT_EQ(Judge().action, Action::kSend); }

TEST_F(RowJudgeTest, OccurrenceRemovedByAnUpdateIsSuperseded) {
  Define("0 4 * * *", 2);
  EXPECT_EQ(Judge().action, Action::kSkip);
  EXPECT_EQ(Judge().reason, "superseded");
}

TEST_F(RowJudgeTest, StateOlderThanTheRowNeverSupersedesIt) {
  row_.set_version(3);
  Define("0 4 * * *", 2);
  EXPECT_EQ(Judge().action, Action::kFetch);
  Define("0 3 * * *", 2);
  EXPECT_EQ(Judge().action, Action::kSend);
}

TEST_F(RowJudgeTest, OccurrenceAddedAgainInTimeDropsTheOldRow) {
  Define("0 4 * * *", 1);
  Define("0 3,5 * * *", 2);
  EXPECT_EQ(Judge().action, Action::kDrop);
}

TEST_F(RowJudgeTest, OccurrenceAddedAgainTooLateStaysSuperseded) {
  Define("0 4 * * *", 2);
  Define("0 3,5 * * *", 4);
  EXPECT_EQ(Judge().action, Action::kSkip);
  EXPECT_EQ(Judge().reason, "superseded");
}

TEST_F(RowJudgeTest, OccurrenceRemovedAndAddedAfterItWasDueIsSent) {
  Define("0 4 * * *", 4);
  Define("0 3,5 * * *", 5);
  const RowJudgement judged = Judge();
  EXPECT_EQ(judged.action, Action::kSend);
  ASSERT_NE(judged.definition, nullptr);
  EXPECT_EQ(judged.definition->record->version(), 3);
}

TEST_F(RowJudgeTest, RowOfAnOverlappedRunEndsCancelled) {
  Define("0 3 * * *", 1, [](storage::v1::StateRecord* state) {
    state->set_cancelled_before_micros(ToMicros(Hour(4)));
  });
  const RowJudgement judged = Judge();
  EXPECT_EQ(judged.action, Action::kSkip);
  EXPECT_EQ(judged.outcome, storage::v1::OUTCOME_KIND_CANCELLED);
  EXPECT_EQ(judged.reason, "overlap");
}

// max_runs was lowered, so that the occurrence was beyond it, and then raised again.
TEST_F(RowJudgeTest, RaisedMaxRunsDropsTheOldRow) {
  Define("0 3 * * *", 1,
         [](storage::v1::StateRecord* state) { state->set_finish_micros(ToMicros(Hour(2))); });
  Define("0 3 * * *", 2, nullptr, /*former_finish=*/Hour(2));
  EXPECT_EQ(Judge().action, Action::kDrop);
}

TEST_F(RowJudgeTest, RowAfterTheFinishOfItsVersionIsDropped) {
  Define("0 3 * * *", 1, nullptr, /*former_finish=*/Hour(3));
  EXPECT_EQ(Judge().action, Action::kDrop);
  Define("0 3 * * *", 2, nullptr, /*former_finish=*/Hour(4));
  EXPECT_EQ(Judge().action, Action::kDrop);
}

TEST_F(RowJudgeTest, FormerFinishAfterTheRowChangesNothing) {
  Define("0 3 * * *", 1, nullptr, /*former_finish=*/Hour(4));
  EXPECT_EQ(Judge().action, Action::kSend);
  Define("0 3 * * *", 2, nullptr, /*former_finish=*/Hour(4));
  EXPECT_EQ(Judge().action, Action::kSend);
}

TEST_F(RowJudgeTest, RowAfterTheFinishOfTheNewVersionIsSuperseded) {
  Define("0 3 * * *", 1,
         [](storage::v1::StateRecord* state) { state->set_finish_micros(ToMicros(Hour(3))); });
  const RowJudgement judged = Judge();
  EXPECT_EQ(judged.action, Action::kSkip);
  EXPECT_EQ(judged.outcome, storage::v1::OUTCOME_KIND_SKIPPED);
  EXPECT_EQ(judged.reason, "superseded");
}

}  // namespace row_judge_test
}  // namespace escapement
