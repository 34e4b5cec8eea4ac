// CancelRun: what it writes, and what becomes of rows that nobody else judges.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/status/errors.h"
#include "common/storage/event_table.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"
#include "gtest/gtest.h"
#include "services/master/base/limits.h"
#include "services/master/testing/master_world.h"
#include "services/master/testing/run_world.h"

namespace escapement::master {
namespace run_cancel_test {

using kv::ColumnFamily;
using Strings = std::vector<std::string>;

class RunCancelTest : public ::testing::Test {
 protected:
  absl::StatusOr<v1::Run> Cancel(const std::string& occurrence,
                                 const std::string& request_id = "") {
    v1::CancelRunRequest request;
    request.set_name(absl::StrCat(kParent, "/runs/", occurrence));
    request.set_request_id(request_id);
    return bench_.fixture.Call(&RunApi::CancelRun, request);
  }
  storage::v1::StateRecord State() {
    storage::v1::StateRecord state;
    EXPECT_TRUE(
        state.ParseFromString(bench_.fixture.Rows(ColumnFamily::kStates).at(StateKey(bench_.uid))));
    return state;
  }
  Strings Cancelled() {
    Strings occurrences;
    const storage::v1::StateRecord state = State();
    for (const auto& run : state.cancelled_runs()) occurrences.push_back(run.occurrence());
    return occurrences;
  }
  void Pause() {
    v1::PauseScheduleRequest pause;
    pause.set_name(kParent);
    const auto paused = bench_.fixture.Call(&ScheduleApi::PauseSchedule, pause);
    ASSERT_TRUE(paused.ok()) << paused.status();
  }
  // Moves all rows to `parked`, as handler and token manager do.
  void ParkAll() {
    for (const ColumnFamily cf : {ColumnFamily::kEvents, ColumnFamily::kWaiting}) {
      const auto rows = bench_.fixture.Rows(cf);
      for (const auto& [key, value] : rows) {
        bench_.fixture.Delete(cf, key);
        bench_.fixture.Put(ColumnFamily::kParked, ParkedKey(bench_.uid, key), value);
      }
    }
  }
  uint64_t EndedParked() {
    uint64_t events = 0;
    for (const auto& [key, value] : bench_.fixture.Rows(ColumnFamily::kDone)) {
      storage::v1::DoneRecord done;
      EXPECT_TRUE(done.ParseFromString(value));
      EXPECT_EQ(done.outcome(), storage::v1::OUTCOME_KIND_CANCELLED);
      EXPECT_EQ(done.reason(), "cancelled");
      events += done.count();
    }
    return events;
  }
  // Sets the run's complete time, as the emitter does once all its events have ended.
  void Close(const std::string& occurrence) {
    const std::string key = EncodeRunKey({bench_.uid, occurrence});
    storage::v1::RunRecord run;
    ASSERT_TRUE(run.ParseFromString(bench_.fixture.Rows(ColumnFamily::kRuns).at(key)));
    run.set_complete_time_micros(ToMicros(bench_.fixture.Now()));
    bench_.fixture.Put(ColumnFamily::kRuns, key, run.SerializeAsString());
  }

  RunWorld bench_{3};
};

TEST_F(RunCancelTest, NamesTheRunInTheStateAndChangesNothingElse) {
  const std::string first = bench_.Emit(bench_.start + absl::Seconds(1), 3);
  const std::string second = bench_.Emit(bench_.start + absl::Seconds(2), 3);
  const storage::v1::StateRecord before = State();
  const auto run = Cancel(second);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->state(), v1::Run::UPCOMING);
  EXPECT_EQ(Cancelled(), Strings{second});
  storage::v1::StateRecord after = State();
  after.clear_cancelled_runs();
  EXPECT_EQ(after.SerializeAsString(), before.SerializeAsString());
  ASSERT_TRUE(Cancel(second).ok());
  EXPECT_EQ(Cancelled(), Strings{second});
  ASSERT_TRUE(Cancel(first).ok());
  EXPECT_EQ(Cancelled(), (Strings{second, first}));
}

TEST_F(RunCancelTest, TheAnswerToARequestIdStays) {
  const std::string id = bench_.Emit(bench_.start + absl::Seconds(1), 3);
  ASSERT_TRUE(Cancel(id, "r").ok());
  Close(id);
  const auto repeated = Cancel(id, "r");
  ASSERT_TRUE(repeated.ok()) << repeated.status();
  EXPECT_EQ(repeated->state(), v1::Run::UPCOMING);
  EXPECT_EQ(ErrorReason(Cancel(bench_.Emit(bench_.start + absl::Seconds(2), 3), "r").status()),
            "REQUEST_ID_REUSED");
}

TEST_F(RunCancelTest, ARunThatHasEndedOtherwiseIsRefused) {
  const std::string id = bench_.Emit(bench_.start + absl::Seconds(1), 3);
  Close(id);
  EXPECT_EQ(ErrorReason(Cancel(id).status()), "RUN_ENDED");
  EXPECT_EQ(ErrorReason(Cancel(bench_.EndSingle(bench_.start + absl::Seconds(2))).status()),
            "RUN_ENDED");
  EXPECT_EQ(Cancelled(), Strings());
}

TEST_F(RunCancelTest, ARunThatHasEndedAsCancelledIsAnsweredAsItIs) {
  const std::string id = bench_.Emit(bench_.start + absl::Seconds(1), 3);
  storage::v1::RunPartRecord part;
  part.set_cancelled(1);
  part.set_succeeded(2);
  bench_.fixture.Put(ColumnFamily::kRunParts, RunPartKey({bench_.uid, id}, 0),
                     part.SerializeAsString());
  Close(id);
  const auto run = Cancel(id);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->state(), v1::Run::CANCELLED);
  EXPECT_EQ(run->succeeded_count(), 2);
  EXPECT_EQ(Cancelled(), Strings());
}

TEST_F(RunCancelTest, ARunThatIsNotThereIsNotFound) {
  EXPECT_EQ(Cancel("20300101T000000-0-UTC").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Cancel("no occurrence").status().code(), absl::StatusCode::kInvalidArgument);
  v1::CancelRunRequest request;
  request.set_name("tenants/default/schedules/none/runs/20300101T000000-0-UTC");
  EXPECT_EQ(bench_.fixture.Call(&RunApi::CancelRun, request).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(RunCancelTest, RunsThatHaveEndedAreForgottenAndOthersAreNot) {
  Strings ids;
  for (int i = 0; i <= kCancelledRunsMax; ++i)
    ids.push_back(bench_.Emit(bench_.start + absl::Seconds(1 + i), 3));
  for (int i = 0; i < kCancelledRunsMax; ++i) ASSERT_TRUE(Cancel(ids[i]).ok());
  EXPECT_EQ(ErrorReason(Cancel(ids.back()).status()), "TOO_MANY_CANCELLED");
  // Not there: it may be on its way until a day has passed.
  bench_.fixture.Delete(ColumnFamily::kRuns, EncodeRunKey({bench_.uid, ids[0]}));
  EXPECT_EQ(ErrorReason(Cancel(ids.back()).status()), "TOO_MANY_CANCELLED");
  bench_.fixture.runtime.AdvanceBy(absl::Hours(25));
  ASSERT_TRUE(Cancel(ids.back()).ok());
  Strings wanted(ids.begin() + 1, ids.end());
  EXPECT_EQ(Cancelled(), wanted);
  Close(ids[5]);
  const std::string another = bench_.Emit(bench_.start + absl::Hours(26), 3);
  ASSERT_TRUE(Cancel(another).ok());
  wanted.erase(wanted.begin() + 4);
  wanted.push_back(another);
  EXPECT_EQ(Cancelled(), wanted);
}

TEST_F(RunCancelTest, ParkedRowsOfTheRunEndAndThoseOfOthersStay) {
  const std::string other = bench_.Emit(bench_.start + absl::Seconds(1), 300);
  const std::string id = bench_.Emit(bench_.start + absl::Seconds(2), 300);
  Pause();
  ParkAll();
  const size_t parked = bench_.fixture.Rows(ColumnFamily::kParked).size();
  const auto run = Cancel(id);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->cancelled_count(), 300);
  EXPECT_EQ(EndedParked(), 300u);
  EXPECT_EQ(bench_.fixture.Rows(ColumnFamily::kParked).size(), parked / 2);
  EXPECT_EQ(bench_.Get(other)->cancelled_count(), 0);
}

TEST_F(RunCancelTest, MoreParkedRowsThanACommitTakesEndPartByPart) {
  // Retries: a row for each event.
  const std::string id = bench_.Emit(bench_.start + absl::Seconds(2), 12'000);
  Pause();
  const auto rows = bench_.fixture.Rows(ColumnFamily::kEvents);
  ASSERT_FALSE(rows.empty());
  EventKey key = *DecodeEventKey(rows.begin()->first);
  storage::v1::EventRecord row;
  ASSERT_TRUE(row.ParseFromString(rows.begin()->second));
  for (const auto& [slice, value] : rows) bench_.fixture.Delete(ColumnFamily::kEvents, slice);
  key.lane = kLaneRetry;
  row.set_count(1);
  kv::Group group;
  for (int i = 0; i < 12'000; ++i) {
    key.first = static_cast<uint64_t>(i);
    group.mutations.push_back({.cf = ColumnFamily::kParked,
                               .key = ParkedKey(bench_.uid, EncodeEventKey(key)),
                               .value = row.SerializeAsString()});
  }
  bench_.fixture.Commit({group});
  const auto run = Cancel(id, "r");
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->cancelled_count(), 12'000);
  EXPECT_EQ(EndedParked(), 12'000u);
  EXPECT_TRUE(bench_.fixture.Rows(ColumnFamily::kParked).empty());
}

}  // namespace run_cancel_test
}  // namespace escapement::master
