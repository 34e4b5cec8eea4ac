// BatchCancelEvents: many events end as CancelEvent would end them, once each, by any master.

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "common/kv/forwarding_kv_store.h"
#include "common/kv/group_parts.h"
#include "common/status/errors.h"
#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "common/storage/name_tables.h"
#include "common/storage/waiting_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/master/testing/master_world.h"

namespace escapement::master {
namespace event_cancel_test {

using kv::ColumnFamily;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class EventCancelTest : public ::testing::Test {
 protected:
  std::string Make(const std::string& id, absl::Duration due_in = absl::Hours(1),
                   const std::string& policy = "") {
    v1::CreateEventRequest request = ValidEvent(world_.Now() + due_in, id);
    request.mutable_event()->set_policy(policy);
    const auto event = world_.Call(&EventApi::CreateEvent, request);
    EXPECT_TRUE(event.ok()) << event.status();
    return event.value_or(v1::Event()).name();
  }
  // `count` events without ids of their own.
  void MakeMany(int count, absl::Duration due_in = absl::Hours(1)) {
    ASSERT_TRUE(world_.Ingest(ValidBatch(world_.Now() + due_in, count)).ok());
  }
  static v1::BatchCancelEventsRequest ByNames(const std::vector<std::string>& names) {
    v1::BatchCancelEventsRequest request;
    request.set_parent("tenants/default");
    request.mutable_names()->Assign(names.begin(), names.end());
    return request;
  }
  static v1::BatchCancelEventsRequest ByFilter(const std::string& filter) {
    v1::BatchCancelEventsRequest request;
    request.set_parent("tenants/default");
    request.set_filter(filter);
    return request;
  }
  absl::StatusOr<v1::Operation> Begin(const v1::BatchCancelEventsRequest& request) {
    return world_.Call(&EventCancelService::BatchCancelEvents, request);
  }
  v1::Operation Get(const std::string& name) {
    v1::GetOperationRequest request;
    request.set_name(name);
    return world_.Call(&OperationService::GetOperation, request).value_or(v1::Operation());
  }
  // Waits until the operation has ended.
  v1::Operation Await(const absl::StatusOr<v1::Operation>& begun) {
    EXPECT_TRUE(begun.ok()) << begun.status();
    if (!begun.ok()) return {};
    v1::Operation operation = *begun;
    for (int i = 0; i < 1000 && operation.state() == v1::Operation::RUNNING; ++i) {
      world_.runtime.AdvanceBy(absl::Milliseconds(100));
      operation = Get(begun->name());
    }
    EXPECT_EQ(operation.state(), v1::Operation::SUCCEEDED) << operation.DebugString();
    return operation;
  }
  v1::Event GetEvent(const std::string& name) {
    v1::GetEventRequest request;
    request.set_name(name);
    return world_.Call(&EventApi::GetEvent, request).value_or(v1::Event());
  }
  EventKey RowOf(const std::string& id) {
    for (const auto& [key, row] : world_.Events()) {
      if (row.event_id() == id || key.uid == UidOfClientChosenId("default", id)) return key;
    }
    ADD_FAILURE() << "no row of " << id;
    return {};
  }
  size_t Cancelled() {
    size_t cancelled = 0;
    for (const auto& [key, value] : world_.Rows(ColumnFamily::kDone)) {
      storage::v1::DoneRecord done;
      EXPECT_TRUE(done.ParseFromString(value));
      cancelled += done.outcome() == storage::v1::OUTCOME_KIND_CANCELLED;
    }
    return cancelled;
  }
  std::unique_ptr<MasterService> AnotherMaster(kv::KvStore& store) {
    MasterOptions options;
    options.instance = "another";
    auto master = std::make_unique<MasterService>(options, store, world_.runtime);
    master->Start();
    world_.runtime.AdvanceBy(absl::Seconds(1));
    return master;
  }

  MasterWorld world_;
  uint64_t claims_ = 0;
};

TEST_F(EventCancelTest, NamedEventsThatWaitAreCancelledAndOthersSkipped) {
  std::vector<std::string> names;
  for (int i = 0; i < 20; ++i) names.push_back(Make(absl::StrCat("e", i), absl::Seconds(30)));
  names.push_back(Make(""));
  Make("other");
  std::set<uint16_t> shards;
  for (const char* id : {"e3", "e5", "e7", "e9"}) {
    world_.Commit({ClaimOf(RowOf(id), ++claims_)});
    shards.insert(RowOf(id).shard);
  }
  ASSERT_GT(shards.size(), 1u);
  v1::CancelEventRequest cancel;
  cancel.set_name(names[4]);
  ASSERT_TRUE(world_.Call(&EventApi::CancelEvent, cancel).ok());
  names.push_back("tenants/default/events/none");
  names.push_back(names[0]);
  const auto begun = Begin(ByNames(names));
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_EQ(begun->kind(), v1::Operation::CANCEL_EVENTS);
  EXPECT_EQ(begun->total_count(), 22);
  const v1::Operation ended = Await(begun);
  EXPECT_EQ(ended.done_count(), 16);
  EXPECT_EQ(ended.failed_count(), 6);
  EXPECT_EQ(ended.total_count(), 22);
  EXPECT_NE(ended.last_failure(), "");
  EXPECT_EQ(GetEvent(names[0]).outcome(), v1::CANCELLED);
  EXPECT_EQ(GetEvent(names[20]).outcome(), v1::CANCELLED);
  for (const int i : {3, 5, 7, 9}) EXPECT_EQ(GetEvent(names[i]).state(), v1::RUNNING);
  EXPECT_EQ(GetEvent("tenants/default/events/other").state(), v1::PENDING);
  EXPECT_EQ(world_.Events().size(), 5u);
}

TEST_F(EventCancelTest, FilterCancelsTheEventsThatMatch) {
  MakeMany(2500);
  MakeMany(30, absl::Hours(48));
  Make("mine-1", absl::Hours(48));
  Make("mine-2", absl::Seconds(1));
  world_.Commit({ClaimOf(RowOf("mine-2"), ++claims_)});
  const std::string limit =
      absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", world_.Now() + absl::Hours(24), absl::UTCTimeZone());
  const auto begun =
      Begin(ByFilter(absl::StrCat("due_time < \"", limit, "\" OR name = \"mine-*\"")));
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_EQ(begun->total_count(), 2502);
  const v1::Operation ended = Await(begun);
  EXPECT_EQ(ended.done_count(), 2501);
  EXPECT_EQ(ended.failed_count(), 1);
  EXPECT_THAT(ended.last_failure(), HasSubstr("mine-2"));
  EXPECT_EQ(world_.Events().size(), 31u);
  EXPECT_EQ(Cancelled(), 2501u);
}

TEST_F(EventCancelTest, EventsUnderAPolicyAreCancelledUnlessTheyHoldAToken) {
  v1::CreatePolicyRequest policy;
  policy.set_parent("tenants/default");
  policy.set_policy_id("gate");
  policy.mutable_policy()->set_max_concurrent(2);
  ASSERT_TRUE(world_.Call(&PolicyApi::CreatePolicy, policy).ok());
  for (int i = 0; i < 10; ++i) Make(absl::StrCat("e", i), absl::Seconds(30), "gate");
  // As the token manager: one is granted a token, so its row in `waiting` goes.
  world_.Delete(ColumnFamily::kWaiting, world_.Rows(ColumnFamily::kWaiting).begin()->first);
  const v1::Operation ended = Await(Begin(ByFilter("state = PENDING OR state = RUNNING")));
  EXPECT_EQ(ended.done_count(), 9);
  EXPECT_EQ(ended.failed_count(), 1);
  EXPECT_EQ(world_.Events().size(), 1u);
  EXPECT_TRUE(world_.Rows(ColumnFamily::kWaiting).empty());
}

TEST_F(EventCancelTest, ClaimThatComesFirstKeepsItsEvent) {
  int claimed_count = 0;
  int cancelled_count = 0;
  for (int steps = 1; steps < 80; ++steps) {
    SCOPED_TRACE(steps);
    const std::string id = absl::StrCat("e", steps);
    const std::string name = Make(id, absl::ZeroDuration());
    const auto begun = Begin(ByNames({name}));
    ASSERT_TRUE(begun.ok()) << begun.status();
    for (int i = 0; i < steps && world_.runtime.world().Step(); ++i) {
    }
    bool claimed = false;
    if (!world_.Events().empty()) {
      std::optional<bool> applied;
      world_.TryCommit({ClaimOf(RowOf(id), ++claims_)}, [&](bool all) { applied = all; });
      ASSERT_TRUE(world_.runtime.RunUntil([&] { return applied.has_value(); }, absl::Minutes(1)));
      claimed = *applied;
    }
    const v1::Operation ended = Await(begun);
    EXPECT_EQ(ended.done_count(), claimed ? 0 : 1);
    EXPECT_EQ(ended.failed_count(), claimed ? 1 : 0);
    EXPECT_EQ(world_.Events().size(), claimed ? 1u : 0u);
    ++(claimed ? claimed_count : cancelled_count);
    if (claimed) world_.Delete(ColumnFamily::kEvents, EncodeEventKey(RowOf(id)));
  }
  EXPECT_GT(claimed_count, 0);
  EXPECT_GT(cancelled_count, 0);
}

TEST_F(EventCancelTest, AnotherMasterContinuesWhenOneDies) {
  MakeMany(4000);
  const auto begun = Begin(ByFilter("state = PENDING"));
  ASSERT_TRUE(begun.ok()) << begun.status();
  // The master dies when a part is done.
  ASSERT_TRUE(world_.runtime.RunUntil([&] { return Cancelled() > 0; }, absl::Minutes(1)));
  const size_t before = Cancelled();
  ASSERT_LT(before, 4000u);
  world_.Restart();
  const v1::Operation ended = Await(begun);
  EXPECT_EQ(ended.done_count(), 4000);
  EXPECT_EQ(ended.total_count(), 4000);
  EXPECT_EQ(ended.failed_count(), 0);
  EXPECT_EQ(Cancelled(), 4000u);
  EXPECT_TRUE(world_.Events().empty());
}

TEST_F(EventCancelTest, SeveralMastersCancelEachEventOnce) {
  MakeMany(3000);
  auto second = AnotherMaster(*world_.store);
  auto third = AnotherMaster(*world_.store);
  const v1::Operation ended = Await(Begin(ByFilter("state = PENDING")));
  EXPECT_EQ(ended.done_count(), 3000);
  EXPECT_EQ(ended.failed_count(), 0);
}

TEST_F(EventCancelTest, CancelledOperationLeavesTheRest) {
  MakeMany(4000);
  const auto begun = Begin(ByFilter("state = PENDING"));
  ASSERT_TRUE(begun.ok()) << begun.status();
  ASSERT_TRUE(world_.runtime.RunUntil([&] { return Cancelled() > 0; }, absl::Minutes(1)));
  v1::CancelOperationRequest stop;
  stop.set_name(begun->name());
  const auto stopped = world_.Call(&OperationService::CancelOperation, stop);
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  EXPECT_EQ(stopped->state(), v1::Operation::CANCELLED);
  world_.runtime.AdvanceBy(absl::Seconds(5));
  EXPECT_EQ(Cancelled(), static_cast<size_t>(Get(begun->name()).done_count()));
  EXPECT_EQ(Cancelled() + world_.Events().size(), 4000u);
  EXPECT_GT(world_.Events().size(), 0u);
}

// A store that holds reads of events' names until they are let go.
class HoldingStore final : public kv::ForwardingKvStore {
 public:
  using kv::ForwardingKvStore::ForwardingKvStore;
  void MultiGet(std::vector<kv::Key> keys, Callback<kv::GetResult> done) override {
    if (keys[0].cf != ColumnFamily::kEventNames || let_go)
      return inner_.MultiGet(std::move(keys), std::move(done));
    held.push_back([this, keys = std::move(keys), done = std::move(done)]() mutable {
      inner_.MultiGet(std::move(keys), std::move(done));
    });
  }
  void LetGo() {
    let_go = true;
    for (auto& read : held) read();
  }
  std::vector<absl::AnyInvocable<void()>> held;
  bool let_go = false;
};

// It may no longer match the filter.
TEST_F(EventCancelTest, EventThatIsReplacedAfterItWasListedIsSkipped) {
  const std::string name = Make("e");
  HoldingStore store(*world_.store);
  world_.master = AnotherMaster(store);
  const auto begun = Begin(ByFilter("name = e"));
  ASSERT_TRUE(begun.ok()) << begun.status();
  ASSERT_TRUE(world_.runtime.RunUntil([&] { return !store.held.empty(); }, absl::Minutes(1)));
  // As UpdateEvent: another row of the same shard, and the name says where it is.
  const EventKey former = RowOf("e");
  EventKey next = former;
  next.uid = Uid::FromHalves(7, 7);
  const std::string row = world_.Rows(ColumnFamily::kEvents).begin()->second;
  storage::v1::EventNameRecord record;
  record.set_event_key(EncodeEventKey(next));
  record.set_launch_time_micros(absl::ToUnixMicros(next.due_time));
  kv::Group group;
  group.mutations = {
      kv::Delete(ColumnFamily::kEvents, EncodeEventKey(former)),
      kv::Put(ColumnFamily::kEvents, EncodeEventKey(next), row),
      kv::Put(ColumnFamily::kEventNames, EventNameKey("default", "e"), record.SerializeAsString())};
  world_.Commit({group});
  store.LetGo();
  const v1::Operation ended = Await(begun);
  EXPECT_EQ(ended.done_count(), 0);
  EXPECT_EQ(ended.failed_count(), 1);
  EXPECT_EQ(GetEvent(name).state(), v1::PENDING);
}

TEST_F(EventCancelTest, ClaimsOfAShardAreReadOnceForManyEvents) {
  // A store that counts the reads of claims.
  class ScanCounter final : public kv::ForwardingKvStore {
   public:
    using kv::ForwardingKvStore::ForwardingKvStore;
    void Scan(kv::ScanRequest request, Callback<kv::ScanResult> done) override {
      scans += request.cf == ColumnFamily::kInflight;
      inner_.Scan(std::move(request), std::move(done));
    }
    int scans = 0;
  };
  std::vector<std::string> names;
  for (int i = 0; i < 200; ++i) names.push_back(Make(absl::StrCat("e", i)));
  ScanCounter counter(*world_.store);
  world_.master = AnotherMaster(counter);
  EXPECT_EQ(Await(Begin(ByNames(names))).done_count(), 200);
  EXPECT_EQ(counter.scans, world_.layout.queue_shards);
}

TEST_F(EventCancelTest, RepeatedRequestBeginsOneOperation) {
  MakeMany(10);
  v1::BatchCancelEventsRequest request = ByFilter("state = PENDING");
  request.set_validate_only(true);
  const auto dry = Begin(request);
  ASSERT_TRUE(dry.ok()) << dry.status();
  EXPECT_EQ(dry->total_count(), 10);
  EXPECT_TRUE(world_.Rows(ColumnFamily::kOperations).empty());
  request.set_validate_only(false);
  request.set_request_id("r");
  const auto first = Begin(request);
  EXPECT_EQ(Await(first).done_count(), 10);
  EXPECT_EQ(Begin(request)->DebugString(), first->DebugString());
  EXPECT_EQ(world_.Rows(ColumnFamily::kOperations).size(), 1u);
  request.set_filter("state = RUNNING");
  EXPECT_EQ(ErrorReason(Begin(request).status()), "REQUEST_ID_REUSED");
}

TEST_F(EventCancelTest, BadRequestsAreRefusedByField) {
  const auto fields = [&](const v1::BatchCancelEventsRequest& request) {
    std::vector<std::string> names;
    for (const auto& [field, text] : FieldViolationsOf(Begin(request).status()))
      names.push_back(field);
    return names;
  };
  EXPECT_THAT(fields(ByNames({})), ElementsAre("names"));
  v1::BatchCancelEventsRequest both = ByFilter("state = PENDING");
  both.add_names("tenants/default/events/e");
  EXPECT_THAT(fields(both), ElementsAre("names"));
  EXPECT_THAT(fields(ByNames({"e", "tenants/other/events/e"})),
              ElementsAre("names[0]", "names[1]"));
  EXPECT_THAT(fields(ByNames(std::vector<std::string>(1001, "tenants/default/events/e"))),
              ElementsAre("names"));
  EXPECT_THAT(fields(ByFilter("colour = red")), ElementsAre("filter"));
  EXPECT_THAT(fields(ByFilter("outcome = FAILED")), ElementsAre("filter"));
  EXPECT_THAT(fields(ByFilter(" \t")), ElementsAre("filter"));
}

}  // namespace event_cancel_test
}  // namespace escapement::master
