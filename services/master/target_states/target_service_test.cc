// ListTargets and GetTarget, from the rows that handlers write.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/status/errors.h"
#include "common/storage/event_table.h"
#include "common/storage/name_tables.h"
#include "escapement/storage/v1/target_records.pb.h"
#include "gtest/gtest.h"
#include "services/master/testing/master_world.h"

namespace escapement::master {
namespace target_service_test {

using storage::v1::TargetStateRecord;
using v1::TargetStatus;

constexpr char kEndpoint[] = "http:https://a.example";

class TargetServiceTest : public testing::Test {
 protected:
  // A row that was written just now.
  storage::v1::TargetRowRecord Row(const std::string& key, TargetStateRecord::Breaker breaker) {
    storage::v1::TargetRowRecord row;
    row.mutable_state()->set_target_key(key);
    row.mutable_state()->set_breaker(breaker);
    row.mutable_state()->set_update_time_micros(ToMicros(world_.Now()));
    return row;
  }
  void Put(const std::string& tenant, const std::string& key, const std::string& handler,
           const storage::v1::TargetRowRecord& row) {
    world_.Put(
        kv::ColumnFamily::kTargetStates,
        EncodeTargetRowKey({.tenant = tenant, .target = TargetIdOf(key), .handler = handler}),
        row.SerializeAsString());
  }
  std::string NameOf(const std::string& tenant, const std::string& key) {
    return absl::StrCat("tenants/", tenant, "/targets/", TargetIdOf(key).ToHex());
  }
  absl::StatusOr<TargetStatus> Get(const std::string& name) {
    v1::GetTargetRequest request;
    request.set_name(name);
    return world_.Call(&TargetService::GetTarget, request);
  }
  // All pages. Returns "transport endpoint" of each target.
  std::vector<std::string> List(const std::string& tenant, int page_size, int* pages = nullptr) {
    std::vector<std::string> targets;
    v1::ListTargetsRequest request;
    request.set_parent("tenants/" + tenant);
    request.set_page_size(page_size);
    do {
      const auto page = world_.Call(&TargetService::ListTargets, request);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok()) break;
      for (const TargetStatus& target : page->targets())
        targets.push_back(absl::StrCat(target.transport(), " ", target.endpoint()));
      request.set_page_token(page->next_page_token());
      if (pages != nullptr) ++*pages;
    } while (!request.page_token().empty());
    return targets;
  }

  // A row of a target that is down and was just probed; its next probe is in 7 s.
  storage::v1::TargetRowRecord DownRow(const std::string& key) {
    storage::v1::TargetRowRecord row = Row(key, TargetStateRecord::OPEN);
    row.set_down_since_micros(ToMicros(world_.Now()) - 50'000'000);
    row.mutable_state()->set_open_until_micros(ToMicros(world_.Now() + absl::Seconds(7)));
    row.mutable_state()->set_last_error("connection refused");
    row.mutable_state()->set_last_error_time_micros(ToMicros(world_.Now()));
    return row;
  }

  MasterWorld world_;
};

TEST_F(TargetServiceTest, HandlersAreSummed) {
  storage::v1::TargetRowRecord a = Row(kEndpoint, TargetStateRecord::HALF_OPEN);
  const int64_t now = ToMicros(world_.Now());
  a.set_down_since_micros(now - 50'000'000);
  a.set_in_flight_max(256);
  a.mutable_state()->set_open_until_micros(now - 1'000'000);
  a.mutable_state()->set_in_flight(1);
  a.mutable_state()->set_attempts(30);
  a.mutable_state()->set_failures(30);
  a.mutable_state()->set_measured_micros(45'000'000);
  a.mutable_state()->set_last_error("HTTP 503");
  a.mutable_state()->set_last_error_time_micros(now - 2'000'000);
  Put("default", kEndpoint, "handler-1", a);
  storage::v1::TargetRowRecord b = Row(kEndpoint, TargetStateRecord::CLOSED);
  b.set_in_flight_max(100);
  b.mutable_state()->set_in_flight(9);
  b.mutable_state()->set_attempts(70);
  b.mutable_state()->set_failures(5);
  b.mutable_state()->set_last_error("timeout");
  b.mutable_state()->set_last_error_time_micros(now - 1'000'000);
  Put("default", kEndpoint, "handler-2", b);

  const auto target = Get(NameOf("default", kEndpoint));
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_EQ(target->name(), NameOf("default", kEndpoint));
  EXPECT_EQ(target->transport(), "http");
  EXPECT_EQ(target->endpoint(), "https://a.example");
  EXPECT_EQ(target->state(), TargetStatus::HALF_OPEN);
  EXPECT_EQ(target->in_flight(), 10);
  EXPECT_EQ(target->in_flight_max(), 356);
  EXPECT_EQ(target->attempt_count(), 100);
  EXPECT_EQ(target->failure_count(), 35);
  EXPECT_DOUBLE_EQ(target->error_rate(), 0.35);
  EXPECT_EQ(target->last_error(), "timeout");
  EXPECT_EQ(target->down_since_time().seconds(), (now - 50'000'000) / 1'000'000);
  EXPECT_EQ(target->next_probe_time().seconds(), (now - 1'000'000) / 1'000'000);
  ASSERT_EQ(target->handlers_size(), 2);
  EXPECT_EQ(target->handlers(0).handler(), "handler-1");
  EXPECT_EQ(target->handlers(0).state(), TargetStatus::HALF_OPEN);
  EXPECT_EQ(target->handlers(0).last_error(), "HTTP 503");
  EXPECT_EQ(target->handlers(0).measured_duration().seconds(), 45);
  EXPECT_EQ(target->handlers(1).state(), TargetStatus::CLOSED);
  EXPECT_FALSE(target->handlers(1).has_down_since_time());
  EXPECT_FALSE(target->handlers(1).has_next_probe_time());
  Put("default", kEndpoint, "handler-3", Row(kEndpoint, TargetStateRecord::OPEN));
  EXPECT_EQ(Get(NameOf("default", kEndpoint))->state(), TargetStatus::OPEN);
}

// The status and reason of an event.
std::string Said(const v1::Event& event) {
  return absl::StrCat(v1::Event::Status_Name(event.status()), " ", event.reason());
}

TEST_F(TargetServiceTest, EventAtATargetThatIsDownSaysSo) {
  v1::CreateEventRequest create = ValidEvent(world_.Now() - absl::Seconds(1), "due");
  create.mutable_event()->mutable_target()->mutable_http()->set_uri("https://a.example/hook");
  ASSERT_TRUE(world_.Call(&EventApi::CreateEvent, create).ok());
  create.set_event_id("later");
  const absl::Time later = world_.Now() + absl::Hours(1);
  SetTimestamp(ToMicros(later), *create.mutable_event()->mutable_due_time());
  ASSERT_TRUE(world_.Call(&EventApi::CreateEvent, create).ok());
  const auto get = [&](const std::string& id) {
    v1::GetEventRequest request;
    request.set_name("tenants/default/events/" + id);
    const auto event = world_.Call(&EventApi::GetEvent, request);
    EXPECT_TRUE(event.ok()) << event.status();
    return event.value_or(v1::Event());
  };
  const auto listed = [&] {
    v1::ListEventsRequest request;
    request.set_parent("tenants/default");
    const auto page = world_.Call(&EventApi::ListEvents, request);
    EXPECT_TRUE(page.ok()) << page.status();
    EXPECT_EQ(page->events_size(), 2);
    return page->events_size() == 2 ? page->events(0) : v1::Event();
  };
  EXPECT_EQ(Said(get("due")), "SCHEDULED ");
  EXPECT_FALSE(get("due").has_next_attempt_time());  // at any moment
  EXPECT_EQ(get("later").next_attempt_time().seconds(), absl::ToUnixSeconds(later));

  storage::v1::TargetRowRecord row = DownRow(kEndpoint);
  Put("default", kEndpoint, "h", row);
  for (const v1::Event& event : {get("due"), listed()}) {
    EXPECT_EQ(event.name(), "tenants/default/events/due");
    EXPECT_EQ(Said(event), "TARGET_DOWN target is down: connection refused");
    EXPECT_EQ(event.state(), v1::PENDING);
    EXPECT_EQ(TimestampMicros(event.next_attempt_time()), row.state().open_until_micros());
  }
  EXPECT_EQ(Said(get("later")), "SCHEDULED ");
  EXPECT_EQ(get("later").next_attempt_time().seconds(), absl::ToUnixSeconds(later));

  // An event that has failed keeps its own error.
  for (const auto& [key, record] : world_.Events()) {
    if (key.due_time > world_.Now()) continue;
    storage::v1::EventRecord tried = record;
    tried.set_attempts(2);
    tried.set_last_error("HTTP 503");
    world_.Put(kv::ColumnFamily::kEvents, EncodeEventKey(key), tried.SerializeAsString());
  }
  for (const v1::Event& event : {get("due"), listed()}) {
    EXPECT_EQ(Said(event), "FAILED HTTP 503");
    EXPECT_EQ(TimestampMicros(event.next_attempt_time()), row.state().open_until_micros());
  }
  // The target is back, its handler is dead, or it is down for another tenant.
  Put("default", kEndpoint, "h", Row(kEndpoint, TargetStateRecord::CLOSED));
  Put("acme", kEndpoint, "h", row);
  EXPECT_FALSE(get("due").has_next_attempt_time());
  row.mutable_state()->set_update_time_micros(ToMicros(world_.Now() - absl::Minutes(10)));
  Put("default", kEndpoint, "h", row);
  EXPECT_FALSE(get("due").has_next_attempt_time());
  EXPECT_FALSE(listed().has_next_attempt_time());
}

// The consumer has answered 429, or 503 with Retry-After. That is no trouble of the target.
TEST_F(TargetServiceTest, EventOfAPausedTargetSaysUntilWhen) {
  v1::CreateEventRequest create = ValidEvent(world_.Now() - absl::Seconds(1), "due");
  create.mutable_event()->mutable_target()->mutable_http()->set_uri("https://a.example/hook");
  ASSERT_TRUE(world_.Call(&EventApi::CreateEvent, create).ok());
  const auto get = [&] {
    v1::GetEventRequest request;
    request.set_name("tenants/default/events/due");
    const auto event = world_.Call(&EventApi::GetEvent, request);
    EXPECT_TRUE(event.ok()) << event.status();
    return event.ok() ? *event : v1::Event();
  };
  const auto listed = [&] {
    v1::ListEventsRequest request;
    request.set_parent("tenants/default");
    const auto page = world_.Call(&EventApi::ListEvents, request);
    EXPECT_TRUE(page.ok()) << page.status();
    return page->events_size() == 1 ? page->events(0) : v1::Event();
  };
  const absl::Time until =
      absl::FromUnixSeconds(absl::ToUnixSeconds(world_.Now()) + 100);  // in whole seconds
  storage::v1::TargetRowRecord row = Row(kEndpoint, TargetStateRecord::CLOSED);
  row.mutable_state()->set_last_error("HTTP 429");
  row.set_paused_until_micros(ToMicros(until));
  Put("default", kEndpoint, "h", row);
  // Another handler has a longer pause, and one has none.
  row.set_paused_until_micros(ToMicros(until + absl::Seconds(50)));
  Put("default", kEndpoint, "i", row);
  row.set_paused_until_micros(0);
  Put("default", kEndpoint, "j", row);
  const std::string reason = "SCHEDULED the target asked for a pause until " +
                             absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", until, absl::UTCTimeZone());
  for (const v1::Event& event : {get(), listed()}) {
    EXPECT_EQ(Said(event), reason);
    EXPECT_EQ(event.state(), v1::PENDING);
    EXPECT_EQ(TimestampMicros(event.next_attempt_time()), ToMicros(until));
  }
  EXPECT_EQ(Get(NameOf("default", kEndpoint))->state(), TargetStatus::CLOSED);
  EXPECT_FALSE(Get(NameOf("default", kEndpoint))->has_down_since_time());

  // A target that is down as well shows as down.
  storage::v1::TargetRowRecord down = DownRow(kEndpoint);
  down.set_paused_until_micros(ToMicros(until));
  Put("default", kEndpoint, "h", down);
  EXPECT_EQ(Said(get()), "TARGET_DOWN target is down: connection refused");
  // The pauses are over, though the rows still say when they ended.
  row.set_paused_until_micros(ToMicros(world_.Now() - absl::Seconds(1)));
  for (const char* handler : {"h", "i"}) Put("default", kEndpoint, handler, row);
  EXPECT_EQ(Said(get()), "SCHEDULED ");
  EXPECT_FALSE(get().has_next_attempt_time());
}

TEST_F(TargetServiceTest, OnlyEventOfARunSaysThatItsTargetIsDown) {
  v1::CreateScheduleRequest create = ValidSchedule("s", "0 0 1 1 *");
  create.mutable_schedule()->mutable_target()->mutable_http()->set_uri("https://a.example/hook");
  ASSERT_TRUE(world_.Call(&ScheduleApi::CreateSchedule, create).ok());
  v1::TriggerScheduleRequest trigger;
  trigger.set_name("tenants/default/schedules/s");
  const auto run = world_.Call(&ScheduleApi::TriggerSchedule, trigger);
  ASSERT_TRUE(run.ok()) << run.status();
  world_.runtime.AdvanceBy(absl::Seconds(1));
  v1::ListRunEventsRequest list;
  list.set_parent(run->name());
  auto events = world_.Call(&RunApi::ListRunEvents, list);
  ASSERT_TRUE(events.ok()) << events.status();
  EXPECT_EQ(events->events_size(), 0);
  const storage::v1::TargetRowRecord row = DownRow(kEndpoint);
  Put("default", kEndpoint, "h", row);
  events = world_.Call(&RunApi::ListRunEvents, list);
  ASSERT_TRUE(events.ok()) << events.status();
  ASSERT_EQ(events->events_size(), 1);
  EXPECT_EQ(events->events(0).name(), run->name() + "/events/0");
  EXPECT_EQ(Said(events->events(0)), "TARGET_DOWN target is down: connection refused");
  EXPECT_EQ(TimestampMicros(events->events(0).next_attempt_time()),
            row.state().open_until_micros());
}

TEST_F(TargetServiceTest, TenantsSeeOnlyTheirOwnTargets) {
  Put("default", kEndpoint, "h", Row(kEndpoint, TargetStateRecord::CLOSED));
  Put("acme", "grpc:theirs", "h", Row("grpc:theirs", TargetStateRecord::OPEN));
  EXPECT_EQ(List("default", 0), std::vector<std::string>{"http https://a.example"});
  EXPECT_EQ(List("acme", 0), std::vector<std::string>{"grpc theirs"});
  EXPECT_TRUE(Get(NameOf("acme", "grpc:theirs")).ok());
  EXPECT_TRUE(absl::IsNotFound(Get(NameOf("default", "grpc:theirs")).status()));
}

TEST_F(TargetServiceTest, PagesGoThroughAllTargetsOnce) {
  for (int i = 0; i < 25; ++i) {
    const std::string key = absl::StrCat("ping:http://host-", i);
    Put("default", key, "a", Row(key, TargetStateRecord::CLOSED));
    Put("default", key, "b", Row(key, TargetStateRecord::CLOSED));
  }
  const std::vector<std::string> all = List("default", 0);
  EXPECT_EQ(all.size(), 25u);
  int pages = 0;
  EXPECT_EQ(List("default", 4, &pages), all);
  EXPECT_EQ(pages, 7);
  pages = 0;
  EXPECT_EQ(List("default", 25, &pages), all);
  EXPECT_EQ(pages, 1);
}

TEST_F(TargetServiceTest, RowsOfDeadHandlersVanish) {
  Put("default", kEndpoint, "dead", Row(kEndpoint, TargetStateRecord::OPEN));
  world_.runtime.AdvanceBy(kTargetRowValidFor - absl::Seconds(10));
  Put("default", kEndpoint, "alive", Row(kEndpoint, TargetStateRecord::CLOSED));
  EXPECT_EQ(Get(NameOf("default", kEndpoint))->state(), TargetStatus::OPEN);
  world_.runtime.AdvanceBy(absl::Seconds(20));
  const auto target = Get(NameOf("default", kEndpoint));
  EXPECT_EQ(target->state(), TargetStatus::CLOSED);
  ASSERT_EQ(target->handlers_size(), 1);
  EXPECT_EQ(target->handlers(0).handler(), "alive");
  // The sweep deletes them, once all are old.
  world_.runtime.AdvanceBy(absl::Minutes(11));
  EXPECT_TRUE(absl::IsNotFound(Get(NameOf("default", kEndpoint)).status()));
  EXPECT_TRUE(List("default", 0).empty());
  EXPECT_TRUE(world_.Rows(kv::ColumnFamily::kTargetStates).empty());
}

TEST_F(TargetServiceTest, ResetIsARowOfTheTargetForAllTenants) {
  Put("default", kEndpoint, "h", Row(kEndpoint, TargetStateRecord::OPEN));
  v1::ResetTargetRequest request;
  request.set_name(NameOf("default", kEndpoint));
  const auto target = world_.Call(&TargetService::ResetTarget, request);
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_EQ(target->state(), TargetStatus::OPEN);
  const std::string key =
      EncodeTargetRowKey({.tenant = "", .target = TargetIdOf(kEndpoint), .handler = ""});
  storage::v1::TargetRowRecord row;
  ASSERT_TRUE(row.ParseFromString(world_.Rows(kv::ColumnFamily::kTargetStates).at(key)));
  EXPECT_NEAR(static_cast<double>(row.state().update_time_micros()),
              static_cast<double>(ToMicros(world_.Now())), 1000.0);
  // No list shows it.
  EXPECT_EQ(List("default", 0).size(), 1u);
  // A target of somebody else is none.
  request.set_name(NameOf("acme", kEndpoint));
  EXPECT_TRUE(absl::IsNotFound(world_.Call(&TargetService::ResetTarget, request).status()));
}

TEST_F(TargetServiceTest, WrongNamesAndTokensAreRefused) {
  for (const char* name : {"", "tenants/default", "tenants/default/targets/x",
                           "tenants/default/targets/ABCDEFABCDEFABCDEFABCDEFABCDEFAB"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Get(name).status())) << name;
  }
  v1::ListTargetsRequest request;
  request.set_parent("tenants/default");
  request.set_page_token("AAAA");
  request.set_page_size(-1);
  const auto refused = world_.Call(&TargetService::ListTargets, request);
  EXPECT_EQ(FieldViolationsOf(refused.status()).size(), 2u);
}

}  // namespace target_service_test
}  // namespace escapement::master
