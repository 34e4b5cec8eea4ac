// ListEvents: both views, their order, filters, bounds and pages, over a store in memory.

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/status/errors.h"
#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "common/storage/name_tables.h"
#include "common/storage/waiting_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/master/base/limits.h"
#include "services/master/events/event_lookup.h"
#include "services/master/testing/master_world.h"

namespace escapement::master {
namespace event_list_test {

using kv::ColumnFamily;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;
using Ids = std::vector<std::string>;

class EventListTest : public testing::Test {
 protected:
  v1::Event Make(const std::string& id, absl::Duration due_in, int priority = 5) {
    v1::CreateEventRequest request = ValidEvent(start_ + due_in, id);
    request.mutable_event()->set_priority(priority);
    return Create(request);
  }
  v1::Event Create(const v1::CreateEventRequest& request) {
    const auto made = world_.Call(&EventApi::CreateEvent, request);
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? *made : v1::Event();
  }
  std::pair<EventKey, storage::v1::EventRecord> RowOf(const std::string& id) {
    for (auto& [key, row] : world_.Events()) {
      if (row.event_id() == id) return {key, row};
    }
    ADD_FAILURE() << id;
    return {};
  }
  // As the handler: the event has ended at `end`.
  void End(const std::string& id, absl::Time end, storage::v1::OutcomeKind outcome) {
    const auto [key, row] = RowOf(id);
    storage::v1::DoneRecord done = DoneRecordOf(row);
    done.set_count(1);
    done.set_outcome(outcome);
    done.set_complete_time_micros(ToMicros(end));
    kv::Group group;
    group.mutations.push_back({.cf = ColumnFamily::kEvents,
                               .kind = kv::Mutation::Kind::kDelete,
                               .key = EncodeEventKey(key)});
    group.mutations.push_back(PutOutcome(key, done));
    world_.Commit({group});
  }
  // As the handler: an attempt failed, and the event waits until `retry`.
  void Retry(const std::string& id, absl::Time retry) {
    auto [key, row] = RowOf(id);
    kv::Group group;
    group.mutations.push_back({.cf = ColumnFamily::kEvents,
                               .kind = kv::Mutation::Kind::kDelete,
                               .key = EncodeEventKey(key)});
    key.lane = kLaneRetry;
    key.due_time = retry;
    row.set_attempts(row.attempts() + 1);
    storage::v1::EventNameRecord name;
    name.set_event_key(EncodeEventKey(key));
    name.set_launch_time_micros(row.launch_time_micros());
    group.mutations.push_back({.cf = ColumnFamily::kEventNames,
                               .key = EventNameKey("default", id),
                               .value = name.SerializeAsString()});
    group.mutations.push_back({.cf = ColumnFamily::kEvents,
                               .key = EncodeEventKey(key),
                               .value = row.SerializeAsString()});
    world_.Commit({group});
  }
  void Claim(const std::string& id) {
    const EventKey key = RowOf(id).first;
    storage::v1::ClaimRecord claim;
    claim.add_entries()->set_event_key(EncodeEventKey(key));
    claim.mutable_entries(0)->set_row_stays(true);
    world_.Put(ColumnFamily::kInflight, EncodeClaimKey({key.shard, 1, 1}),
               claim.SerializeAsString());
  }
  // `count` rows of a schedule due at `due`.
  void PutScheduleRows(absl::Time due, int count) {
    std::vector<kv::Group> groups(1);
    storage::v1::EventRecord row;
    row.set_tenant("default");
    for (int i = 0; i < count; ++i) {
      groups[0].mutations.push_back(
          {.cf = ColumnFamily::kEvents,
           .key = EncodeEventKey({.shard = static_cast<uint16_t>(i % 4),
                                  .lane = 5,
                                  .due_time = due,
                                  .uid = Uid::FromHalves(1, static_cast<uint64_t>(i)),
                                  .occurrence = "20260101T000000-0-UTC"}),
           .value = row.SerializeAsString()});
    }
    world_.Commit(std::move(groups));
  }

  v1::ListEventsRequest Request(const std::string& filter, const std::string& order_by,
                                int page_size = 2) {
    v1::ListEventsRequest request;
    request.set_parent("tenants/default");
    request.set_page_size(page_size);
    request.set_filter(filter);
    request.set_order_by(order_by);
    return request;
  }
  // The events of all pages.
  std::vector<v1::Event> Events(v1::ListEventsRequest request) {
    std::vector<v1::Event> events;
    pages_ = 0;
    do {
      const auto page = world_.Call(&EventApi::ListEvents, request);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok()) break;
      EXPECT_LE(page->events_size(), request.page_size());
      for (const v1::Event& event : page->events()) {
        EXPECT_TRUE(event.payload().empty());
        events.push_back(event);
      }
      request.set_page_token(page->next_page_token());
    } while (!request.page_token().empty() && ++pages_ < 1000);
    return events;
  }
  Ids List(const std::string& filter = "", const std::string& order_by = "", int page_size = 2) {
    Ids ids;
    for (const v1::Event& event : Events(Request(filter, order_by, page_size)))
      ids.push_back(event.event_id());
    return ids;
  }
  absl::Status Refused(const std::string& filter, const std::string& order_by) {
    return world_.Call(&EventApi::ListEvents, Request(filter, order_by)).status();
  }

  MasterWorld world_;
  const absl::Time start_ = world_.Now();
  int pages_ = 0;  // after the first
};

TEST_F(EventListTest, PendingEventsComeInTheOrderOfTheirDueTime) {
  const std::vector<int> minutes = {7, 3, 9, 1, 8, 2, 6, 4, 5};
  for (const int m : minutes) Make(absl::StrCat("e", m), absl::Minutes(m), /*priority=*/m % 4);
  const Ids all = {"e1", "e2", "e3", "e4", "e5", "e6", "e7", "e8", "e9"};
  EXPECT_EQ(List(), all);
  EXPECT_EQ(List("", "due_time", 1), all);
  EXPECT_EQ(List("", "due_time asc", 100), all);
  EXPECT_EQ(pages_, 0);
  EXPECT_EQ(List("", "due_time desc", 4), Ids(all.rbegin(), all.rend()));
  EXPECT_THAT(List("", "complete_time"), IsEmpty());
}

TEST_F(EventListTest, AnEventIsShownAsByGetEvent) {
  const v1::Event made = Make("", absl::Hours(1), 3);
  Make("late", -absl::Hours(48));
  Make("sent", absl::Seconds(1));
  Claim("sent");
  Make("again", absl::Seconds(2));
  Retry("again", start_ + absl::Minutes(5));
  const auto events = Events(Request("", ""));
  ASSERT_EQ(events.size(), 4u);
  for (const v1::Event& listed : events) {
    v1::GetEventRequest get;
    get.set_name(listed.name());
    auto got = world_.Call(&EventApi::GetEvent, get);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->payload(), "payload");
    got->clear_payload();
    EXPECT_EQ(got->DebugString(), listed.DebugString());
  }
  EXPECT_EQ(List(), (Ids{"late", "sent", "again", made.event_id()}));
  EXPECT_EQ(events[1].state(), v1::RUNNING);
  EXPECT_EQ(events[2].attempts(), 1);
  EXPECT_THAT(List("state = RUNNING"), ElementsAre("sent"));
  EXPECT_THAT(List("state = PENDING AND name != again"), ElementsAre("late", made.event_id()));
}

TEST_F(EventListTest, EndedEventsComeInTheOrderOfTheirEnd) {
  // On three days, and not in the order in which they were due.
  const std::vector<int> ends = {5, 1, 4, 2, 3, 6};
  for (size_t i = 0; i < ends.size(); ++i) {
    const std::string id = absl::StrCat("e", ends[i]);
    Make(id, absl::Hours(10) * static_cast<int>(i));
    End(id, start_ + absl::Hours(100 + ends[i]),
        i % 2 == 0 ? storage::v1::OUTCOME_KIND_SUCCEEDED : storage::v1::OUTCOME_KIND_FAILED);
  }
  Make("waits", absl::Hours(1));
  EXPECT_THAT(List("", "complete_time"), ElementsAre("e1", "e2", "e3", "e4", "e5", "e6"));
  EXPECT_EQ(pages_, 2);
  EXPECT_THAT(List("", "complete_time desc", 4), ElementsAre("e6", "e5", "e4", "e3", "e2", "e1"));
  EXPECT_THAT(List("state = ENDED"), ElementsAre("e6", "e5", "e4", "e3", "e2", "e1"));
  EXPECT_THAT(List("outcome = FAILED"), ElementsAre("e6", "e2", "e1"));
  EXPECT_THAT(List(absl::StrCat("complete_time < \"",
                                absl::FormatTime(absl::RFC3339_full, start_ + absl::Hours(103),
                                                 absl::UTCTimeZone()),
                                "\"")),
              ElementsAre("e2", "e1"));
  EXPECT_THAT(List(), ElementsAre("waits"));
}

TEST_F(EventListTest, AnEndedEventIsShownAsByGetEvent) {
  const v1::Event made = Make("", absl::Hours(1));
  v1::CancelEventRequest cancel;
  cancel.set_name(made.name());
  ASSERT_TRUE(world_.Call(&EventApi::CancelEvent, cancel).ok());
  const auto events = Events(Request("outcome = CANCELLED", ""));
  ASSERT_EQ(events.size(), 1u);
  v1::GetEventRequest get;
  get.set_name(made.name());
  EXPECT_EQ(world_.Call(&EventApi::GetEvent, get)->DebugString(), events[0].DebugString());
}

TEST_F(EventListTest, FiltersBoundTheRangesThatAreRead) {
  Make("a1", absl::Minutes(1));
  Make("a2", absl::Minutes(2));
  Make("b3", absl::Minutes(3));
  v1::CreateEventRequest http = ValidEvent(start_ + absl::Minutes(4), "a4");
  http.mutable_event()->mutable_target()->mutable_http()->set_uri("http://127.0.0.1:9/");
  Create(http);
  Make("late", -absl::Hours(1));
  const auto at = [&](absl::Duration after) {
    return absl::StrCat(
        "\"", absl::FormatTime(absl::RFC3339_full, start_ + after, absl::UTCTimeZone()), "\"");
  };
  EXPECT_THAT(List("name = \"a*\""), ElementsAre("a1", "a2", "a4"));
  EXPECT_THAT(List("event_id = \"a*\" AND target = grpc"), ElementsAre("a1", "a2"));
  EXPECT_THAT(List("target = http"), ElementsAre("a4"));
  EXPECT_THAT(List("due_time >= " + at(absl::Minutes(2))), ElementsAre("a2", "b3", "a4"));
  EXPECT_THAT(
      List("due_time > " + at(absl::Minutes(2)) + " AND due_time < " + at(absl::Minutes(4))),
      ElementsAre("b3"));
  // A late event is queued behind its due time, a retried one too.
  EXPECT_THAT(List("due_time < " + at(absl::ZeroDuration())), ElementsAre("late"));
  EXPECT_THAT(List("state = RUNNING AND due_time > " + at(absl::Hours(100))), IsEmpty());
  Retry("a1", start_ + absl::Hours(3));
  EXPECT_THAT(List("due_time < " + at(absl::Minutes(2))), ElementsAre("late", "a1"));
  EXPECT_THAT(List("due_time < " + at(absl::Minutes(2)), "due_time desc"),
              ElementsAre("a1", "late"));
}

TEST_F(EventListTest, ARetriedEventIsOnAPageOnce) {
  for (int i = 1; i <= 4; ++i) Make(absl::StrCat("e", i), absl::Minutes(i));
  v1::ListEventsRequest request = Request("", "");
  const auto first = world_.Call(&EventApi::ListEvents, request);
  ASSERT_TRUE(first.ok());
  request.set_page_token(first->next_page_token());
  // One that was listed goes on behind the position, and is listed again.
  Retry("e1", start_ + absl::Hours(1));
  Ids rest;
  for (const v1::Event& event : Events(request)) rest.push_back(event.event_id());
  EXPECT_THAT(rest, ElementsAre("e3", "e4", "e1"));
}

TEST_F(EventListTest, RowsOfSchedulesAndOtherTenantsAreLeftOut) {
  PutScheduleRows(start_ + absl::Minutes(1), 30);
  Make("mine", absl::Minutes(2));
  Make("theirs", absl::Minutes(3));
  auto [key, row] = RowOf("theirs");
  row.set_tenant("other");
  world_.Put(ColumnFamily::kEvents, EncodeEventKey(key), row.SerializeAsString());
  EXPECT_THAT(List("", "", 5), ElementsAre("mine"));
}

TEST_F(EventListTest, APageExaminesABoundedNumberOfRows) {
  for (int i = 0; i < 3; ++i) PutScheduleRows(start_ + absl::Minutes(1 + i), 9000);
  Make("last", absl::Minutes(10));
  const v1::ListEventsRequest request = Request("name = last", "");
  const auto first = world_.Call(&EventApi::ListEvents, request);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->events_size(), 0);
  EXPECT_FALSE(first->next_page_token().empty());
  EXPECT_THAT(List("name = last"), ElementsAre("last"));
  EXPECT_EQ(pages_, 2);
  EXPECT_THAT(List(), ElementsAre("last"));
}

TEST_F(EventListTest, ManyEndedEventsAreSortedPieceByPiece) {
  constexpr int kCount = 12'000;
  std::vector<kv::Group> groups(1);
  std::set<std::string> made;
  for (int i = 0; i < kCount; ++i) {
    const EventKey key{.shard = static_cast<uint16_t>(i % 4),
                       .lane = 5,
                       .due_time = start_ + absl::Hours(24) * (i / 4000),
                       .uid = Uid::FromHalves(7, static_cast<uint64_t>(i * 7919 % kCount)),
                       .occurrence = ""};
    storage::v1::DoneRecord done;
    done.set_tenant("default");
    done.set_count(1);
    done.set_lane(5);
    done.set_outcome(storage::v1::OUTCOME_KIND_SUCCEEDED);
    done.set_launch_time_micros(ToMicros(key.due_time));
    done.set_nominal_time_micros(ToMicros(key.due_time));
    done.set_complete_time_micros(ToMicros(key.due_time + absl::Seconds(i % 4000)));
    groups[0].mutations.push_back({.cf = ColumnFamily::kDone,
                                   .key = EncodeDoneKey({.shard = key.shard,
                                                         .day = DoneDay(key.due_time),
                                                         .uid = key.uid,
                                                         .occurrence = "",
                                                         .first = 0}),
                                   .value = done.SerializeAsString()});
    made.insert(ServerMadeEventId(key));
  }
  world_.Commit(std::move(groups));
  for (const char* order : {"complete_time", "complete_time desc"}) {
    const auto events = Events(Request("", order, 700));
    std::set<std::string> listed;
    int breaks = 0;
    for (size_t i = 0; i < events.size(); ++i) {
      listed.insert(events[i].event_id());
      if (i == 0) continue;
      const int64_t a = *TimestampMicros(events[i - 1].complete_time());
      const int64_t b = *TimestampMicros(events[i].complete_time());
      breaks += std::string(order) == "complete_time" ? b < a : b > a;
    }
    EXPECT_EQ(events.size(), made.size()) << order;
    EXPECT_EQ(listed, made) << order;
    EXPECT_LE(breaks, 2) << order;  // three pieces
  }
}

TEST_F(EventListTest, LargeEventsEndTheirPagesEarly) {
  for (int i = 0; i < 30; ++i) {
    v1::CreateEventRequest request =
        ValidEvent(start_ + absl::Minutes(1 + i), absl::StrCat("e", i));
    auto* http = request.mutable_event()->mutable_target()->mutable_http();
    http->set_uri("http://127.0.0.1:9/");
    for (int h = 0; h < 32; ++h)
      (*http->mutable_headers())[absl::StrCat("X-", i, "-", h)] = std::string(4096, 'v');
    request.mutable_event()->set_payload(std::string(kPayloadBytesMax, 'p'));
    Create(request);
  }
  v1::ListEventsRequest request = Request("", "", 1000);
  const auto page = world_.Call(&EventApi::ListEvents, request);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_LE(page->ByteSizeLong(), kPageBytesMax + 300);
  EXPECT_GE(page->events_size(), 5);
  EXPECT_EQ(List("", "", 1000).size(), 30u);
  EXPECT_EQ(pages_, 4);
}

TEST_F(EventListTest, WrongArgumentsAreRefusedByField) {
  const auto fields = [](const absl::Status& status) {
    Ids fields;
    for (const auto& [field, text] : FieldViolationsOf(status)) fields.push_back(field);
    return fields;
  };
  EXPECT_THAT(fields(Refused("colour = red", "")), ElementsAre("filter"));
  EXPECT_THAT(fields(Refused("", "create_time")), ElementsAre("order_by"));
  EXPECT_THAT(fields(Refused("state = ENDED", "due_time")), ElementsAre("order_by"));
  EXPECT_THAT(fields(Refused("state = PENDING", "complete_time desc")), ElementsAre("order_by"));
  v1::ListEventsRequest request = Request("x = y", "z");
  request.set_page_size(-1);
  request.set_page_token("forged");
  EXPECT_THAT(fields(world_.Call(&EventApi::ListEvents, request).status()),
              UnorderedElementsAre("page_size", "page_token", "filter", "order_by"));

  // A token belongs to its filter and order.
  for (int i = 1; i <= 4; ++i) Make(absl::StrCat("e", i), absl::Minutes(i));
  request = Request("", "");
  request.set_page_token(world_.Call(&EventApi::ListEvents, request)->next_page_token());
  ASSERT_TRUE(world_.Call(&EventApi::ListEvents, request).ok());
  request.set_order_by("due_time");
  EXPECT_THAT(fields(world_.Call(&EventApi::ListEvents, request).status()),
              ElementsAre("page_token"));
}

}  // namespace event_list_test
}  // namespace escapement::master
