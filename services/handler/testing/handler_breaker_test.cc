// Tests of targets that are down: their circuit breaker opens, and their events wait.

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/proto_time.h"
#include "common/storage/name_tables.h"
#include "common/storage/run_table.h"
#include "escapement/storage/v1/target_records.pb.h"
#include "gtest/gtest.h"
#include "services/handler/target_health/target_use.h"
#include "services/handler/testing/handler_world.h"

namespace escapement::handler {
namespace handler_breaker_test {

using kv::ColumnFamily;
using storage::v1::OUTCOME_KIND_FAILED;
using storage::v1::OUTCOME_KIND_SUCCEEDED;

constexpr char kDead[] = "grpc:dead";
constexpr char kAlive[] = "grpc:alive";

class HandlerBreakerTest : public ::testing::Test {
 protected:
  HandlerBreakerTest() {
    world_.retry.set_max_attempts(100);
    world_.retry.set_keep(true);
    dead_ = world_.AddSchedule("dead", "dead");
    alive_ = world_.AddSchedule("alive", "alive");
    world_.StartHandler("a");
    world_.transport("a").decide = [this](const DeliveryAttempt& attempt) {
      DeliveryResult result{.status = DeliveryStatus::kAccepted, .message = ""};
      if (down_ && attempt.context->target_key == kDead)
        result = {.status = status_, .message = "HTTP 503", .status_code = status_code_};
      return std::optional<DeliveryResult>(result);
    };
    world_.Advance(absl::Seconds(6));
  }

  ScriptedTransport& transport() { return world_.transport("a"); }
  const HandlerMetrics& metrics() { return world_.handler("a").metrics(); }
  double Openings() { return metrics().by_transport.at("grpc").openings.Value(); }
  // The times of attempts at the dead target after `begin`.
  std::vector<absl::Time> AttemptsAfter(absl::Time begin) {
    std::vector<absl::Time> times;
    for (const SentEvent& sent : transport().sent) {
      if (sent.target == kDead && sent.at > begin) times.push_back(sent.at);
    }
    return times;
  }
  void AddRows(const Uid& uid, int count, absl::Time due, absl::Duration apart) {
    for (int i = 0; i < count; ++i) {
      world_.AddRow(uid, {.shard = static_cast<uint16_t>(i % HandlerWorld::kShards),
                          .due = due + i * apart,
                          .occurrence = "o" + std::to_string(++occurrences_)});
    }
  }

  HandlerWorld world_;
  Uid dead_;
  Uid alive_;
  int occurrences_ = 0;
  bool down_ = true;
  DeliveryStatus status_ = DeliveryStatus::kFailed;
  int status_code_ = 503;
};

TEST_F(HandlerBreakerTest, ResetTargetGetsItsEventsAtOnce) {
  const auto reset = [this] {
    storage::v1::TargetRowRecord row;
    row.mutable_state()->set_update_time_micros(ToMicros(world_.now()));
    world_.Put(ColumnFamily::kTargetStates,
               EncodeTargetRowKey({.tenant = "", .target = TargetIdOf(kDead), .handler = ""}),
               row.SerializeAsString());
  };
  reset();  // before it went down: says nothing
  AddRows(dead_, 20, world_.now() + absl::Seconds(1), absl::Milliseconds(1));
  world_.Advance(absl::Seconds(125));
  ASSERT_EQ(Openings(), 7);  // the first, and one for each probe
  AddRows(dead_, 300, world_.now(), absl::Milliseconds(1));
  down_ = false;
  const absl::Time works = world_.now();
  world_.Advance(absl::Seconds(5));
  EXPECT_EQ(AttemptsAfter(works).size(), 0u);  // the next probe goes after a minute
  reset();
  world_.Advance(absl::Seconds(5));
  EXPECT_GE(AttemptsAfter(works).size(), 300u);
}

TEST_F(HandlerBreakerTest, TargetThatIsDownGetsOnlyProbes) {
  AddRows(dead_, 20, world_.now() + absl::Seconds(1), absl::Milliseconds(1));
  world_.Advance(absl::Milliseconds(1100));
  ASSERT_EQ(Openings(), 1);
  const absl::Time opened = world_.now();
  AddRows(dead_, 300, opened + absl::Milliseconds(200), absl::Milliseconds(1));
  world_.Advance(absl::Seconds(200));
  // After 1, 2, 4, 8, 16, 32, 60 and 60 seconds, and each time one that is left to other groups.
  const std::vector<absl::Time> probes = AttemptsAfter(opened);
  ASSERT_EQ(probes.size(), 8u);
  const int seconds[] = {2, 5, 10, 19, 36, 69, 130, 191};
  for (size_t i = 0; i < probes.size(); ++i) {
    EXPECT_GE(probes[i], opened + absl::Seconds(seconds[i]) - absl::Milliseconds(200)) << i;
    EXPECT_LE(probes[i], opened + absl::Seconds(seconds[i] + 2)) << i;
  }
  EXPECT_EQ(Openings(), 9);
  EXPECT_EQ(world_.Count(ColumnFamily::kEvents), 320u);
  down_ = false;
  world_.Advance(absl::Seconds(90));
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 320u);
  EXPECT_EQ(world_.Count(ColumnFamily::kEvents), 0u);
  EXPECT_EQ(metrics().events_out.Value(), 0);
}

// The target has answered nothing yet when the hanging events take its whole room.
TEST_F(HandlerBreakerTest, TargetIsUsedAlthoughHangingEventsWereDueFirst) {
  const Uid hanging = world_.AddSchedule("hanging", "dead");
  transport().decide = [hanging](const DeliveryAttempt& attempt) -> std::optional<DeliveryResult> {
    if (attempt.context->definition->uid() == hanging.bytes()) return std::nullopt;
    return DeliveryResult{.status = DeliveryStatus::kAccepted, .message = ""};
  };
  const absl::Time begin = world_.now() + absl::Seconds(1);
  AddRows(hanging, 4000, begin, absl::Microseconds(1));
  AddRows(dead_, 1000, begin + absl::Seconds(1), absl::Milliseconds(1));
  // Until the first attempts time out, nothing is known. Then the others have the first probe.
  world_.Advance(world_.timeout + absl::Seconds(10));
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 1000u);
}

TEST_F(HandlerBreakerTest, HealthyTargetIsOnTimeBesideATargetThatIsDown) {
  const absl::Time begin = world_.now() + absl::Seconds(1);
  AddRows(dead_, 4000, begin, absl::Milliseconds(5));
  AddRows(alive_, 400, begin, absl::Milliseconds(50));
  world_.Advance(absl::Seconds(23));
  EXPECT_EQ(transport().CountTo(kAlive), 400u);
  for (const SentEvent& sent : transport().sent) {
    if (sent.target != kAlive) continue;
    EXPECT_LE(sent.at, sent.attempt.context->launch_time + absl::Milliseconds(5));
  }
  EXPECT_LE(transport().CountTo(kDead), 60u);
  down_ = false;
  world_.Advance(absl::Minutes(3));
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 4400u);
}

TEST_F(HandlerBreakerTest, RejectedEventsDoNotOpenTheBreaker) {
  status_ = DeliveryStatus::kRejected;
  AddRows(dead_, 500, world_.now() + absl::Seconds(1), absl::Milliseconds(1));
  world_.Advance(absl::Seconds(3));
  EXPECT_EQ(Openings(), 0);
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_FAILED), 500u);
}

TEST_F(HandlerBreakerTest, TimeoutsOpenTheBreaker) {
  transport().decide = [](const DeliveryAttempt&) { return std::nullopt; };
  AddRows(dead_, 50, world_.now() + absl::Seconds(1), absl::Milliseconds(1));
  world_.Advance(absl::Seconds(13));
  EXPECT_EQ(Openings(), 1);
}

// The rows are never tried, so their age begins when their target goes down.
TEST_F(HandlerBreakerTest, MaxAgeEndsEventsThatWaitWhileTheBreakerIsOpen) {
  world_.retry.set_max_age_micros(30'000'000);
  world_.AddDefinition(dead_, 1, "0 3 * * *", "dead");
  AddRows(dead_, 20, world_.now() + absl::Seconds(1), absl::Milliseconds(1));
  world_.Advance(absl::Milliseconds(1100));
  ASSERT_EQ(Openings(), 1);
  const absl::Time down = world_.now();
  world_.AddRow(dead_, {.due = down + absl::Seconds(1), .occurrence = "run", .count = 2500});
  world_.Advance(absl::Seconds(25));
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_FAILED), 0u);
  // A probe's retry may be due up to 30 s after the probe.
  world_.Advance(absl::Seconds(60));
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_FAILED), 2520u);
  EXPECT_EQ(world_.Count(ColumnFamily::kDeadLetters), 2520u) << "one for each event";
  EXPECT_EQ(world_.Count(ColumnFamily::kEvents), 0u);
  EXPECT_EQ(world_.Count(ColumnFamily::kInflight), 0u);
  storage::v1::RunPartRecord part;
  ASSERT_TRUE(part.ParseFromString(
      world_.Rows(ColumnFamily::kRunParts)[RunPartKey({.uid = dead_, .occurrence = "run"}, 0)]));
  EXPECT_EQ(part.failed(), 2500u);
  std::map<uint64_t, std::string> reasons;  // by index
  for (const auto& [key, value] : world_.Rows(ColumnFamily::kDeadLetters)) {
    storage::v1::DeadLetterRecord letter;
    ASSERT_TRUE(letter.ParseFromString(value));
    if (letter.occurrence() == "run") reasons[letter.index()] = letter.reason();
  }
  EXPECT_EQ(reasons.size(), 2500u);
  EXPECT_EQ(reasons[2499], "not sent: the target was down for longer than max_age");
  EXPECT_GE(metrics().held_events_failed.Value(), 2490);
}

TEST_F(HandlerBreakerTest, OneOffEventsAreHeldAndFailToo) {
  world_.retry.set_max_age_micros(30'000'000);
  AddRows(dead_, 20, world_.now() + absl::Seconds(1), absl::Milliseconds(1));
  world_.Advance(absl::Milliseconds(1100));
  ASSERT_EQ(Openings(), 1);
  for (int i = 0; i < 10; ++i)
    world_.AddOneOff("e" + std::to_string(i), world_.now(), "payload " + std::to_string(i), "dead");
  world_.Advance(absl::Seconds(10));
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_FAILED), 0u);
  world_.Advance(absl::Seconds(60));
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_FAILED), 10u);
  EXPECT_EQ(world_.Count(ColumnFamily::kDeadLetters), 10u);
  EXPECT_EQ(world_.Count(ColumnFamily::kEvents), 20u) << "their definition has a longer max_age";
}

TEST_F(HandlerBreakerTest, AnswerAboutAnEventSaysThatTheTargetIsUp) {
  status_code_ = 429;
  AddRows(dead_, 100, world_.now() + absl::Seconds(1), absl::Milliseconds(1));
  world_.Advance(absl::Seconds(20));
  EXPECT_GT(AttemptsAfter(absl::InfinitePast()).size(), 300u);
  EXPECT_EQ(Openings(), 0);
}

// A target that takes half a second to answer. Some events hang.
class HandlerHangingTest : public ::testing::Test {
 protected:
  HandlerHangingTest() {
    world_.timeout = absl::Seconds(5);
    world_.retry.set_max_attempts(100);
    world_.retry.set_keep(true);
    good_ = world_.AddSchedule("good");
    bad_ = world_.AddSchedule("bad");
    world_.StartHandler("a");
    transport().delay = absl::Milliseconds(500);
    world_.Advance(absl::Seconds(6));
  }
  ScriptedTransport& transport() { return world_.transport("a"); }
  void AnswerUnless(std::function<bool(const DeliveryAttempt&)> hangs) {
    transport().decide = [hangs = std::move(hangs)](
                             const DeliveryAttempt& attempt) -> std::optional<DeliveryResult> {
      if (hangs(attempt)) return std::nullopt;
      return DeliveryResult{.status = DeliveryStatus::kAccepted, .message = ""};
    };
  }
  void AnswerOnlyGood() {
    AnswerUnless(
        [](const DeliveryAttempt& attempt) { return attempt.context->occurrence.front() == 'b'; });
  }
  void AddRun(const Uid& uid, uint64_t count) {
    world_.AddRow(uid, {.due = world_.now() + absl::Seconds(1),
                        .occurrence = (uid == bad_ ? "b" : "g") + std::to_string(++occurrences_),
                        .count = count,
                        .run_count = count});
  }
  // The latest first attempt of a good event.
  absl::Duration Latest() {
    absl::Duration latest;
    for (const SentEvent& sent : transport().sent) {
      if (sent.attempt.context->occurrence.front() == 'g' && sent.attempt.attempt == 1)
        latest = std::max(latest, sent.at - sent.attempt.context->launch_time);
    }
    return latest;
  }

  HandlerWorld world_;
  Uid good_;
  Uid bad_;
  int occurrences_ = 0;
};

TEST_F(HandlerHangingTest, HangingEventsOfARunDoNotStopTheOthers) {
  AnswerUnless([](const DeliveryAttempt& attempt) { return attempt.index % 20 < 3; });
  AddRun(good_, 4000);
  // 256 events at once, each for half a second, are 512 a second: 7.8 s for 4,000.
  world_.Advance(absl::Seconds(1) + 2 * absl::Milliseconds(7800));
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 3400u);
}

TEST_F(HandlerHangingTest, HangingScheduleDoesNotDelayAnotherOfItsTarget) {
  AnswerOnlyGood();
  for (int second = 0; second < 300; ++second) {
    AddRun(good_, 50);
    AddRun(bad_, 100);
    world_.Advance(absl::Seconds(1));
  }
  world_.Advance(absl::Seconds(3));
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 15'000u);
  EXPECT_LE(Latest(), absl::Seconds(1));
}

TEST_F(HandlerHangingTest, ScheduleThatIsAnsweredAgainGetsItsRoomBack) {
  AnswerOnlyGood();
  for (int second = 0; second < 60; ++second) {
    AddRun(good_, 50);
    AddRun(bad_, 20);
    world_.Advance(absl::Seconds(1));
  }
  AnswerUnless([](const DeliveryAttempt&) { return false; });
  // Its breaker may be open for a minute.
  world_.Advance(kBreakerOpenMax + absl::Seconds(30));
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 60 * 70u);
}

}  // namespace handler_breaker_test
}  // namespace escapement::handler
