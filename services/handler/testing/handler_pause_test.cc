// Tests of targets that ask for a pause (429, or 503 with Retry-After): nothing is sent to them
// until its end, nothing is lost, and no other target waits.

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/proto_time.h"
#include "common/storage/name_tables.h"
#include "escapement/storage/v1/target_records.pb.h"
#include "gtest/gtest.h"
#include "services/handler/base/options.h"
#include "services/handler/testing/granted_world.h"
#include "services/handler/testing/handler_world.h"

namespace escapement::handler {
namespace handler_pause_test {

using kv::ColumnFamily;
using storage::v1::GrantReportRecord;
using storage::v1::OUTCOME_KIND_FAILED;
using storage::v1::OUTCOME_KIND_SUCCEEDED;
using storage::v1::TargetRowRecord;

constexpr char kLimited[] = "grpc:limited";
constexpr char kOther[] = "grpc:other";

class HandlerPauseTest : public ::testing::Test {
 protected:
  HandlerPauseTest() {
    world_.first_out_max = HandlerOptions().first_out_max;
    world_.retry.set_max_attempts(100);
    world_.retry.set_keep(true);
    limited_ = world_.AddSchedule("limited", "limited");
    other_ = world_.AddSchedule("other", "other");
    world_.StartHandler("a");
    transport().decide = [this](const DeliveryAttempt& attempt) {
      DeliveryResult result{.status = DeliveryStatus::kAccepted, .message = ""};
      if (retry_after_ > absl::ZeroDuration() && attempt.context->target_key == kLimited)
        result = {.status = DeliveryStatus::kFailed,
                  .message = "HTTP " + std::to_string(status_code_),
                  .retry_after = retry_after_,
                  .status_code = status_code_};
      return std::optional<DeliveryResult>(result);
    };
    world_.Advance(absl::Seconds(6));
  }

  ScriptedTransport& transport() { return world_.transport("a"); }
  const HandlerMetrics& metrics() { return world_.handler("a").metrics(); }
  void AddRows(const Uid& uid, int count, absl::Time due, absl::Duration apart) {
    for (int i = 0; i < count; ++i) {
      world_.AddRow(uid, {.shard = static_cast<uint16_t>(i % HandlerWorld::kShards),
                          .due = due + i * apart,
                          .occurrence = "o" + std::to_string(++occurrences_)});
    }
  }
  // The target answers enough events that it has its whole room.
  void WarmUp() {
    AddRows(limited_, 300, world_.now(), absl::ZeroDuration());
    world_.Advance(absl::Seconds(2));
    ASSERT_EQ(transport().CountTo(kLimited), 300u);
    transport().sent.clear();
  }
  // The attempts at the target in [begin, end), by time.
  std::vector<absl::Time> AttemptsIn(absl::Time begin, absl::Time end) {
    std::vector<absl::Time> times;
    for (const SentEvent& sent : transport().sent) {
      if (sent.target == kLimited && sent.at >= begin && sent.at < end) times.push_back(sent.at);
    }
    return times;
  }
  // The highest number of attempts at the target within `length`.
  size_t MostWithin(absl::Duration length) {
    size_t most = 0;
    for (const absl::Time time : AttemptsIn(absl::InfinitePast(), absl::InfiniteFuture()))
      most = std::max(most, AttemptsIn(time, time + length).size());
    return most;
  }
  absl::Duration OthersLatest() {
    absl::Duration latest;
    for (const SentEvent& sent : transport().sent) {
      if (sent.target == kOther)
        latest = std::max(latest, sent.at - sent.attempt.context->launch_time);
    }
    return latest;
  }
  TargetRowRecord StateOf(const std::string& target_key) {
    TargetRowRecord row;
    const auto rows = world_.Rows(ColumnFamily::kTargetStates);
    const auto found = rows.find(EncodeTargetRowKey(
        {.tenant = "default", .target = TargetIdOf(target_key), .handler = "a"}));
    EXPECT_TRUE(found != rows.end() && row.ParseFromString(found->second));
    return row;
  }

  HandlerWorld world_;
  Uid limited_;
  Uid other_;
  int occurrences_ = 0;
  absl::Duration retry_after_;  // zero: the target accepts
  int status_code_ = 429;
};

// Nothing is known of the target when 1,000 events are due at once.
TEST_F(HandlerPauseTest, TargetThatAlwaysAsksForThirtySecondsGetsFewAttempts) {
  retry_after_ = absl::Seconds(30);
  const absl::Time due = world_.now() + absl::Seconds(2);
  for (int i = 0; i < 1000; ++i)
    world_.AddOneOff("e" + std::to_string(i), due, "payload " + std::to_string(i), "limited",
                     static_cast<uint16_t>(i % HandlerWorld::kShards));
  AddRows(other_, 200, due, absl::Milliseconds(50));
  world_.Advance(due + absl::Minutes(5) - world_.now());
  EXPECT_EQ(AttemptsIn(due, due + absl::Seconds(29)).size(), 4u);
  EXPECT_LE(MostWithin(absl::Seconds(30)), 5u);
  EXPECT_GE(transport().CountTo(kLimited), 4u + 8);
  EXPECT_LE(transport().CountTo(kLimited), 4u + 10);
  EXPECT_EQ(transport().CountTo(kOther), 200u);
  EXPECT_LE(OthersLatest(), absl::Milliseconds(5));
  EXPECT_EQ(world_.Count(ColumnFamily::kEvents), 1000u) << "all wait";
  EXPECT_EQ(world_.Count(ColumnFamily::kInflight), 0u);
  EXPECT_EQ(world_.Count(ColumnFamily::kDeadLetters), 0u);
  retry_after_ = absl::ZeroDuration();
  world_.Advance(absl::Seconds(40));
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 1200u);
  std::map<uint32_t, int> attempts;  // events by attempts
  for (const storage::v1::DoneRecord& done : world_.Done()) ++attempts[done.attempts()];
  EXPECT_GE(attempts[1], 1000 + 200 - 14 - 200) << "a pause is no attempt";
  EXPECT_EQ(metrics().events_out.Value(), 0);
}

// Rows are claimed before they are due, so some are claimed when the pause begins.
TEST_F(HandlerPauseTest, OneAnswerPausesTheTargetForAllShardsAndItsStartIsSmall) {
  WarmUp();
  transport().delay = absl::Milliseconds(100);
  const absl::Time begin = world_.now() + absl::Seconds(1);
  AddRows(limited_, 1000, begin, absl::Milliseconds(5));
  world_.Advance(absl::Seconds(2));
  ASSERT_GT(transport().CountTo(kLimited), 100u);
  retry_after_ = absl::Seconds(10);
  // The next row is due in 5 ms at the latest, and answered 100 ms later.
  const absl::Time paused = world_.now() + absl::Milliseconds(108);
  world_.Advance(absl::Milliseconds(150));
  retry_after_ = absl::ZeroDuration();
  world_.Advance(absl::Seconds(20));
  EXPECT_TRUE(AttemptsIn(paused, paused + absl::Seconds(10) - absl::Milliseconds(8)).empty());
  EXPECT_EQ(metrics().target_pauses.Value(), 1);
  const std::vector<absl::Time> after = AttemptsIn(paused, absl::InfiniteFuture());
  ASSERT_GT(after.size(), 500u);
  // 1, 2, 4 and 8 events, each after the answers to those before.
  const auto sent_by = [&](absl::Duration time) {
    return std::count_if(after.begin(), after.end(),
                         [&](absl::Time at) { return at < after[0] + time; });
  };
  EXPECT_EQ(sent_by(absl::Milliseconds(100)), 1);
  EXPECT_LE(sent_by(absl::Milliseconds(200)), 1 + 2);
  EXPECT_LE(sent_by(absl::Milliseconds(300)), 1 + 2 + 4);
  EXPECT_LE(sent_by(absl::Milliseconds(400)), 1 + 2 + 4 + 8);
  EXPECT_LE(after.back(), after[0] + absl::Seconds(3)) << "it grows";
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 1300u);
}

// More rows are due than wait in memory: the others are read again after the pause.
TEST_F(HandlerPauseTest, BacklogOfAPausedTargetIsBoundedAndSentLater) {
  retry_after_ = absl::Seconds(60);
  const absl::Time due = world_.now() + absl::Seconds(2);
  for (int first = 0; first < 12'000; first += 1000) {
    kv::Group group;
    for (int i = first; i < first + 1000; ++i) {
      storage::v1::EventRecord event;
      event.set_tenant("default");
      event.set_version(1);
      event.set_count(1);
      event.set_run_count(1);
      event.set_nominal_time_micros(ToMicros(due));
      event.set_launch_time_micros(ToMicros(due));
      group.mutations.push_back(
          {.cf = ColumnFamily::kEvents,
           .key = EncodeEventKey({.shard = static_cast<uint16_t>(i % HandlerWorld::kShards),
                                  .lane = 5,
                                  .due_time = due,
                                  .uid = limited_,
                                  .occurrence = "b" + std::to_string(i),
                                  .first = 0}),
           .value = event.SerializeAsString()});
    }
    ASSERT_TRUE(world_.Commit(std::move(group)));
  }
  AddRows(other_, 400, due, absl::Milliseconds(50));
  const HandlerOptions options;
  double rows_max = 0;
  while (world_.now() < due + absl::Seconds(22)) {
    world_.Advance(absl::Milliseconds(100));
    if (world_.now() > due + absl::Seconds(10))
      rows_max = std::max(rows_max, metrics().rows_in_memory.Value());
  }
  EXPECT_LE(rows_max, HandlerWorld::kShards * (options.lane_rows_max + options.blocked_rows_max));
  EXPECT_EQ(transport().CountTo(kLimited), 4u);
  EXPECT_EQ(transport().CountTo(kOther), 400u);
  EXPECT_LE(OthersLatest(), absl::Milliseconds(5));
  retry_after_ = absl::ZeroDuration();
  world_.Advance(absl::Seconds(70));
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 12'400u);
  EXPECT_EQ(world_.Count(ColumnFamily::kEvents), 0u);
}

TEST_F(HandlerPauseTest, PauseIsCutToWhatTheAgeOfAWaitingEventLeaves) {
  retry_after_ = absl::Hours(1);
  world_.AddOneOff("asks", world_.now() + absl::Seconds(1), "payload a", "limited");
  world_.Advance(absl::Seconds(3));
  ASSERT_EQ(transport().CountTo(kLimited), 1u);
  retry_after_ = absl::ZeroDuration();
  world_.retry.set_max_age_micros(60'000'000);
  const absl::Time due = world_.now() + absl::Seconds(1);
  world_.AddOneOff("waits", due, "payload b", "limited");
  world_.Advance(absl::Seconds(50));
  EXPECT_EQ(transport().CountTo(kLimited), 1u);
  world_.Advance(absl::Seconds(11));
  ASSERT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 1u);
  EXPECT_EQ(world_.Done()[0].event_id(), "waits");
  EXPECT_EQ(world_.Done()[0].attempts(), 1u);
  world_.Advance(absl::Hours(1));
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 2u);
  EXPECT_EQ(world_.Count(ColumnFamily::kDeadLetters), 0u);
}

TEST_F(HandlerPauseTest, EventsOfATargetThatPausesForEverFailAtTheirMaxAge) {
  retry_after_ = absl::Seconds(30);
  world_.retry.set_max_age_micros(100'000'000);
  world_.AddDefinition(limited_, 1, "0 3 * * *", "limited");
  const absl::Time due = world_.now() + absl::Seconds(1);
  AddRows(limited_, 50, due, absl::ZeroDuration());
  world_.Advance(due + absl::Seconds(95) - world_.now());
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_FAILED), 0u);
  world_.Advance(absl::Minutes(3));
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_FAILED), 50u);
  EXPECT_EQ(world_.Count(ColumnFamily::kDeadLetters), 50u);
  EXPECT_EQ(world_.Count(ColumnFamily::kEvents), 0u);
  EXPECT_LE(MostWithin(absl::Seconds(30)), 5u);
  size_t never_sent = 0;
  for (const storage::v1::DoneRecord& done : world_.Done()) {
    if (done.attempts() > 0) continue;
    never_sent += done.count();
    EXPECT_EQ(done.reason(), "not sent: the target asked for pauses for longer than max_age");
  }
  EXPECT_GE(never_sent, 50u - transport().CountTo(kLimited));
  EXPECT_GE(metrics().held_events_failed.Value(), static_cast<double>(never_sent));
}

TEST_F(HandlerPauseTest, PausedTargetIsNotDown) {
  status_code_ = 503;
  WarmUp();
  retry_after_ = absl::Seconds(40);
  AddRows(limited_, 100, world_.now() + absl::Seconds(1), absl::ZeroDuration());
  world_.Advance(absl::Seconds(5));
  ASSERT_GE(transport().CountTo(kLimited), 100u);
  EXPECT_EQ(metrics().by_transport.at("grpc").openings.Value(), 0);
  EXPECT_EQ(metrics().by_transport.at("grpc").open.Value(), 0);
  EXPECT_EQ(metrics().target_pauses.Value(), 1);
  const TargetRowRecord row = StateOf(kLimited);
  EXPECT_EQ(row.state().breaker(), storage::v1::TargetStateRecord::CLOSED);
  EXPECT_EQ(row.down_since_micros(), 0);
  EXPECT_EQ(row.state().last_error(), "HTTP 503");
  const absl::Time until = FromMicros(row.paused_until_micros());
  EXPECT_GT(until, world_.now() + absl::Seconds(34));
  EXPECT_LT(until, world_.now() + absl::Seconds(38));
  EXPECT_TRUE(AttemptsIn(world_.now(), until).empty());
  retry_after_ = absl::ZeroDuration();
  world_.Advance(absl::Seconds(60));
  EXPECT_EQ(StateOf(kLimited).paused_until_micros(), 0);
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 400u);
}

TEST_F(HandlerPauseTest, ResetTargetGetsItsEventsAtOnce) {
  retry_after_ = absl::Hours(5);
  AddRows(limited_, 100, world_.now() + absl::Seconds(1), absl::ZeroDuration());
  world_.Advance(absl::Minutes(20));
  ASSERT_EQ(transport().CountTo(kLimited), 4u);
  EXPECT_GT(FromMicros(StateOf(kLimited).paused_until_micros()), world_.now() + absl::Hours(4));
  retry_after_ = absl::ZeroDuration();
  TargetRowRecord reset;
  reset.mutable_state()->set_update_time_micros(ToMicros(world_.now()));
  world_.Put(ColumnFamily::kTargetStates,
             EncodeTargetRowKey({.tenant = "", .target = TargetIdOf(kLimited), .handler = ""}),
             reset.SerializeAsString());
  world_.Advance(absl::Seconds(5));
  EXPECT_EQ(transport().CountTo(kLimited), 100u);
  EXPECT_EQ(StateOf(kLimited).paused_until_micros(), 0);
}

// A backfill triggers such runs. They have not waited for the pause.
TEST_F(HandlerPauseTest, OldEventAfterAPauseThatNobodyWaitedForIsSent) {
  retry_after_ = absl::Seconds(10);
  world_.retry.set_max_attempts(1);
  world_.AddOneOff("asks", world_.now(), "payload a", "limited");
  world_.Advance(absl::Minutes(3));
  ASSERT_EQ(world_.DoneEvents(OUTCOME_KIND_FAILED), 1u);
  world_.retry.set_max_attempts(100);
  world_.retry.set_max_age_micros(60'000'000);
  world_.AddOneOff("b", world_.now() - absl::Hours(72), "payload b", "limited");
  world_.Advance(absl::Seconds(1));
  EXPECT_EQ(transport().CountTo(kLimited), 2u);
  world_.AddOneOff("c", world_.now() - absl::Hours(72), "payload c", "limited");
  world_.Advance(absl::Seconds(5));
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_FAILED), 1u) << "it has waited for 5 s";
  retry_after_ = absl::ZeroDuration();
  world_.Advance(absl::Seconds(30));
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 2u);
}

// It has answered before, and then nothing was sent to it for so long that it was forgotten.
TEST_F(HandlerPauseTest, TargetThatIsKnownToAnswerGetsAllAtOnce) {
  WarmUp();
  world_.Advance(absl::Minutes(30));
  ASSERT_EQ(world_.Count(ColumnFamily::kTargetStates), 0u);
  transport().delay = absl::Seconds(1);
  const absl::Time due = world_.now() + absl::Seconds(1);
  AddRows(limited_, 200, due, absl::ZeroDuration());
  world_.Advance(absl::Seconds(1) + absl::Milliseconds(500));
  EXPECT_EQ(AttemptsIn(due, due + absl::Milliseconds(5)).size(), 200u);
}

// Otherwise a target that is slow to answer would make its first burst late by many round trips.
TEST_F(HandlerPauseTest, NewTargetThatAnswersSlowlyGetsItsBurstAfterAQuarterOfASecond) {
  transport().delay = absl::Seconds(5);
  const absl::Time due = world_.now() + absl::Seconds(1);
  AddRows(limited_, 200, due, absl::ZeroDuration());
  world_.Advance(absl::Seconds(2));
  EXPECT_EQ(AttemptsIn(due, due + absl::Milliseconds(240)).size(), 4u);
  EXPECT_EQ(AttemptsIn(due, due + absl::Milliseconds(400)).size(), 200u);
}

TEST_F(HandlerPauseTest, ReportsOnGrantedEventsSayUntilWhenTheConsumerWantsNoMore) {
  TestTokenManager manager(world_);
  retry_after_ = absl::Seconds(30);
  const uint64_t first = manager.Grant(limited_, {{.first = 0}, {.first = 1, .attempts = 99}});
  world_.Advance(absl::Seconds(1));
  std::map<uint64_t, GrantReport> reports;  // by grant
  for (GrantReport& report : manager.TakeReports()) reports[report.number()] = std::move(report);
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[first].kind(), GrantReportRecord::RETRY);
  EXPECT_EQ(reports[first + 1].kind(), GrantReportRecord::FAILED);
  for (const auto& [number, report] : reports) {
    EXPECT_EQ(report.paused_until_micros(), report.time_micros() + 30'000'000);
    EXPECT_FALSE(report.unreachable());
  }
  retry_after_ = absl::ZeroDuration();
  // The pause of events with a token is not one of the target.
  EXPECT_EQ(metrics().target_pauses.Value(), 0);
  world_.AddOneOff("e", world_.now(), "payload", "limited");
  world_.Advance(absl::Seconds(1));
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 1u);
  // Other grants of the same key are returned until the pause is over.
  manager.Grant(limited_, {{.first = 2, .count = 3}});
  world_.Advance(absl::Seconds(1));
  std::vector<GrantReport> returned = manager.TakeReports();
  EXPECT_EQ(EventsOf(returned, GrantReportRecord::RETURNED), 3u);
  for (const GrantReport& report : returned) {
    EXPECT_FALSE(report.unreachable());
    EXPECT_EQ(report.paused_until_micros(), 0);
  }
  world_.Advance(absl::Seconds(30));
  manager.Grant(limited_, {{.first = 2, .count = 3}});
  world_.Advance(absl::Seconds(1));
  EXPECT_EQ(EventsOf(manager.TakeReports(), GrantReportRecord::DELIVERED), 3u);
}

TEST_F(HandlerPauseTest, GrantedEventsOfAPausedTargetAreReturnedAfterTheirTime) {
  TestTokenManager manager(world_);
  retry_after_ = absl::Seconds(8);
  world_.AddOneOff("e", world_.now() + absl::Seconds(1), "payload", "limited");
  world_.Advance(absl::Seconds(2));
  retry_after_ = absl::ZeroDuration();
  manager.Grant(limited_, {{.first = 0, .count = 10, .send_within = absl::Seconds(3)}});
  manager.Grant(limited_, {{.first = 10, .count = 10, .send_within = absl::Seconds(20)}});
  world_.Advance(absl::Seconds(4));
  EXPECT_EQ(transport().CountTo(kLimited), 1u);
  const std::vector<GrantReport> reports = manager.TakeReports();
  EXPECT_EQ(EventsOf(reports, GrantReportRecord::RETURNED), 10u);
  for (const GrantReport& report : reports) EXPECT_TRUE(report.unreachable());
  world_.Advance(absl::Seconds(5));
  EXPECT_EQ(EventsOf(manager.TakeReports(), GrantReportRecord::DELIVERED), 10u);
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 1u);
}

}  // namespace handler_pause_test
}  // namespace escapement::handler
