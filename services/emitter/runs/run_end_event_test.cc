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
  RunSum sum;
  sum.counts = {.succeeded = 999'999'999'990,
                .failed = 1,
                .expired = 2,
                .skipped = 3,
                .cancelled = 4,
                .never_started = 5,
                .tokens = 6};
  NoteSlow(17, 1'500'000, sum.rest);
  const auto json =
      nlohmann::json::parse(RunEndPayload(Record(), "20261121T030000-0-Asia~Kolkata", sum));
  EXPECT_EQ(json["run"], "tenants/default/schedules/nightly.2/runs/20261121T030000-0-Asia~Kolkata");
  EXPECT_EQ(json["nominal_time"], "2026-11-21T03:00:00Z");
  EXPECT_EQ(json["complete_time"], "2026-11-21T03:10:00.25Z");
  EXPECT_EQ(json["event_count"], 1'000'000'000'000);
  EXPECT_EQ(json["succeeded"], 999'999'999'990);
  EXPECT_EQ(json["failed"], 1);
  EXPECT_EQ(json["expired"], 2);
  EXPECT_EQ(json["skipped"], 3);
  EXPECT_EQ(json["cancelled"], 4);
  EXPECT_EQ(json["never_started"], 5);
  EXPECT_EQ(json["tokens"], 6);
  ASSERT_EQ(json["slowest"].size(), 1u);
  EXPECT_EQ(json["slowest"][0]["event"],
            "tenants/default/schedules/nightly.2/runs/20261121T030000-0-Asia~Kolkata/events/17");
  EXPECT_EQ(json["slowest"][0]["seconds"], 1.5);
  EXPECT_EQ(json.size(), 12u);
}

TEST(RunEndEventTest, PayloadSaysHowARunKeptToItsWindow) {
  storage::v1::RunRecord record = Record();
  record.set_window_open_micros(record.nominal_time_micros());
  record.set_window_close_micros(record.complete_time_micros());
  RunSum sum;
  sum.counts.succeeded = record.event_count();
  EXPECT_EQ(nlohmann::json::parse(RunEndPayload(record, "o", sum))["window"], "ON_TRACK");
  record.set_window_close_micros(record.complete_time_micros() - 1);
  const auto json = nlohmann::json::parse(RunEndPayload(record, "o", sum));
  EXPECT_EQ(json["window"], "LATE");
  EXPECT_EQ(json["window_close_time"], "2026-11-21T03:10:00.249999Z");
}

TEST(RunEndEventTest, RunOfOneEventHasNoSlowestEvents) {
  storage::v1::RunRecord record = Record();
  record.set_event_count(1);
  const auto json = nlohmann::json::parse(RunEndPayload(record, "o", RunSum()));
  EXPECT_FALSE(json.contains("slowest"));
  EXPECT_EQ(json["never_started"], 0);
}

TEST(RunEndEventTest, PayloadIsJsonWhateverTheRecordHolds) {
  const auto json = nlohmann::json::parse(RunEndPayload(Record(), "a\"b\\c\n", RunSum()));
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

TEST(RunEndEventTest, NewerPartReplacesTheFormerOne) {
  RunSum sum;
  RunCounts of_part;
  storage::v1::RunPartRecord part;
  part.set_succeeded(1);
  part.set_tokens(2);
  part.set_first_grant_time_micros(70);
  part.set_last_end_time_micros(80);
  NoteSlow(4, 10, part);
  sum.Replace(of_part, part);
  part.set_succeeded(3);
  part.set_tokens(5);
  part.set_last_end_time_micros(90);
  NoteSlow(4, 20, part);
  sum.Replace(of_part, part);
  EXPECT_EQ(sum.counts.ended(), 3u);
  EXPECT_EQ(sum.counts.tokens, 5u);
  EXPECT_EQ(sum.rest.first_grant_time_micros(), 70);
  EXPECT_EQ(sum.rest.last_end_time_micros(), 90);
  ASSERT_EQ(sum.rest.slowest_size(), 1);
  EXPECT_EQ(sum.rest.slowest(0).duration_micros(), 20);
  RunCounts of_masters;
  part.Clear();
  part.set_failed(~uint64_t{0});  // one was redriven
  sum.Replace(of_masters, part);
  EXPECT_EQ(sum.counts.ended(), 2u);
  EXPECT_EQ(sum.rest.first_grant_time_micros(), 70);
}

}  // namespace run_end_event_test
}  // namespace escapement::emitter
