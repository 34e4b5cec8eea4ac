// Tests with far more due events than can be sent at once: memory stays within its bounds, each
// target gets events as fast as it takes them, and the events of other targets are not late.

#include <algorithm>
#include <string>

#include "common/storage/event_table.h"
#include "gtest/gtest.h"
#include "services/handler/base/options.h"
#include "services/handler/service/handler_service.h"
#include "services/handler/testing/handler_world.h"

namespace escapement::handler {
namespace handler_overload_test {

using kv::ColumnFamily;
using storage::v1::OUTCOME_KIND_SUCCEEDED;

constexpr uint8_t kLane = 5;
constexpr char kFlooded[] = "grpc:flooded";
constexpr char kOther[] = "grpc:other";

class HandlerOverloadTest : public ::testing::Test {
 protected:
  // `read_delay`: the time that the store takes to answer a read.
  explicit HandlerOverloadTest(absl::Duration read_delay = absl::ZeroDuration())
      : world_(HandlerOptions(), read_delay) {}

  // Adds rows of one event each, in commits of 1,000 rows, over both shards.
  void AddBacklog(uint64_t rows, absl::Time due, uint8_t lane, uint64_t begin = 0) {
    for (uint64_t first = begin; first < begin + rows; first += 1000) {
      kv::Group group;
      for (uint64_t i = first; i < std::min(begin + rows, first + 1000); ++i) {
        storage::v1::EventRecord event;
        event.set_tenant("default");
        event.set_version(1);
        event.set_count(1);
        event.set_run_count(1);
        event.set_nominal_time_micros(absl::ToUnixMicros(due));
        event.set_launch_time_micros(absl::ToUnixMicros(due));
        group.mutations.push_back(
            {.cf = ColumnFamily::kEvents,
             .key = EncodeEventKey({.shard = static_cast<uint16_t>(i % HandlerWorld::kShards),
                                    .lane = lane,
                                    .due_time = due,
                                    .uid = flooded_,
                                    .occurrence = "o" + std::to_string(i),
                                    .first = 0}),
             .value = event.SerializeAsString()});
      }
      ASSERT_TRUE(world_.Commit(std::move(group)));
    }
  }

  // Adds one event every 50 ms, starting in a second.
  void AddOthers(int count, uint8_t lane = kLane) {
    for (int i = 0; i < count; ++i) {
      world_.AddRow(other_, {.shard = static_cast<uint16_t>(i % HandlerWorld::kShards),
                             .lane = lane,
                             .due = world_.now() + absl::Seconds(1) + absl::Milliseconds(50) * i,
                             .occurrence = "x" + std::to_string(i)});
    }
  }

  ScriptedTransport& transport() { return world_.transport("a"); }
  const HandlerMetrics& metrics() { return world_.handler("a").metrics(); }

  // Checks the bounds every 5 ms.
  void Pass(absl::Duration length, uint64_t rows_bound = RowsBound()) {
    const HandlerOptions options;
    const absl::Time end = world_.now() + length;
    while (world_.now() < end) {
      world_.Advance(absl::Milliseconds(5));
      rows_max_ = std::max<uint64_t>(rows_max_, metrics().rows_in_memory.Value());
      out_max_ = std::max<uint64_t>(out_max_, metrics().events_out.Value());
    }
    EXPECT_LE(rows_max_, rows_bound);
    EXPECT_LE(out_max_, options.events_out_max);
  }

  // The bound: rows of the lane with the backlog (if scans load them, not the watch), rows that
  // wait for its target, and other rows.
  static uint64_t RowsBound() {
    const HandlerOptions options;
    return HandlerWorld::kShards * (options.lane_rows_max + options.blocked_rows_max) + 200;
  }

  absl::Duration OthersLatest() {
    absl::Duration latest = absl::ZeroDuration();
    for (const SentEvent& sent : transport().sent) {
      if (sent.target != kOther) continue;
      latest = std::max(latest, sent.at - sent.attempt.context->launch_time);
    }
    return latest;
  }

  HandlerWorld world_;
  Uid flooded_ = world_.AddSchedule("flooded", "flooded");
  Uid other_ = world_.AddSchedule("other", "other");
  uint64_t rows_max_ = 0;
  uint64_t out_max_ = 0;
};

TEST_F(HandlerOverloadTest, LargeBacklogKeepsMemoryBoundedAndOnTimeEventsOnTime) {
  constexpr uint64_t kBacklog = 200'000;
  AddBacklog(kBacklog, world_.now() - absl::Hours(1), kLaneCatchUp);
  world_.StartHandler("a");
  transport().delay = absl::Milliseconds(200);  // so at most 20,480 events a second
  AddOthers(100);
  Pass(absl::Milliseconds(6600));
  EXPECT_EQ(transport().CountTo(kOther), 100u);
  EXPECT_LT(transport().CountTo(kFlooded), kBacklog) << "it lasted as long as the others";
  // Events behind rows of a full target wait for at most two of its answers.
  EXPECT_LE(OthersLatest(), 2 * transport().delay + absl::Milliseconds(100));
  Pass(absl::Seconds(9));
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), kBacklog + 100);
  EXPECT_EQ(transport().sent.size(), kBacklog + 100);
  EXPECT_EQ(world_.Count(ColumnFamily::kEvents), 0u);
  EXPECT_EQ(world_.Count(ColumnFamily::kInflight), 0u);
  EXPECT_GE(rows_max_, RowsBound() / 2) << "the bound was never near";
}

TEST_F(HandlerOverloadTest, BacklogDoesNotDelayLaterEventsOfItsLane) {
  constexpr uint64_t kBacklog = 200'000;
  AddBacklog(kBacklog, world_.now() - absl::Hours(1), kLane);
  world_.StartHandler("a");
  transport().delay = absl::Milliseconds(200);  // so at most 20,480 events a second
  AddOthers(100);
  Pass(absl::Milliseconds(6600));
  EXPECT_EQ(transport().CountTo(kOther), 100u);
  EXPECT_LT(transport().CountTo(kFlooded), kBacklog) << "it lasted as long as the others";
  EXPECT_LE(OthersLatest(), absl::Milliseconds(100));
  Pass(absl::Seconds(9));
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), kBacklog + 100);
  EXPECT_EQ(transport().sent.size(), kBacklog + 100);
  EXPECT_EQ(world_.Count(ColumnFamily::kEvents), 0u);
}

class SlowlyReadOverloadTest : public HandlerOverloadTest {
 protected:
  SlowlyReadOverloadTest() : HandlerOverloadTest(absl::Milliseconds(20)) {}
};

TEST_F(SlowlyReadOverloadTest, BacklogSentAsItIsReadDoesNotDelayItsLane) {
  constexpr uint64_t kBacklog = 200'000;
  AddBacklog(kBacklog, world_.now() - absl::Minutes(1), kLane);
  AddBacklog(kBacklog, world_.now() - absl::Seconds(30), kLane, kBacklog);
  world_.StartHandler("a");
  AddOthers(80);
  Pass(absl::Milliseconds(5100));
  EXPECT_EQ(transport().CountTo(kOther), 80u);
  EXPECT_LT(transport().CountTo(kFlooded), 2 * kBacklog) << "it was over before the others";
  EXPECT_LE(rows_max_, HandlerWorld::kShards * HandlerOptions().lane_rows_max / 2)
      << "it waited for its target";
  EXPECT_LE(OthersLatest(), absl::Milliseconds(100));
  Pass(absl::Seconds(9));
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 2 * kBacklog + 80);
  EXPECT_EQ(transport().sent.size(), 2 * kBacklog + 80);
  EXPECT_EQ(world_.Count(ColumnFamily::kEvents), 0u);
}

TEST_F(HandlerOverloadTest, FloodedTargetDelaysOthersOnlyBriefly) {
  world_.StartHandler("a");
  transport().delay = absl::Milliseconds(200);  // so at most 20,480 events a second
  AddOthers(100);
  const absl::Time begin = world_.now();
  // The watch reports rows of both segments of the lane.
  const uint64_t bound = 4 * RowsBound();
  for (int i = 0; i < 60; ++i) {
    AddBacklog(4000, begin + absl::Milliseconds(100) * i, kLane, i * uint64_t{4000});
    Pass(absl::Milliseconds(100), bound);
  }
  Pass(absl::Milliseconds(1100), bound);
  EXPECT_EQ(transport().CountTo(kOther), 100u);
  EXPECT_LT(transport().CountTo(kFlooded), 200'000u) << "it could be sent as it came";
  // The flooded target may delay later events for this long.
  EXPECT_LE(OthersLatest(), kLateAfter + 2 * transport().delay);
  Pass(absl::Seconds(9), bound);
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 240'000u + 100);
  EXPECT_EQ(world_.Count(ColumnFamily::kEvents), 0u);
}

TEST_F(HandlerOverloadTest, FloodedTargetDoesNotDelayOthersOfHigherNumbers) {
  world_.StartHandler("a");
  transport().delay = absl::Milliseconds(200);  // so at most 20,480 events a second
  AddOthers(100, 9);
  const absl::Time begin = world_.now();
  const uint64_t bound = 4 * RowsBound();
  for (int i = 0; i < 60; ++i) {
    AddBacklog(4000, begin + absl::Milliseconds(100) * i, 0, i * uint64_t{4000});
    Pass(absl::Milliseconds(100), bound);
  }
  EXPECT_EQ(transport().CountTo(kOther), 100u);
  EXPECT_LT(transport().CountTo(kFlooded), 200'000u) << "it could be sent as it came";
  EXPECT_LE(OthersLatest(), absl::Milliseconds(100));
}

TEST_F(HandlerOverloadTest, SpikeDrainsAtTheRateOfItsTarget) {
  constexpr uint64_t kSpike = 40'000;
  world_.StartHandler("a");
  transport().delay = absl::Milliseconds(100);
  world_.Advance(absl::Seconds(1));
  const absl::Time due = world_.now() + absl::Seconds(30);
  AddBacklog(kSpike, due, kLane);
  world_.Advance(due - world_.now());
  Pass(absl::Seconds(8));
  ASSERT_EQ(transport().CountTo(kFlooded), kSpike);
  const HandlerOptions options;
  // After its first count the target has its full bound out, and answers it every 100 ms.
  const absl::Duration ideal =
      absl::Milliseconds(100) * (static_cast<double>(kSpike) / options.target_events_out_max);
  EXPECT_LE(transport().sent.back().at - due, ideal / 0.9 + absl::Seconds(1));
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), kSpike);
}

TEST_F(HandlerOverloadTest, SpikeAtOneInstantDelaysLaterEventsOnlyBriefly) {
  constexpr uint64_t kSpike = 200'000;
  world_.StartHandler("a");
  transport().delay = absl::Milliseconds(100);  // so at most 40,960 events a second
  world_.Advance(absl::Seconds(1));
  const absl::Time due = world_.now() + absl::Seconds(1);
  AddBacklog(kSpike, due, kLane);
  AddOthers(80);  // the first of them at the same instant
  Pass(absl::Milliseconds(5100));
  EXPECT_EQ(transport().CountTo(kOther), 80u);
  EXPECT_LT(transport().CountTo(kFlooded), kSpike) << "it was over before the others";
  EXPECT_LE(OthersLatest(), kLateAfter + 2 * transport().delay);
  Pass(absl::Seconds(4));
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), kSpike + 80);
  const absl::Duration ideal = absl::Milliseconds(100) * (static_cast<double>(kSpike) /
                                                          HandlerOptions().target_events_out_max);
  EXPECT_LE(transport().sent.back().at - due, ideal / 0.9);
}

TEST_F(HandlerOverloadTest, DeadTargetTakesOnlyItsShareAndDelaysNoOther) {
  AddBacklog(100'000, world_.now() - absl::Seconds(1), kLane);
  world_.StartHandler("a");
  transport().decide = [](const DeliveryAttempt& attempt) -> std::optional<DeliveryResult> {
    if (attempt.context->target_key == kFlooded) return std::nullopt;
    return DeliveryResult{.status = DeliveryStatus::kAccepted, .message = ""};
  };
  // The lane has two segments: on-time and late rows.
  Pass(absl::Seconds(20), 2 * RowsBound());
  AddOthers(100);
  Pass(absl::Seconds(6), 2 * RowsBound());
  EXPECT_EQ(transport().CountTo(kOther), 100u);
  EXPECT_LE(OthersLatest(), absl::Milliseconds(200));
  // Every target may have this many events out.
  EXPECT_LE(out_max_, 256u + 100u);
}

// Most events of each target must wait, and all together exceed the memory bound.
TEST(HandlerCrowdTest, BacklogOfManyDeadTargetsIsBoundedAndSentLater) {
  constexpr int kTargets = 5;
  constexpr int kEach = 500;
  HandlerOptions options;
  options.blocked_bytes_max = 1 << 20;
  options.lane_bytes_max = 256 << 10;
  HandlerWorld world(options);
  world.timeout = absl::Seconds(3600);
  for (int i = 0; i < kTargets * kEach; ++i) {
    world.AddOneOff("e" + std::to_string(i), world.now(), std::string(4096, 'p'),
                    "t" + std::to_string(i % kTargets));
  }
  HandlerService& handler = world.StartHandler("a");
  bool dead = true;
  world.transport("a").decide = [&](const DeliveryAttempt&) -> std::optional<DeliveryResult> {
    if (dead) return std::nullopt;
    return DeliveryResult{.status = DeliveryStatus::kAccepted, .message = ""};
  };
  // The waiting rows that fit, and two lanes that are read ahead.
  const uint64_t rows_max = (1 << 20) / 9000 + 2 * (256 << 10) / 4096 + 10;
  for (int i = 0; i < 1000; ++i) {
    world.Advance(absl::Milliseconds(10));
    if (i > 200) {
      EXPECT_LE(handler.metrics().rows_in_memory.Value(), rows_max) << i;
    }
  }
  const size_t before = world.transport("a").sent.size();
  EXPECT_LT(before, kTargets * kEach);
  dead = false;
  world.Advance(absl::Seconds(3600));
  EXPECT_EQ(world.DoneEvents(OUTCOME_KIND_SUCCEEDED), kTargets * kEach);
}

// Only some 160 such events fit in memory. Their target is never slow: it answers two of three at
// once, and has room for one more event at each answer.
TEST(HandlerCrowdTest, LargeEventsOfOneTargetDoNotDelayOthers) {
  constexpr int kLarge = 2400;
  constexpr int kOthers = 100;
  HandlerOptions options;
  options.target_events_out_max = 256;
  HandlerWorld world(options);
  const absl::Time begin = world.now() + absl::Seconds(1);
  for (int i = 0; i < kLarge; ++i)
    world.AddOneOff("l" + std::to_string(i), begin + absl::Milliseconds(5) * i,
                    std::string(100'000, 'p'), "large");
  for (int i = 0; i < kOthers; ++i)
    world.AddOneOff("o" + std::to_string(i), begin + absl::Seconds(8) + absl::Milliseconds(20) * i,
                    "p", "other");
  world.StartHandler("a");
  ScriptedTransport& transport = world.transport("a");
  transport.delay = absl::Seconds(2);
  world.Advance(absl::Seconds(12));
  EXPECT_EQ(transport.CountTo("grpc:other"), kOthers);
  EXPECT_LT(transport.CountTo("grpc:large"), kLarge);
  for (const SentEvent& sent : transport.sent) {
    if (sent.target != "grpc:other") continue;
    EXPECT_LE(sent.at - sent.attempt.context->launch_time, absl::Milliseconds(200));
  }
  world.Advance(absl::Seconds(60));
  EXPECT_EQ(world.DoneEvents(OUTCOME_KIND_SUCCEEDED), kLarge + kOthers);
}

TEST_F(HandlerOverloadTest, MillionEventsToASlowTargetDoNotDelayOthers) {
  world_.StartHandler("a");
  transport().decide = [this](const DeliveryAttempt& attempt) {
    transport().delay =
        attempt.context->target_key == kFlooded ? absl::Seconds(2) : absl::Milliseconds(1);
    return DeliveryResult{.status = DeliveryStatus::kAccepted, .message = ""};
  };
  world_.Advance(absl::Seconds(1));
  for (uint16_t shard = 0; shard < HandlerWorld::kShards; ++shard) {
    world_.AddRow(flooded_, {.shard = shard,
                             .due = world_.now() + absl::Seconds(1),
                             .first = shard * uint64_t{500'000},
                             .count = 500'000,
                             .run_count = 1'000'000});
  }
  AddOthers(200);
  Pass(absl::Seconds(12));
  EXPECT_EQ(transport().CountTo(kOther), 200u);
  EXPECT_LE(OthersLatest(), absl::Milliseconds(100));
  EXPECT_LE(rows_max_, 300u) << "a run is a row, however many its events";
  EXPECT_LE(out_max_, HandlerOptions().target_events_out_max + 200);
}

}  // namespace handler_overload_test
}  // namespace escapement::handler
