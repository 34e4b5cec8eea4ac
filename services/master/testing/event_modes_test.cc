// Ingestions whose records replace and cancel events (IngestEvent.mode), and debounced events.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/kv/group_parts.h"
#include "common/storage/event_table.h"
#include "common/storage/name_tables.h"
#include "common/storage/waiting_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/master/events/event_lookup.h"
#include "services/master/testing/master_world.h"

namespace escapement::master {
namespace event_modes_test {

using kv::ColumnFamily;
using testing::ElementsAre;
using Mode = v1::Event;

absl::Time DueOf(const v1::Event& event) {
  return FromMicros(TimestampMicros(event.due_time()).value_or(0));
}

// Whole seconds from now until the event is due: calls take some virtual milliseconds.
absl::Duration SecondsUntil(const v1::Event& event, absl::Time now) {
  return absl::Ceil(DueOf(event) - now, absl::Seconds(1));
}

class EventModesTest : public ::testing::Test {
 protected:
  EventModesTest() { batch_ = ValidBatch(world_.Now(), 0); }

  v1::IngestEvent& Add(v1::Event::IngestMode mode, const std::string& id,
                       const std::string& payload = "", absl::Duration after = absl::Hours(1)) {
    v1::IngestEvent& event = *batch_.add_events();
    event.set_mode(mode);
    event.set_event_id(id);
    event.set_payload(payload);
    if (mode != Mode::CANCEL) event.set_due_time_micros(ToMicros(world_.Now() + after));
    return event;
  }
  // Sends what was added.
  v1::IngestResponse Send() {
    const auto response = world_.Ingest(batch_);
    EXPECT_TRUE(response.ok()) << response.status();
    batch_.clear_events();
    return response.ok() ? *response : v1::IngestResponse();
  }
  std::vector<std::string> Payloads() {
    std::vector<std::string> payloads;
    for (const auto& [key, row] : world_.Events()) payloads.push_back(row.payload());
    return payloads;
  }
  static std::vector<std::string> Reasons(const v1::IngestResponse& response) {
    std::vector<std::string> reasons;
    for (const auto& each : response.ignored())
      reasons.push_back(absl::StrCat(each.position(), " ", each.reason()));
    return reasons;
  }
  v1::Event Get(const std::string& id) {
    v1::GetEventRequest request;
    request.set_name(absl::StrCat("tenants/default/events/", id));
    const auto event = world_.Call(&EventApi::GetEvent, request);
    EXPECT_TRUE(event.ok()) << event.status();
    return event.ok() ? *event : v1::Event();
  }

  MasterWorld world_;
  v1::IngestRequest batch_;
};

TEST_F(EventModesTest, UpsertsCreateAndReplace) {
  Add(Mode::UPSERT, "a", "one");
  Add(Mode::UPSERT, "b", "one");
  EXPECT_EQ(Send().created_count(), 2);
  Add(Mode::UPSERT, "c", "new");
  Add(Mode::UPSERT, "a", "two", absl::Hours(2));
  Add(Mode::CREATE, "b", "strict");
  const v1::IngestResponse response = Send();
  EXPECT_EQ(response.created_count(), 1);
  EXPECT_THAT(response.replaced_positions(), ElementsAre(1));
  EXPECT_THAT(response.existing_positions(), ElementsAre(2));
  EXPECT_EQ(response.ignored_size(), 0);
  EXPECT_EQ(Get("a").payload(), "two");
  EXPECT_EQ(Get("a").revision(), 1);
  EXPECT_EQ(Get("b").payload(), "one");
  EXPECT_EQ(world_.Events().size(), 3u) << "nothing is left of a replaced revision";
  EXPECT_EQ(world_.Rows(ColumnFamily::kEventNames).size(), 3u);
  EXPECT_TRUE(world_.Rows(ColumnFamily::kDone).empty());
}

TEST_F(EventModesTest, CancelledIdMayBeUsedAgain) {
  Add(Mode::CREATE, "a", "one");
  Send();
  Add(Mode::CANCEL, "a");
  Add(Mode::CANCEL, "never");
  const v1::IngestResponse cancelled = Send();
  EXPECT_EQ(cancelled.ended_count(), 1);
  EXPECT_THAT(Reasons(cancelled), ElementsAre("1 RESOURCE_NOT_FOUND"));
  EXPECT_EQ(Get("a").outcome(), v1::CANCELLED);
  EXPECT_TRUE(Payloads().empty());
  Add(Mode::CANCEL, "a");
  EXPECT_THAT(Reasons(Send()), ElementsAre("0 EVENT_ENDED"));
  Add(Mode::UPSERT, "a", "again");
  EXPECT_EQ(Send().created_count(), 1);
  EXPECT_EQ(Get("a").generation(), 1);
  Add(Mode::UPSERT, "a", "last");
  EXPECT_EQ(Send().replaced_positions_size(), 1);
  EXPECT_EQ(Get("a").generation(), 1) << "the name has it";
  EXPECT_THAT(Payloads(), ElementsAre("last"));
}

TEST_F(EventModesTest, OutcomeSaysWhenTheEventWasDue) {
  const absl::Time due = world_.Now() + absl::Hours(1);
  Add(Mode::CREATE, "late", "x", -absl::Hours(1));
  Add(Mode::CREATE, "a", "x");
  Send();
  Add(Mode::CANCEL, "a");
  EXPECT_EQ(Send().ended_count(), 1);
  EXPECT_EQ(DueOf(Get("a")), due);
}

TEST_F(EventModesTest, EventThatIsDueSoonGoesAlone) {
  Add(Mode::UPSERT, "a", "one", absl::Seconds(30));
  Send();
  Add(Mode::UPSERT, "a", "two", absl::Seconds(20));
  EXPECT_THAT(Send().replaced_positions(), ElementsAre(0));
  EXPECT_THAT(Payloads(), ElementsAre("two"));
  world_.Commit({ClaimOf(world_.Events().at(0).first)});
  Add(Mode::CREATE, "b", "fine");
  Add(Mode::UPSERT, "a", "three");
  Add(Mode::CANCEL, "a");
  v1::IngestResponse response = Send();
  EXPECT_EQ(response.created_count(), 1);
  EXPECT_THAT(Reasons(response), ElementsAre("1 SUPERSEDED", "2 EVENT_RUNNING"));
  Add(Mode::UPSERT, "a", "three");
  EXPECT_THAT(Reasons(Send()), ElementsAre("0 EVENT_RUNNING"));
  EXPECT_THAT(Payloads(), ElementsAre("two", "fine"));
}

TEST_F(EventModesTest, TheLastRecordOfAnIdCounts) {
  Add(Mode::CREATE, "a", "one");
  Add(Mode::UPSERT, "a", "two");
  Add(Mode::CANCEL, "a");
  Add(Mode::UPSERT, "a", "three");
  Add(Mode::CREATE, "a", "four");
  const v1::IngestResponse response = Send();
  EXPECT_EQ(response.created_count(), 1);
  EXPECT_THAT(response.existing_positions(), ElementsAre(4));
  EXPECT_THAT(Reasons(response), ElementsAre("0 SUPERSEDED", "1 SUPERSEDED", "2 SUPERSEDED"));
  EXPECT_THAT(Payloads(), ElementsAre("three"));
}

TEST_F(EventModesTest, EventUnderAPolicyIsTakenFromItsQueue) {
  v1::CreatePolicyRequest policy;
  policy.set_parent("tenants/default");
  policy.set_policy_id("p");
  policy.mutable_policy()->set_max_concurrent(1);
  ASSERT_TRUE(world_.Call(&PolicyApi::CreatePolicy, policy).ok());
  batch_.mutable_defaults()->set_policy("p");
  Add(Mode::UPSERT, "a", "one");
  Send();
  ASSERT_EQ(world_.Rows(ColumnFamily::kWaiting).size(), 1u);
  const std::string before = world_.Rows(ColumnFamily::kWaiting).begin()->first;
  Add(Mode::UPSERT, "a", "two", absl::Hours(3));
  EXPECT_THAT(Send().replaced_positions(), ElementsAre(0));
  ASSERT_EQ(world_.Rows(ColumnFamily::kWaiting).size(), 1u);
  EXPECT_NE(world_.Rows(ColumnFamily::kWaiting).begin()->first, before);
  batch_.mutable_defaults()->clear_policy();
  Add(Mode::UPSERT, "a", "free");
  EXPECT_THAT(Send().replaced_positions(), ElementsAre(0));
  EXPECT_TRUE(world_.Rows(ColumnFamily::kWaiting).empty());
  EXPECT_THAT(Payloads(), ElementsAre("free"));
}

TEST_F(EventModesTest, WrongRecordRefusesTheBatch) {
  Add(Mode::UPSERT, "a", "one");
  Add(Mode::UPSERT, "", "without an id");
  EXPECT_TRUE(absl::IsInvalidArgument(world_.Ingest(batch_).status()));
  batch_.clear_events();
  Add(Mode::CREATE, "a", "one")
      .mutable_overrides()
      ->mutable_debounce()
      ->mutable_delay()
      ->set_seconds(5);
  EXPECT_TRUE(absl::IsInvalidArgument(world_.Ingest(batch_).status()));
  EXPECT_TRUE(Payloads().empty());
}

class DebounceTest : public EventModesTest {
 protected:
  v1::UpsertEventRequest Request(const std::string& payload) {
    v1::UpsertEventRequest request;
    *request.mutable_event() = ValidEvent(world_.Now()).event();
    request.mutable_event()->clear_due_time();
    request.mutable_event()->set_name("tenants/default/events/a");
    request.mutable_event()->set_payload(payload);
    request.mutable_event()->mutable_debounce()->mutable_delay()->set_seconds(300);
    request.mutable_event()->mutable_debounce()->mutable_max_delay()->set_seconds(700);
    return request;
  }
  // Upserts, and returns how long it is until the event is due.
  absl::Duration Upsert(const std::string& payload) {
    const auto event = world_.Call(&EventApi::UpsertEvent, Request(payload));
    EXPECT_TRUE(event.ok()) << event.status();
    return event.ok() ? SecondsUntil(*event, world_.Now()) : absl::ZeroDuration();
  }
  void Pass(absl::Duration time) { world_.runtime.AdvanceBy(time); }
};

TEST_F(DebounceTest, UpsertsMoveTheEventUpToItsMaxDelay) {
  EXPECT_EQ(Upsert("one"), absl::Seconds(300));
  Pass(absl::Seconds(200));
  EXPECT_EQ(Upsert("two"), absl::Seconds(300));
  Pass(absl::Seconds(250));
  EXPECT_EQ(Upsert("three"), absl::Seconds(250)) << "700 s after the first";
  Pass(absl::Seconds(100));
  EXPECT_EQ(Upsert("four"), absl::Seconds(150));
  EXPECT_THAT(Payloads(), ElementsAre("four"));
}

TEST_F(DebounceTest, AfterTheDeliveryAnotherBurstBegins) {
  Upsert("one");
  const auto [key, row] = world_.Events().at(0);
  storage::v1::DoneRecord done = DoneRecordOf(row);
  done.set_count(1);
  done.set_outcome(storage::v1::OUTCOME_KIND_SUCCEEDED);
  kv::Group ended;
  ended.mutations.push_back(kv::Delete(ColumnFamily::kEvents, EncodeEventKey(key)));
  ended.mutations.push_back(PutOutcome(key, done));
  world_.Commit({ended});
  Pass(absl::Seconds(600));
  EXPECT_EQ(Upsert("two"), absl::Seconds(300));
  EXPECT_EQ(Get("a").generation(), 1);
}

TEST_F(DebounceTest, RecordsOfAnIngestionAreDebouncedToo) {
  batch_.mutable_defaults()->mutable_debounce()->mutable_delay()->set_seconds(300);
  for (int i = 0; i < 3; ++i) {
    Add(Mode::UPSERT, "a", absl::StrCat(i)).clear_due_time_micros();
    EXPECT_EQ(Send().created_count(), i == 0 ? 1 : 0);
    EXPECT_EQ(SecondsUntil(Get("a"), world_.Now()), absl::Seconds(300));
    Pass(absl::Seconds(100));
  }
  EXPECT_THAT(Payloads(), ElementsAre("2"));
}

TEST_F(DebounceTest, OnlyUpsertsAreDebounced) {
  v1::UpsertEventRequest both = Request("x");
  both.mutable_event()->mutable_due_time()->set_seconds(1);
  EXPECT_TRUE(absl::IsInvalidArgument(world_.Call(&EventApi::UpsertEvent, both).status()));
  v1::CreateEventRequest create = ValidEvent(world_.Now());
  *create.mutable_event()->mutable_debounce() = Request("x").event().debounce();
  create.mutable_event()->clear_due_time();
  EXPECT_TRUE(absl::IsInvalidArgument(world_.Call(&EventApi::CreateEvent, create).status()));
  v1::UpsertEventRequest short_max = Request("x");
  short_max.mutable_event()->mutable_debounce()->mutable_max_delay()->set_seconds(299);
  EXPECT_TRUE(absl::IsInvalidArgument(world_.Call(&EventApi::UpsertEvent, short_max).status()));
}

}  // namespace event_modes_test
}  // namespace escapement::master
