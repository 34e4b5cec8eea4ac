#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "services/emitter/runs/run_closer.h"

namespace escapement::emitter {
namespace run_end_event_test {

storage::v1::RunRecord Record() {
  storage::v1::RunRecord record;
  record.set_tenant("default");
  record.set_schedule_id("nightly.2");
  record.set_event_count(1'000'000'000'000);
  record.set_nominal_time_micros(1'795'230'000'000'000);
  record.set_complete_time_micros(1'795'230'600'250'000);
  return record;
}

TEST(RunEndEventTest, ThePayloadSaysHowTheRunEnded) {
  const RunCounts counts{
      .succeeded = 999'999'999'990, .failed = 1, .expired = 2, .skipped = 3, .cancelled = 4};
  const auto json =
      nlohmann::json::parse(RunEndPayload(Record(), "20261121T030000-0-Asia~Kolkata", counts));
  EXPECT_EQ(json["run"], "tenants/default/schedules/nightly.2/runs/20261121T030000-0-Asia~Kolkata");
  EXPECT_EQ(json["nominal_time"], "2026-11-21T03:00:00Z");
  EXPECT_EQ(json["complete_time"], "2026-11-21T03:10:00.25Z");
  EXPECT_EQ(json["event_count"], 1'000'000'000'000);
  EXPECT_EQ(json["succeeded"], 999'999'999'990);
  EXPECT_EQ(json["failed"], 1);
  EXPECT_EQ(json["expired"], 2);
  EXPECT_EQ(json["skipped"], 3);
  EXPECT_EQ(json["cancelled"], 4);
  EXPECT_EQ(json.size(), 9u);
}

TEST(RunEndEventTest, PayloadIsJsonWhateverTheRecordHolds) {
  const auto json = nlohmann::json::parse(RunEndPayload(Record(), "a\"b\\c\n", RunCounts()));
  EXPECT_EQ(json["run"], "tenants/default/schedules/nightly.2/runs/a\"b\\c ");
}

TEST(RunEndEventTest, EachRunHasItsOwnIdThatAClientMayChoose) {
  const RunKey run{Uid::FromHalves(1, 2), "o"};
  const std::string id = RunEndEventId("t", run);
  EXPECT_EQ(id, RunEndEventId("t", run));
  EXPECT_LE(id.size(), 63u);
  EXPECT_EQ(id.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"), std::string::npos);
  EXPECT_NE(id, RunEndEventId("u", run));
  EXPECT_NE(id, RunEndEventId("t", {Uid::FromHalves(1, 3), "o"}));
  EXPECT_NE(id, RunEndEventId("t", {run.uid, "p"}));
}

TEST(RunEndEventTest, CountsAddUp) {
  RunCounts sum;
  storage::v1::RunPartRecord part;
  part.set_succeeded(1);
  part.set_failed(2);
  part.set_expired(3);
  part.set_skipped(4);
  part.set_cancelled(5);
  part.set_delivered(100);
  sum += RunCounts::Of(part);
  sum += RunCounts::Of(part);
  EXPECT_EQ(sum.ended(), 30u);
  sum -= RunCounts::Of(part);
  EXPECT_EQ(sum.cancelled, 5u);
  EXPECT_EQ(sum.ended(), 15u);
}

}  // namespace run_end_event_test
}  // namespace escapement::emitter
