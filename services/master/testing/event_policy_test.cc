// One-off events under a policy: their creation, look-up, lists, cancellation and redrive over a
// store in memory.

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/status/errors.h"
#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "common/storage/name_tables.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"
#include "gtest/gtest.h"
#include "services/master/events/event_service.h"
#include "services/master/testing/master_world.h"

namespace escapement::master {
namespace event_policy_test {

using kv::ColumnFamily;

constexpr char kPolicy[] = "tenants/default/policies/gate";

class EventPolicyTest : public ::testing::Test {
 protected:
  EventPolicyTest() {
    v1::CreatePolicyRequest request;
    request.set_parent("tenants/default");
    request.set_policy_id("gate");
    request.mutable_policy()->set_max_concurrent(2);
    EXPECT_TRUE(world_.Call(&PolicyApi::CreatePolicy, request).ok());
  }
  v1::CreateEventRequest Request(const std::string& id = "") {
    v1::CreateEventRequest request = ValidEvent(world_.Now() + absl::Seconds(30), id);
    request.mutable_event()->set_policy("gate");
    return request;
  }
  v1::Event Create(const std::string& id = "") {
    const auto event = world_.Call(&EventApi::CreateEvent, Request(id));
    EXPECT_TRUE(event.ok()) << event.status();
    return event.ok() ? *event : v1::Event();
  }
  v1::Event Get(const std::string& name) {
    v1::GetEventRequest request;
    request.set_name(name);
    const auto event = world_.Call(&EventApi::GetEvent, request);
    EXPECT_TRUE(event.ok()) << event.status();
    return event.ok() ? *event : v1::Event();
  }
  std::vector<v1::Event> List(const std::string& filter = "") {
    v1::ListEventsRequest request;
    request.set_parent("tenants/default");
    request.set_filter(filter);
    const auto listed = world_.Call(&EventApi::ListEvents, request);
    EXPECT_TRUE(listed.ok()) << listed.status();
    if (!listed.ok()) return {};
    return {listed->events().begin(), listed->events().end()};
  }
  absl::StatusOr<v1::Event> Cancel(const std::string& name) {
    v1::CancelEventRequest request;
    request.set_name(name);
    return world_.Call(&EventApi::CancelEvent, request);
  }
  std::vector<std::pair<WaitingKey, storage::v1::EventRecord>> Waiting() {
    std::vector<std::pair<WaitingKey, storage::v1::EventRecord>> rows;
    for (const auto& [key, value] : world_.Rows(ColumnFamily::kWaiting)) {
      rows.push_back({*DecodeWaitingKey(key), {}});
      EXPECT_TRUE(rows.back().second.ParseFromString(value));
    }
    return rows;
  }
  // As the token manager: the event holds a token.
  void Grant() {
    const auto [key, row] = Waiting().at(0);
    storage::v1::GrantRecord grant;
    *grant.mutable_event() = row;
    grant.set_uid(std::string(WaitingOwnerOf(key).uid.bytes()));
    grant.add_holders()->set_count(1);
    kv::Group group;
    group.mutations.push_back({.cf = ColumnFamily::kWaiting,
                               .kind = kv::Mutation::Kind::kDelete,
                               .key = EncodeWaitingKey(key)});
    group.mutations.push_back(
        {.cf = ColumnFamily::kGrants,
         .key = EncodeGrantKey(
             {.policy_shard = key.policy_shard, .policy = key.policy, .epoch = 1, .number = 1}),
         .value = grant.SerializeAsString()});
    world_.Commit({group});
  }
  // As the token manager: it waits for another attempt.
  void Retry(absl::Time at) {
    auto [key, row] = Waiting().at(0);
    kv::Group group;
    group.mutations.push_back({.cf = ColumnFamily::kWaiting,
                               .kind = kv::Mutation::Kind::kDelete,
                               .key = EncodeWaitingKey(key)});
    key.due_time = at;
    row.set_attempts(1);
    row.set_last_error("busy");
    group.mutations.push_back({.cf = ColumnFamily::kWaiting,
                               .key = EncodeWaitingKey(key),
                               .value = row.SerializeAsString()});
    storage::v1::EventNameRecord name;
    name.set_event_key(LimitedEventKey(WaitingOwnerOf(key).uid, row));
    name.set_launch_time_micros(row.launch_time_micros());
    name.set_waiting_key(EncodeWaitingKey(key));
    group.mutations.push_back({.cf = ColumnFamily::kEventNames,
                               .key = EventNameKey("default", OneOffEventId(name.event_key(), row)),
                               .value = name.SerializeAsString()});
    world_.Commit({group});
  }

  MasterWorld world_;
};

TEST_F(EventPolicyTest, EventHasARowInTheQueueAndOneThatWaits) {
  const v1::Event event = Create();
  EXPECT_EQ(event.policy(), kPolicy);
  EXPECT_EQ(event.completion(), v1::ON_RELEASE) << "the policy has max_concurrent";
  const auto events = world_.Events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].first, *ParseServerMadeEventId(event.event_id()));
  EXPECT_EQ(events[0].first.lane, kLaneLimited);
  EXPECT_EQ(events[0].second.payload(), "payload");
  ASSERT_EQ(Waiting().size(), 1u);
  EXPECT_EQ(Waiting()[0].first.due_time, events[0].first.due_time);
  EXPECT_EQ(WaitingOwnerOf(Waiting()[0].first).uid, events[0].first.uid);
  EXPECT_EQ(Waiting()[0].second.payload(), "");
  EXPECT_TRUE(Waiting()[0].second.throttle().on_release());

  const v1::Event got = Get(event.name());
  EXPECT_EQ(got.state(), v1::PENDING);
  EXPECT_EQ(got.payload(), "payload");
  EXPECT_EQ(got.policy(), kPolicy);
  EXPECT_EQ(got.completion(), v1::ON_RELEASE);
  EXPECT_EQ(got.priority(), 5);
}

TEST_F(EventPolicyTest, WrongFieldIsNamed) {
  struct Case {
    std::string policy;
    v1::Completion completion;
    std::string field;
    std::string key = {};
  };
  const std::vector<Case> cases = {
      {"nowhere", v1::COMPLETION_UNSPECIFIED, "event.policy"},
      {"tenants/other/policies/gate", v1::COMPLETION_UNSPECIFIED, "event.policy"},
      {"Not A Name", v1::COMPLETION_UNSPECIFIED, "event.policy"},
      {"", v1::ON_RELEASE, "event.completion"},
      {"gate", static_cast<v1::Completion>(77), "event.completion"},
      {"", v1::COMPLETION_UNSPECIFIED, "event.policy_key", "key"},
      {"gate", v1::COMPLETION_UNSPECIFIED, "event.policy_key", std::string(129, 'k')},
      {"gate", v1::COMPLETION_UNSPECIFIED, "event.policy_key", "line\n"},
  };
  for (const Case& each : cases) {
    v1::CreateEventRequest request = Request();
    request.mutable_event()->set_policy(each.policy);
    request.mutable_event()->set_completion(each.completion);
    request.mutable_event()->set_policy_key(each.key);
    const auto refused = world_.Call(&EventApi::CreateEvent, request);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument) << each.policy;
    const auto violations = FieldViolationsOf(refused.status());
    ASSERT_FALSE(violations.empty()) << refused.status();
    EXPECT_EQ(violations[0].first, each.field);
  }
  EXPECT_TRUE(world_.Events().empty());
  EXPECT_TRUE(Waiting().empty());
}

TEST_F(EventPolicyTest, KeyIsShownAndDecidesWhereItWaits) {
  for (const std::string key : {"a", "b", "a"}) {
    v1::CreateEventRequest request = Request();
    request.mutable_event()->set_policy_key(key);
    const auto event = world_.Call(&EventApi::CreateEvent, request);
    ASSERT_TRUE(event.ok()) << event.status();
    EXPECT_EQ(event->policy_key(), key);
    EXPECT_EQ(Get(event->name()).policy_key(), key);
  }
  std::map<std::string, std::set<Uid>> groups;
  for (const auto& [key, row] : Waiting()) groups[row.throttle().policy_key()].insert(key.uid);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups["a"].size(), 1u);
  EXPECT_NE(groups["a"], groups["b"]);
}

TEST_F(EventPolicyTest, PolicyOfKeysAloneNeedsTokensBack) {
  v1::CreatePolicyRequest request;
  request.set_parent("tenants/default");
  request.set_policy_id("customers");
  request.mutable_policy()->mutable_per_key();
  EXPECT_EQ(FieldViolationsOf(world_.Call(&PolicyApi::CreatePolicy, request).status()).at(0).first,
            "policy.per_key.max_concurrent");
  request.mutable_policy()->mutable_per_key()->set_max_concurrent(3);
  const auto policy = world_.Call(&PolicyApi::CreatePolicy, request);
  ASSERT_TRUE(policy.ok()) << policy.status();
  EXPECT_EQ(policy->per_key().max_concurrent(), 3);
  v1::CreateEventRequest event = Request();
  event.mutable_event()->set_policy("customers");
  const auto created = world_.Call(&EventApi::CreateEvent, event);
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_EQ(created->completion(), v1::ON_RELEASE);
}

TEST_F(EventPolicyTest, PolicyOfRatesAloneNeedsNoTokensBack) {
  v1::CreatePolicyRequest request;
  request.set_parent("tenants/default");
  request.set_policy_id("rates");
  request.mutable_policy()->mutable_per_key()->set_max_per_second(3);
  ASSERT_TRUE(world_.Call(&PolicyApi::CreatePolicy, request).ok());
  v1::CreateEventRequest event = Request();
  event.mutable_event()->set_policy("rates");
  const auto created = world_.Call(&EventApi::CreateEvent, event);
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_EQ(created->completion(), v1::ON_DELIVERY);
}

TEST_F(EventPolicyTest, IngestTakesPoliciesOfDefaultsAndOverrides) {
  v1::IngestRequest batch = ValidBatch(world_.Now() + absl::Hours(1), 3);
  batch.mutable_defaults()->set_policy(kPolicy);
  batch.mutable_events(1)->mutable_overrides()->set_completion(v1::ON_DELIVERY);
  batch.mutable_events(2)->set_event_id("mine");
  const auto answer = world_.Ingest(batch);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->created_count(), 3);
  ASSERT_EQ(Waiting().size(), 3u);
  int on_release = 0;
  for (const auto& [key, row] : Waiting()) on_release += row.throttle().on_release() ? 1 : 0;
  EXPECT_EQ(on_release, 2);

  batch.mutable_events(0)->mutable_overrides()->set_policy("nowhere");
  const auto refused = world_.Ingest(batch);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldViolationsOf(refused.status()).at(0).first, "events[0].overrides.policy");
  EXPECT_EQ(Waiting().size(), 3u);

  // Defaults that no event uses need no policy that is there.
  batch = ValidBatch(world_.Now() + absl::Hours(1), 1);
  batch.mutable_defaults()->set_policy("nowhere");
  batch.mutable_events(0)->mutable_overrides()->set_policy(kPolicy);
  const auto unused = world_.Ingest(batch);
  ASSERT_TRUE(unused.ok()) << unused.status();
  EXPECT_EQ(Waiting().size(), 4u);
}

void AddLimit(v1::Event& event, const std::string& policy, const std::string& key = "",
              int64_t weight = 0) {
  v1::Limit& limit = *event.add_limits();
  limit.set_policy(policy);
  limit.set_policy_key(key);
  limit.set_weight(weight);
}

// Beside "gate" there is "rate", which limits only a rate.
class EventLimitsTest : public EventPolicyTest {
 protected:
  EventLimitsTest() {
    v1::CreatePolicyRequest request;
    request.set_parent("tenants/default");
    request.set_policy_id("rate");
    request.mutable_policy()->set_max_per_second(5);
    EXPECT_TRUE(world_.Call(&PolicyApi::CreatePolicy, request).ok());
  }
  v1::CreateEventRequest LimitedBy(const std::vector<std::string>& policies) {
    v1::CreateEventRequest request = ValidEvent(world_.Now() + absl::Seconds(30), "");
    for (const std::string& policy : policies) AddLimit(*request.mutable_event(), policy);
    return request;
  }
  storage::v1::PolicyRecord Record(const std::string& id) {
    storage::v1::PolicyRecord record;
    EXPECT_TRUE(record.ParseFromString(
        world_.Get(ColumnFamily::kPolicies, PolicyKey("default", id)).value_or("?")));
    return record;
  }
  void Put(const storage::v1::PolicyRecord& record) {
    world_.Put(ColumnFamily::kPolicies, PolicyKey("default", record.policy_id()),
               record.SerializeAsString());
  }
  // As a former version made it, in another policy shard than those of the tenant.
  std::string PutFormer() {
    storage::v1::PolicyRecord record = Record("gate");
    const uint16_t shard = WaitingPlaceOf(record, world_.layout.policy_shards).policy_shard;
    record.set_by_tenant(false);
    for (int i = 0; WaitingPlaceOf(record, world_.layout.policy_shards).policy_shard == shard ||
                    record.policy_id() == "gate";
         ++i)
      record.set_policy_id(absl::StrCat("former-", i));
    Put(record);
    return record.policy_id();
  }
};

TEST_F(EventLimitsTest, EventWaitsUnderItsFirstPolicyWithAllLimits) {
  v1::CreateEventRequest request = LimitedBy({"rate"});
  AddLimit(*request.mutable_event(), kPolicy, "acme", 2);
  const auto event = world_.Call(&EventApi::CreateEvent, request);
  ASSERT_TRUE(event.ok()) << event.status();
  for (const v1::Event& shown : {*event, Get(event->name()), List().at(0)}) {
    EXPECT_EQ(shown.policy(), "");
    ASSERT_EQ(shown.limits_size(), 2);
    EXPECT_EQ(shown.limits(0).policy(), "tenants/default/policies/rate");
    EXPECT_EQ(shown.limits(0).weight(), 1);
    EXPECT_EQ(shown.limits(1).policy(), kPolicy);
    EXPECT_EQ(shown.limits(1).policy_key(), "acme");
    EXPECT_EQ(shown.limits(1).weight(), 2);
    EXPECT_EQ(shown.completion(), v1::ON_RELEASE) << "the second policy has max_concurrent";
  }
  ASSERT_EQ(Waiting().size(), 1u);
  const auto [key, row] = Waiting()[0];
  EXPECT_EQ(key.policy, PolicyUid("default", "rate"));
  EXPECT_EQ(key.policy_shard,
            WaitingPlaceOf(Record("gate"), world_.layout.policy_shards).policy_shard);
  EXPECT_TRUE(row.throttle().by_tenant());
  ASSERT_EQ(row.throttle().more_size(), 1);
  EXPECT_EQ(row.throttle().more(0).policy_id(), "gate");
  EXPECT_EQ(row.throttle().more(0).weight(), 2u);

  request = LimitedBy({"gate"});
  const auto one = world_.Call(&EventApi::CreateEvent, request);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->policy(), kPolicy);
  EXPECT_EQ(one->limits_size(), 0);
}

TEST_F(EventLimitsTest, WrongLimitIsNamedByItsField) {
  std::vector<std::pair<std::string, v1::CreateEventRequest>> cases = {
      {"event.limits[1].policy", LimitedBy({"gate", "nowhere"})},
      {"event.limits[1].policy", LimitedBy({"gate", kPolicy})},
      {"event.limits[0].policy", LimitedBy({""})},
      {"event.limits", LimitedBy({"a", "b", "c", "d", "e"})},
      {"event.limits", LimitedBy({"gate"})},
      {"event.limits[0].weight", LimitedBy({})},
      {"event.limits[0].policy_key", LimitedBy({})}};
  cases[4].second.mutable_event()->set_policy_key("acme");
  AddLimit(*cases[5].second.mutable_event(), "gate", "", 3);  // gate has two tokens
  AddLimit(*cases[6].second.mutable_event(), "gate", std::string(129, 'k'));
  for (const auto& [field, request] : cases) {
    const absl::Status refused = world_.Call(&EventApi::CreateEvent, request).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << field;
    const auto violations = FieldViolationsOf(refused);
    ASSERT_EQ(violations.size(), 1u) << refused;
    EXPECT_EQ(violations[0].first, field);
  }
  EXPECT_TRUE(Waiting().empty());
}

TEST_F(EventLimitsTest, PolicyStaysWhileItIsAFurtherLimitOfAnEvent) {
  v1::DeletePolicyRequest request;
  request.set_name(kPolicy);
  const auto deleted = [&] { return world_.Call(&PolicyApi::DeletePolicy, request).status(); };
  ASSERT_TRUE(world_.Call(&EventApi::CreateEvent, LimitedBy({"rate", "gate"})).ok());
  // An event of another tenant whose policy has the same name does not matter.
  auto [key, row] = Waiting().at(0);
  row.set_tenant("other");
  key.first = 7;
  world_.Put(ColumnFamily::kWaiting, EncodeWaitingKey(key), row.SerializeAsString());
  for (const bool validate_only : {true, false}) {
    request.set_validate_only(validate_only);
    EXPECT_EQ(ErrorReason(deleted()), "POLICY_HAS_WAITING_EVENTS");
  }
  Grant();
  EXPECT_EQ(ErrorReason(deleted()), "POLICY_HAS_HELD_TOKENS");
  const auto grants = world_.Rows(ColumnFamily::kGrants);
  for (const auto& [grant, value] : grants) world_.Delete(ColumnFamily::kGrants, grant);
  EXPECT_TRUE(deleted().ok()) << deleted();
}

TEST_F(EventLimitsTest, PoliciesThatAreKeptApartAreRefused) {
  const std::string former = PutFormer();
  const absl::Status refused =
      world_.Call(&EventApi::CreateEvent, LimitedBy({"gate", former})).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorReason(refused), "POLICIES_APART");
  EXPECT_EQ(ErrorMetadataValue(refused, "field"), "event.limits");
  EXPECT_TRUE(world_.Call(&EventApi::CreateEvent, LimitedBy({former})).ok());

  // In a batch of Ingest it is a fault of this event.
  v1::IngestRequest batch = ValidBatch(world_.Now() + absl::Hours(1), 2);
  AddLimit(*batch.mutable_events(1)->mutable_overrides(), "gate");
  AddLimit(*batch.mutable_events(1)->mutable_overrides(), former);
  const absl::Status fault = world_.Ingest(batch).status();
  ASSERT_EQ(FieldViolationsOf(fault).size(), 1u) << fault;
  EXPECT_EQ(FieldViolationsOf(fault)[0].first, "events[1].overrides.limits");
  EXPECT_TRUE(absl::StartsWith(FieldViolationsOf(fault)[0].second, "tenants/default/policies/"));
}

TEST_F(EventLimitsTest, OverriddenLimitsTakeNothingOfTheDefaultsLimits) {
  v1::IngestRequest batch = ValidBatch(world_.Now() + absl::Hours(1), 5);
  batch.mutable_defaults()->set_policy("gate");
  batch.mutable_defaults()->set_policy_key("acme");
  batch.mutable_defaults()->set_completion(v1::ON_DELIVERY);
  batch.mutable_events(1)->mutable_overrides()->set_policy("rate");
  AddLimit(*batch.mutable_events(2)->mutable_overrides(), "rate");
  AddLimit(*batch.mutable_events(2)->mutable_overrides(), "gate", "", 2);
  batch.mutable_events(3)->mutable_overrides()->set_policy_key("other");
  batch.mutable_events(4)->mutable_overrides()->set_policy("gate");
  for (int i = 0; i < 5; ++i) batch.mutable_events(i)->set_event_id(absl::StrCat("e", i));
  const auto answer = world_.Ingest(batch);
  ASSERT_TRUE(answer.ok()) << answer.status();
  const auto shown = [&](int i) {
    const v1::Event event = Get(absl::StrCat("tenants/default/events/e", i));
    std::string text = absl::StrCat(event.policy(), "/", event.policy_key());
    for (const v1::Limit& limit : event.limits())
      absl::StrAppend(&text, " ", limit.policy(), "/", limit.policy_key(), "/", limit.weight());
    return absl::StrCat(text, " ", v1::Completion_Name(event.completion()));
  };
  const std::string rate = "tenants/default/policies/rate";
  EXPECT_EQ(shown(0), absl::StrCat(kPolicy, "/acme ON_DELIVERY"));
  EXPECT_EQ(shown(1), absl::StrCat(rate, "/ ON_DELIVERY"));
  EXPECT_EQ(shown(2), absl::StrCat("/ ", rate, "//1 ", kPolicy, "//2 ON_RELEASE"));
  EXPECT_EQ(shown(3), absl::StrCat(kPolicy, "/other ON_DELIVERY"));
  EXPECT_EQ(shown(4), absl::StrCat(kPolicy, "/ ON_RELEASE"));

  // Limits of the defaults go where `policy` of the defaults would, and stand aside for it.
  batch.mutable_defaults()->clear_policy();
  batch.mutable_defaults()->clear_policy_key();
  AddLimit(*batch.mutable_defaults(), "gate", "", 2);
  batch.mutable_events()->DeleteSubrange(2, 3);
  batch.mutable_events(0)->set_event_id("e5");
  batch.mutable_events(1)->set_event_id("e6");
  ASSERT_TRUE(world_.Ingest(batch).ok());
  EXPECT_EQ(shown(5), absl::StrCat("/ ", kPolicy, "//2 ON_DELIVERY"));
  EXPECT_EQ(shown(6), absl::StrCat(rate, "/ ON_DELIVERY"));

  batch.mutable_events(0)->mutable_overrides()->set_policy("nowhere");
  AddLimit(*batch.mutable_events(1)->mutable_overrides(), "rate");
  const auto refused = FieldViolationsOf(world_.Ingest(batch).status());
  ASSERT_EQ(refused.size(), 2u);
  EXPECT_EQ(refused[0].first, "events[0].overrides.policy");
  EXPECT_EQ(refused[1].first, "events[1].overrides.limits");
}

TEST_F(EventPolicyTest, AgainWithTheSameIdItExists) {
  Create("mine");
  EXPECT_EQ(world_.Call(&EventApi::CreateEvent, Request("mine")).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Waiting().size(), 1u);
}

TEST_F(EventPolicyTest, PolicyStaysWhileAnEventWaitsOrHoldsAToken) {
  const v1::Event event = Create();
  v1::DeletePolicyRequest request;
  request.set_name(kPolicy);
  const auto deleted = [&] { return world_.Call(&PolicyApi::DeletePolicy, request).status(); };
  EXPECT_EQ(ErrorReason(deleted()), "POLICY_HAS_WAITING_EVENTS");
  Grant();
  EXPECT_EQ(ErrorReason(deleted()), "POLICY_HAS_HELD_TOKENS");
}

TEST_F(EventPolicyTest, StateIsTheSameInGetAndList) {
  const v1::Event event = Create("mine");
  ASSERT_EQ(List().size(), 1u);
  EXPECT_EQ(List()[0].state(), v1::PENDING);
  EXPECT_EQ(List()[0].policy(), kPolicy);
  EXPECT_EQ(List()[0].next_attempt_time().seconds(),
            Get(event.name()).next_attempt_time().seconds());

  const absl::Time at = world_.Now() + absl::Hours(2);
  Retry(at);
  for (const v1::Event& shown : {List().at(0), Get(event.name())}) {
    EXPECT_EQ(shown.state(), v1::PENDING);
    EXPECT_EQ(shown.status(), v1::Event::FAILED);
    EXPECT_EQ(shown.attempts(), 1);
    EXPECT_EQ(shown.reason(), "busy");
    EXPECT_EQ(shown.next_attempt_time().seconds(), absl::ToUnixSeconds(at));
    EXPECT_FALSE(shown.has_priority());
  }

  Grant();
  for (const v1::Event& shown : {List().at(0), Get(event.name())}) {
    EXPECT_EQ(shown.name(), event.name());
    EXPECT_EQ(shown.state(), v1::RUNNING);
    EXPECT_EQ(shown.attempts(), 1);
    EXPECT_FALSE(shown.has_priority());
  }
  EXPECT_EQ(List("state = RUNNING").size(), 1u);
  EXPECT_TRUE(List("state = PENDING").empty());
}

TEST_F(EventPolicyTest, FirstAttemptHasItsPriority) {
  const v1::Event event = Create();
  Grant();
  for (const v1::Event& shown : {List().at(0), Get(event.name())}) {
    EXPECT_EQ(shown.state(), v1::RUNNING);
    EXPECT_EQ(shown.priority(), 5);
  }
}

TEST_F(EventPolicyTest, CanBeCancelledUntilItHoldsAToken) {
  const v1::Event first = Create();
  const auto cancelled = Cancel(first.name());
  ASSERT_TRUE(cancelled.ok()) << cancelled.status();
  EXPECT_EQ(cancelled->outcome(), v1::CANCELLED);
  EXPECT_EQ(Get(first.name()).outcome(), v1::CANCELLED);
  EXPECT_TRUE(world_.Events().empty());
  EXPECT_TRUE(Waiting().empty());

  const v1::Event retried = Create();
  Retry(world_.Now() + absl::Hours(2));
  ASSERT_TRUE(Cancel(retried.name()).ok());
  EXPECT_TRUE(Waiting().empty());
  EXPECT_TRUE(world_.Rows(ColumnFamily::kEventNames).empty());

  const v1::Event held = Create();
  Grant();
  EXPECT_EQ(Cancel(held.name()).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(world_.Events().size(), 1u);
}

TEST_F(EventPolicyTest, UsageNamesTheEvents) {
  const v1::Event held = Create();
  Grant();
  v1::CreateEventRequest due = Request();
  *due.mutable_event()->mutable_due_time() = v1::Event().due_time();
  due.mutable_event()->mutable_due_time()->set_seconds(1);
  ASSERT_TRUE(world_.Call(&EventApi::CreateEvent, due).ok());
  v1::GetPolicyUsageRequest request;
  request.set_name(kPolicy);
  const auto usage = world_.Call(&PolicyApi::GetPolicyUsage, request);
  ASSERT_TRUE(usage.ok()) << usage.status();
  ASSERT_EQ(usage->holders_size(), 1);
  EXPECT_EQ(usage->holders(0).event(), held.name());
  EXPECT_EQ(usage->waiting_count(), 1);
  ASSERT_EQ(usage->waiters_size(), 1);
  EXPECT_EQ(usage->waiters(0).schedule(), "");
}

// As the token manager: the event has become a dead letter.
class DeadEventTest : public EventLimitsTest {
 protected:
  std::string Fail(const v1::Event& event) {
    const auto [queue_key, row] = world_.Events().at(0);
    const auto [key, waiting] = Waiting().at(0);
    kv::Group group;
    for (const auto& [cf, bytes] : {std::pair(ColumnFamily::kEvents, EncodeEventKey(queue_key)),
                                    std::pair(ColumnFamily::kWaiting, EncodeWaitingKey(key))}) {
      group.mutations.push_back({.cf = cf, .kind = kv::Mutation::Kind::kDelete, .key = bytes});
    }
    storage::v1::DeadLetterRecord letter;
    letter.set_uid(std::string(queue_key.uid.bytes()));
    *letter.mutable_event() = waiting;
    letter.mutable_event()->set_payload(row.payload());
    letter.mutable_event()->set_attempts(1);
    letter.set_reason("refused");
    group.mutations.push_back({.cf = ColumnFamily::kDeadLetters,
                               .key = DeadLetterKey("default", world_.Now(), event.event_id()),
                               .value = letter.SerializeAsString()});
    world_.Commit({group});
    v1::ListDeadLettersRequest request;
    request.set_parent("tenants/default");
    const auto letters = world_.Call(&DeadLetterService::ListDeadLetters, request);
    EXPECT_TRUE(letters.ok() && letters->dead_letters_size() == 1) << letters.status();
    return letters.ok() && letters->dead_letters_size() == 1 ? letters->dead_letters(0).name() : "";
  }
  absl::Status Redrive(const std::string& name) {
    v1::RedriveDeadLetterRequest request;
    request.set_name(name);
    return world_.Call(&DeadLetterService::RedriveDeadLetter, request).status();
  }
};

TEST_F(DeadEventTest, RedrivenItWaitsUnderItsPolicyAgain) {
  for (const std::string id : {"", "mine"}) {
    const v1::Event event = Create(id);
    const absl::Status redriven = Redrive(Fail(event));
    ASSERT_TRUE(redriven.ok()) << redriven;
    ASSERT_EQ(world_.Events().size(), 1u);
    EXPECT_EQ(world_.Events()[0].first.lane, kLaneLimited);
    EXPECT_EQ(world_.Events()[0].second.payload(), "payload");
    ASSERT_EQ(Waiting().size(), 1u);
    EXPECT_LE(Waiting()[0].first.due_time, world_.Now());
    const v1::Event got = Get(event.name());
    EXPECT_EQ(got.state(), v1::PENDING);
    EXPECT_EQ(got.redrive_count(), 1);
    EXPECT_EQ(got.payload(), "payload");
    EXPECT_EQ(got.policy(), kPolicy);
    ASSERT_TRUE(Cancel(event.name()).ok());
  }
}

TEST_F(DeadEventTest, WithoutItsPolicyItIsNotRedriven) {
  const std::string letter = Fail(Create());
  v1::DeletePolicyRequest request;
  request.set_name(kPolicy);
  ASSERT_TRUE(world_.Call(&PolicyApi::DeletePolicy, request).ok());
  EXPECT_EQ(ErrorReason(Redrive(letter)), "POLICY_NOT_FOUND");
  EXPECT_TRUE(Waiting().empty());
}

TEST_F(DeadEventTest, RedriveNeedsEachPolicyOfItsLimits) {
  const auto event = world_.Call(&EventApi::CreateEvent, LimitedBy({"gate", "rate"}));
  ASSERT_TRUE(event.ok()) << event.status();
  const std::string letter = Fail(*event);
  const storage::v1::PolicyRecord rate = Record("rate");
  v1::DeletePolicyRequest request;
  request.set_name("tenants/default/policies/rate");
  ASSERT_TRUE(world_.Call(&PolicyApi::DeletePolicy, request).ok());
  const absl::Status missing = Redrive(letter);
  EXPECT_EQ(ErrorReason(missing), "POLICY_NOT_FOUND");
  EXPECT_EQ(ErrorMetadataValue(missing, "resource"), request.name());
  EXPECT_EQ(ErrorMetadataValue(missing, "field"), "event.limits[1].policy");
  Put(rate);
  ASSERT_TRUE(Redrive(letter).ok());
  ASSERT_EQ(Waiting().size(), 1u);
  EXPECT_EQ(Waiting()[0].second.throttle().more_size(), 1);
  EXPECT_EQ(Get(event->name()).limits_size(), 2);
}

TEST_F(DeadEventTest, RedrivenItWaitsWhereThePolicyIsNow) {
  const std::string former = PutFormer();
  const auto event = world_.Call(&EventApi::CreateEvent, LimitedBy({former}));
  ASSERT_TRUE(event.ok()) << event.status();
  const WaitingKey before = Waiting().at(0).first;
  const std::string letter = Fail(*event);
  storage::v1::PolicyRecord record = Record(former);
  record.set_by_tenant(true);  // deleted and created again
  Put(record);
  ASSERT_TRUE(Redrive(letter).ok());
  ASSERT_EQ(Waiting().size(), 1u);
  const auto [key, row] = Waiting()[0];
  EXPECT_TRUE(row.throttle().by_tenant());
  EXPECT_EQ(key.policy, before.policy);
  EXPECT_NE(key.policy_shard, before.policy_shard);
  EXPECT_EQ(key.policy_shard, WaitingPlaceOf(record, world_.layout.policy_shards).policy_shard);
  EXPECT_EQ(Get(event->name()).state(), v1::PENDING);
}

}  // namespace event_policy_test
}  // namespace escapement::master
