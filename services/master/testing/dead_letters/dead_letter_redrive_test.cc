// RedriveDeadLetter: the rows that it writes and deletes, and when it is refused.

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/status/errors.h"
#include "common/storage/event_table.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"
#include "gtest/gtest.h"
#include "services/master/testing/dead_letters/dead_letter_world.h"

namespace escapement::master {
namespace dead_letter_redrive_test {

using kv::ColumnFamily;

class DeadLetterRedriveTest : public ::testing::Test {
 protected:
  // The only row of `events`.
  std::pair<EventKey, storage::v1::EventRecord> Row() {
    const auto rows = world_.fixture.Events();
    EXPECT_EQ(rows.size(), 1u);
    return rows.empty() ? std::pair<EventKey, storage::v1::EventRecord>() : rows[0];
  }
  std::optional<storage::v1::RunPartRecord> MasterPart(const std::string& occurrence) {
    const auto bytes = world_.fixture.Get(
        ColumnFamily::kRunParts, RunPartKey({world_.bench.uid, occurrence}, kMasterRunPart));
    if (!bytes.has_value()) return std::nullopt;
    storage::v1::RunPartRecord part;
    EXPECT_TRUE(part.ParseFromString(*bytes));
    return part;
  }

  DeadLetterWorld world_;
  const std::string occurrence_ = RunWorld::Id(world_.bench.start);
};

TEST_F(DeadLetterRedriveTest, OneOffEventWaitsUnderItsIdWithANewRound) {
  DeadLetterWorld::Death death = world_.OneOff("");
  death.event.set_lost_claims(2);
  death.event.set_redrives(1);
  const std::string name = world_.Die({death})[0];
  const auto event = world_.Redrive(name);
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_EQ(event->name(), "tenants/default/events/" + death.event_id);
  EXPECT_EQ(event->event_id(), death.event_id);
  EXPECT_EQ(event->state(), v1::PENDING);
  EXPECT_EQ(event->redrive_count(), 2);
  EXPECT_EQ(event->payload(), "");

  EXPECT_EQ(world_.Letters(), 0u);
  EXPECT_TRUE(world_.fixture.Rows(ColumnFamily::kDone).empty());
  const auto [key, row] = Row();
  EXPECT_EQ(key.lane, kLaneRetry);
  EXPECT_EQ(key.uid, death.uid);
  EXPECT_EQ(key.shard, ParseServerMadeEventId(death.event_id)->shard);
  EXPECT_LE(key.due_time, world_.fixture.Now());
  EXPECT_EQ(row.event_id(), death.event_id);
  EXPECT_EQ(row.payload(), "hello");
  EXPECT_EQ(row.attempts(), 4u);
  EXPECT_EQ(row.attempts_before_redrive(), 4u);
  EXPECT_EQ(row.redrives(), 2u);
  EXPECT_EQ(row.tried_since_micros(), 0);
  EXPECT_EQ(row.lost_claims(), 0u);
  EXPECT_FALSE(row.triggered());
  storage::v1::EventNameRecord named;
  ASSERT_TRUE(named.ParseFromString(
      *world_.fixture.Get(ColumnFamily::kEventNames, EventNameKey("default", death.event_id))));
  EXPECT_EQ(named.event_key(), EncodeEventKey(key));
  v1::GetEventRequest get;
  get.set_name(event->name());
  EXPECT_EQ(world_.fixture.Call(&EventApi::GetEvent, get)->state(), v1::PENDING);
  EXPECT_EQ(world_.Redrive(name).status().code(), absl::StatusCode::kNotFound);
}

// Deliveries of old periods are collected, so the new row needs one of the present period.
TEST_F(DeadLetterRedriveTest, DeliveryIsStoredAgainForTheNewDueTime) {
  storage::v1::DeliveryRecord delivery;
  delivery.mutable_target()->mutable_http()->set_uri("http://h/old");
  const InternedDelivery old = Intern(delivery, world_.bench.start - absl::Hours(200 * 24));
  world_.fixture.Put(ColumnFamily::kDefinitions, InternKey(old.hash), old.definition);
  std::vector<DeadLetterWorld::Death> deaths = {world_.OneOff("", 0), world_.OneOff("", 1)};
  for (DeadLetterWorld::Death& death : deaths)
    death.event.set_definition_hash(std::string(old.hash.bytes()));
  for (const std::string& name : world_.Die(deaths)) ASSERT_TRUE(world_.Redrive(name).ok());
  const InternedDelivery renewed = Intern(delivery, world_.fixture.Now());
  EXPECT_EQ(world_.fixture.Get(ColumnFamily::kDefinitions, InternKey(renewed.hash)),
            renewed.definition);
  for (const auto& [key, row] : world_.fixture.Events()) {
    EXPECT_EQ(row.definition_hash(), renewed.hash.bytes());
    v1::GetEventRequest get;
    get.set_name("tenants/default/events/" + row.event_id());
    EXPECT_EQ(world_.fixture.Call(&EventApi::GetEvent, get)->target().http().uri(), "http://h/old");
  }
}

TEST_F(DeadLetterRedriveTest, EventOfARunIsTakenFromItsCountsOnce) {
  world_.PutRun(occurrence_, 5, 2);
  const auto names = world_.Die({world_.OfRun(occurrence_, 3, 7), world_.OfRun(occurrence_, 6, 7)});
  const auto event = world_.Redrive(names[1]);
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_EQ(event->name(), absl::StrCat(kParent, "/runs/", occurrence_, "/events/6"));
  EXPECT_EQ(MasterPart(occurrence_)->failed(), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(world_.bench.Get(occurrence_)->failed_count(), 1);
  const auto [key, row] = Row();
  EXPECT_EQ(key.shard, ShardOfIndex(7, 6, world_.fixture.layout.queue_shards));
  EXPECT_EQ(key.first, 6u);
  EXPECT_TRUE(row.triggered());
  EXPECT_GE(row.trigger_time_micros(), ToMicros(world_.bench.start));
  EXPECT_FALSE(row.counts_in_no_run());
  EXPECT_TRUE(HasRun(row));
  ASSERT_TRUE(world_.Redrive(names[0]).ok());
  EXPECT_EQ(world_.bench.Get(occurrence_)->failed_count(), 0);
  EXPECT_EQ(world_.bench.Get(occurrence_)->succeeded_count(), 5);
}

TEST_F(DeadLetterRedriveTest, EventWhoseRunHasBeenCollectedCountsInNoRun) {
  ASSERT_TRUE(world_.Redrive(world_.Die({world_.OfRun(occurrence_, 1, 7)})[0]).ok());
  EXPECT_TRUE(Row().second.counts_in_no_run());
  EXPECT_FALSE(HasRun(Row().second));
  EXPECT_FALSE(MasterPart(occurrence_).has_value());
}

TEST_F(DeadLetterRedriveTest, EventOfARunOfOneHasNoCounts) {
  const DeadLetterWorld::Death death = world_.OfRun(occurrence_, 0, 1);
  ASSERT_TRUE(world_.Redrive(world_.Die({death})[0]).ok());
  EXPECT_FALSE(Row().second.counts_in_no_run());
  EXPECT_EQ(Row().first.shard, world_.bench.ShardOf(occurrence_));
  EXPECT_TRUE(world_.fixture.Rows(ColumnFamily::kDone).empty());
  EXPECT_FALSE(MasterPart(occurrence_).has_value());
}

TEST_F(DeadLetterRedriveTest, ThrottledEventWaitsForATokenInANewWindow) {
  DeadLetterWorld::Death death = world_.OfRun(occurrence_, 2, 7);
  death.event.set_priority(3);
  storage::v1::ThrottleRecord& throttle = *death.event.mutable_throttle();
  throttle.set_policy_id("p");
  throttle.mutable_window()->set_duration_micros(1'000'000);
  throttle.set_window_begin_micros(ToMicros(world_.bench.start));
  throttle.set_pace_first(1);
  throttle.set_pace_count(6);
  throttle.set_taken(1);
  world_.PutRun(occurrence_, 6, 1);
  const std::string name = world_.Die({death})[0];
  world_.fixture.runtime.AdvanceBy(absl::Hours(1));
  ASSERT_TRUE(world_.Redrive(name).ok());
  EXPECT_TRUE(world_.fixture.Events().empty());
  const auto [key, row] = world_.bench.TakeWaiting();
  EXPECT_EQ(key.uid, world_.bench.uid);
  EXPECT_EQ(key.priority, 3);
  EXPECT_EQ(key.first, 2u);
  EXPECT_GE(key.due_time, world_.bench.start + absl::Hours(1));
  EXPECT_EQ(row.throttle().policy_id(), "p");
  EXPECT_EQ(row.throttle().taken(), 0u);
  EXPECT_EQ(row.throttle().pace_count(), 0u);
  EXPECT_GE(row.throttle().window_begin_micros(), ToMicros(world_.bench.start + absl::Hours(1)));
}

TEST_F(DeadLetterRedriveTest, EventsThatCannotBeSentAreRefusedAndStay) {
  const auto refused = [&](const std::string& name, const std::string& reason) {
    const auto event = world_.Redrive(name);
    EXPECT_EQ(event.status().code(), absl::StatusCode::kFailedPrecondition) << event.status();
    EXPECT_EQ(ErrorReason(event.status()), reason);
  };
  // Another event has got the id since.
  const DeadLetterWorld::Death taken = world_.OneOff("mine");
  const auto names = world_.Die({taken, world_.OfRun(occurrence_, 0, 1)});
  storage::v1::EventNameRecord other;
  other.set_launch_time_micros(taken.event.launch_time_micros() + 1);
  world_.fixture.Put(ColumnFamily::kEventNames, EventNameKey("default", "mine"),
                     other.SerializeAsString());
  refused(names[0], "EVENT_ID_TAKEN");

  storage::v1::StateRecord state;
  const std::string state_key = StateKey(world_.bench.uid);
  ASSERT_TRUE(state.ParseFromString(*world_.fixture.Get(ColumnFamily::kStates, state_key)));
  state.add_cancelled_runs()->set_occurrence(occurrence_);
  world_.fixture.Put(ColumnFamily::kStates, state_key, state.SerializeAsString());
  refused(names[1], "RUN_CANCELLED");

  v1::DeleteScheduleRequest remove;
  remove.set_name(kParent);
  ASSERT_TRUE(world_.fixture.Call(&ScheduleApi::DeleteSchedule, remove).ok());
  refused(names[1], "SCHEDULE_DELETED");
  EXPECT_EQ(world_.Letters(), 2u);
  EXPECT_EQ(world_.fixture.Rows(ColumnFamily::kDone).size(), 2u);
  EXPECT_TRUE(world_.fixture.Events().empty());
}

TEST_F(DeadLetterRedriveTest, EventWithAClientChosenIdKeepsIt) {
  const DeadLetterWorld::Death death = world_.OneOff("mine");
  ASSERT_TRUE(world_.Redrive(world_.Die({death})[0]).ok());
  const auto [key, row] = Row();
  EXPECT_EQ(row.event_id(), "mine");
  EXPECT_EQ(key.shard, ShardOfEventId("mine", world_.fixture.layout.queue_shards));
  storage::v1::EventNameRecord name;
  ASSERT_TRUE(name.ParseFromString(
      *world_.fixture.Get(ColumnFamily::kEventNames, EventNameKey("default", "mine"))));
  EXPECT_EQ(name.event_key(), EncodeEventKey(key));
  EXPECT_EQ(name.launch_time_micros(), death.event.launch_time_micros());
  EXPECT_EQ(world_.fixture.Rows(ColumnFamily::kEventNames).size(), 1u);
}

TEST_F(DeadLetterRedriveTest, RepeatedRequestGetsTheFirstAnswer) {
  const auto names = world_.Die({world_.OneOff("a"), world_.OneOff("b")});
  const auto first = world_.Redrive(names[0], "r");
  ASSERT_TRUE(first.ok()) << first.status();
  const auto again = world_.Redrive(names[0], "r");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->DebugString(), first->DebugString());
  EXPECT_EQ(ErrorReason(world_.Redrive(names[1], "r").status()), "REQUEST_ID_REUSED");
  EXPECT_EQ(world_.fixture.Events().size(), 1u);
}

TEST_F(DeadLetterRedriveTest, DryRedriveChangesNothing) {
  const std::string name = world_.Die({world_.OneOff("a")})[0];
  const std::string before = world_.fixture.Dump();
  const auto event = world_.Redrive(name, "r", /*validate_only=*/true);
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_EQ(event->redrive_count(), 1);
  EXPECT_EQ(world_.fixture.Dump(), before);
}

TEST_F(DeadLetterRedriveTest, TwoRedrivesAtOnceHaveOneEffect) {
  world_.PutRun(occurrence_, 5, 2);
  const std::string single = RunWorld::Id(world_.bench.start + absl::Hours(1));
  // With counts, with a name, and with neither.
  const auto names =
      world_.Die({world_.OfRun(occurrence_, 3, 7), world_.OneOff("a"), world_.OfRun(single, 0, 1)});
  for (const std::string& name : names) {
    std::vector<absl::Status> answers;
    for (int i = 0; i < 2; ++i) {
      v1::RedriveDeadLetterRequest request;
      request.set_name(name);
      world_.fixture.master->dead_letters().RedriveDeadLetter(
          request,
          [&](const absl::StatusOr<v1::Event>& event) { answers.push_back(event.status()); });
    }
    ASSERT_TRUE(
        world_.fixture.runtime.RunUntil([&] { return answers.size() == 2; }, absl::Minutes(1)));
    EXPECT_NE(answers[0].ok(), answers[1].ok()) << answers[0] << answers[1];
  }
  EXPECT_EQ(MasterPart(occurrence_)->failed(), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(world_.fixture.Events().size(), 3u);
}

}  // namespace dead_letter_redrive_test
}  // namespace escapement::master
