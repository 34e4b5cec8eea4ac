// Operations on dead letters: complete, once each, at the rate asked, by any number of masters.

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/kv/forwarding_kv_store.h"
#include "common/status/errors.h"
#include "common/storage/event_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/master/base/limits.h"
#include "services/master/testing/dead_letters/dead_letter_world.h"

namespace escapement::master {
namespace operation_test {

using kv::ColumnFamily;
using ::testing::HasSubstr;

// A store that counts the scans of dead letters.
class ScanCounter final : public kv::ForwardingKvStore {
 public:
  using kv::ForwardingKvStore::ForwardingKvStore;
  void Scan(kv::ScanRequest request, Callback<kv::ScanResult> done) override {
    if (request.cf == ColumnFamily::kDeadLetters) ++scans;
    inner_.Scan(std::move(request), std::move(done));
  }
  int scans = 0;
};

class OperationTest : public ::testing::Test {
 protected:
  MasterWorld& store() { return world_.fixture; }

  // The due times of all rows of `events`, ascending. Each event has one row.
  std::vector<absl::Time> DueTimes() {
    std::vector<absl::Time> times;
    std::set<Uid> seen;
    for (const auto& [key, row] : store().Events()) {
      EXPECT_TRUE(seen.insert(key.uid).second);
      EXPECT_EQ(row.redrives(), 1u);
      times.push_back(key.due_time);
    }
    std::sort(times.begin(), times.end());
    return times;
  }
  std::unique_ptr<MasterService> AnotherMaster() { return AnotherMaster(*store().store); }
  std::unique_ptr<MasterService> AnotherMaster(kv::KvStore& kv) {
    MasterOptions options;
    options.instance = "another";
    auto master = std::make_unique<MasterService>(options, kv, store().runtime);
    master->Start();
    store().runtime.AdvanceBy(absl::Seconds(1));
    return master;
  }
  absl::StatusOr<v1::Operation> Cancel(const std::string& name, bool validate_only = false) {
    v1::CancelOperationRequest request;
    request.set_name(name);
    request.set_validate_only(validate_only);
    return store().Call(&OperationService::CancelOperation, request);
  }
  std::vector<std::string> List(const std::string& filter, int page_size = 100) {
    v1::ListOperationsRequest request;
    request.set_parent("tenants/default");
    request.set_filter(filter);
    request.set_page_size(page_size);
    std::vector<std::string> names;
    do {
      const auto page = store().Call(&OperationService::ListOperations, request);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok()) break;
      for (const v1::Operation& operation : page->operations()) names.push_back(operation.name());
      request.set_page_token(page->next_page_token());
    } while (!request.page_token().empty());
    return names;
  }

  DeadLetterWorld world_;
};

TEST_F(OperationTest, AllDeadLettersAreRedrivenOnceEach) {
  world_.DieMany(1234);
  const auto begun = world_.RedriveAll(0);
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_EQ(begun->state(), v1::Operation::RUNNING);
  EXPECT_EQ(begun->total_count(), 1234);
  const v1::Operation ended = world_.Await(begun);
  EXPECT_EQ(ended.state(), v1::Operation::SUCCEEDED);
  EXPECT_EQ(ended.done_count(), 1234);
  EXPECT_EQ(ended.total_count(), 1234);
  EXPECT_EQ(ended.failed_count(), 0);
  EXPECT_TRUE(ended.has_end_time());
  EXPECT_EQ(world_.Letters(), 0u);
  EXPECT_EQ(DueTimes().size(), 1234u);
}

// A redrive stores the deliveries of old events again, so one step takes few that are large.
TEST_F(OperationTest, EventsWithLargeDeliveriesAreRedriven) {
  std::vector<DeadLetterWorld::Death> deaths;
  for (uint64_t i = 0; i < 250; ++i) {
    storage::v1::DeliveryRecord delivery;
    delivery.mutable_target()->mutable_http()->set_uri(absl::StrCat("http://h/", i));
    delivery.set_content_type(std::string(200 << 10, 'c'));
    const InternedDelivery old = Intern(delivery, world_.bench.start - absl::Hours(200 * 24));
    store().Put(ColumnFamily::kDefinitions, InternKey(old.hash), old.definition);
    deaths.push_back(world_.OneOff("", i));
    deaths.back().event.set_definition_hash(std::string(old.hash.bytes()));
  }
  world_.Die(deaths);
  const v1::Operation ended = world_.Await(world_.RedriveAll(0));
  EXPECT_EQ(ended.state(), v1::Operation::SUCCEEDED);
  EXPECT_EQ(ended.done_count(), 250);
  for (const auto& [key, row] : store().Events()) {
    const Uid hash = Uid::FromBytes(row.definition_hash());
    EXPECT_EQ(DeliveryPeriodOf(hash), DeliveryPeriodOf(key.due_time));
    EXPECT_TRUE(store().Get(ColumnFamily::kDefinitions, InternKey(hash)).has_value());
  }
}

TEST_F(OperationTest, RateIsExact) {
  for (const double rate : {7.0, 250.0, 5000.0}) {
    SCOPED_TRACE(rate);
    const auto old = store().Events();
    for (const auto& [key, row] : old) store().Delete(ColumnFamily::kEvents, EncodeEventKey(key));
    const uint64_t count = rate < 10 ? 50 : 1500;
    world_.DieMany(count);
    const v1::Operation ended = world_.Await(world_.RedriveAll(rate));
    EXPECT_EQ(ended.done_count(), static_cast<int64_t>(count));
    const std::vector<absl::Time> times = DueTimes();
    ASSERT_EQ(times.size(), count);
    // In any time t at most rate × t events become due, and the whole takes no longer than it must.
    for (size_t i = 0; i + 1 < times.size(); ++i) {
      const absl::Duration apart = times[i + 1] - times[i];
      ASSERT_GE(apart, absl::Seconds(1 / rate) - absl::Microseconds(2)) << i;
      ASSERT_LE(apart, absl::Seconds(1 / rate) + absl::Milliseconds(50)) << i;
    }
    EXPECT_LE(times.back() - times.front(),
              absl::Seconds(static_cast<double>(count) / rate) * 1.02 + absl::Milliseconds(50));
  }
}

TEST_F(OperationTest, EventsThatFailAgainAreLeftAlone) {
  world_.DieMany(300);
  const auto begun = world_.RedriveAll(1000);
  ASSERT_TRUE(begun.ok());
  // Each event dies again at once, as soon as it is due.
  std::map<std::string, int> deaths;
  for (int i = 0; i < 100; ++i) {
    store().runtime.AdvanceBy(absl::Milliseconds(10));
    std::vector<DeadLetterWorld::Death> again;
    for (const auto& [key, row] : store().Events()) {
      if (key.due_time > store().Now()) continue;
      DeadLetterWorld::Death death = world_.OneOff("");
      death.uid = key.uid;
      death.event = row;
      death.event_id = row.event_id();
      death.time = std::max(key.due_time, FromMicros(ToMicros(store().Now())));
      ++deaths[death.event_id];
      again.push_back(death);
      store().Delete(ColumnFamily::kEvents, EncodeEventKey(key));
    }
    if (!again.empty()) world_.Die(again);
  }
  const v1::Operation ended = world_.Await(begun);
  EXPECT_EQ(ended.state(), v1::Operation::SUCCEEDED);
  EXPECT_EQ(ended.done_count(), 300);
  EXPECT_EQ(world_.Letters(), 300u);
  EXPECT_EQ(deaths.size(), 300u);
  for (const auto& [event, times] : deaths) EXPECT_EQ(times, 1) << event;
}

TEST_F(OperationTest, DeadLettersOfTheMomentBeforeAreMeant) {
  // Written with the store's present time, which a client knows a moment later.
  DeadLetterWorld::Death death = world_.OneOff("a");
  death.time = store().Now();
  world_.Die({death});
  EXPECT_EQ(world_.Await(world_.RedriveAll(0)).done_count(), 1);
}

TEST_F(OperationTest, SeveralMastersDoEachPieceOnce) {
  world_.DieMany(3000);
  auto second = AnotherMaster();
  auto third = AnotherMaster();
  const v1::Operation ended = world_.Await(world_.RedriveAll(0));
  EXPECT_EQ(ended.state(), v1::Operation::SUCCEEDED);
  EXPECT_EQ(ended.done_count(), 3000);
  EXPECT_EQ(DueTimes().size(), 3000u);
}

TEST_F(OperationTest, AnotherMasterContinuesWhenOneDies) {
  world_.DieMany(2000);
  auto second = AnotherMaster();
  const auto begun = world_.RedriveAll(500);
  ASSERT_TRUE(begun.ok());
  store().runtime.AdvanceBy(absl::Seconds(1));
  ASSERT_GT(world_.Letters(), 1000u);
  ASSERT_LT(world_.Letters(), 2000u);
  // One dies; the one that answers remains, and if that was the worker, too.
  second.reset();
  second = AnotherMaster();
  store().master = std::move(second);
  store().runtime.AdvanceBy(absl::Seconds(1));
  const v1::Operation ended = world_.Await(begun);
  EXPECT_EQ(ended.state(), v1::Operation::SUCCEEDED);
  EXPECT_EQ(ended.done_count(), 2000);
  EXPECT_EQ(DueTimes().size(), 2000u);
  EXPECT_EQ(world_.Letters(), 0u);
}

TEST_F(OperationTest, CancelledOperationStops) {
  world_.DieMany(1000);
  const auto begun = world_.RedriveAll(100);
  ASSERT_TRUE(begun.ok());
  store().runtime.AdvanceBy(absl::Seconds(2));
  ASSERT_TRUE(Cancel(begun->name(), /*validate_only=*/true).ok());
  EXPECT_EQ(world_.Get(begun->name()).state(), v1::Operation::RUNNING);
  const auto cancelled = Cancel(begun->name());
  ASSERT_TRUE(cancelled.ok()) << cancelled.status();
  EXPECT_EQ(cancelled->state(), v1::Operation::CANCELLED);
  const size_t left = world_.Letters();
  EXPECT_NEAR(static_cast<double>(left), 800, 50);
  store().runtime.AdvanceBy(absl::Seconds(10));
  EXPECT_EQ(world_.Letters(), left);
  const v1::Operation shown = world_.Get(begun->name());
  EXPECT_EQ(shown.state(), v1::Operation::CANCELLED);
  EXPECT_EQ(shown.done_count() + static_cast<int64_t>(left), 1000);
  EXPECT_TRUE(Cancel(begun->name()).ok());
  const v1::Operation other = world_.Await(world_.RedriveAll(0));
  EXPECT_EQ(other.done_count(), static_cast<int64_t>(left));
  EXPECT_EQ(ErrorReason(Cancel(other.name()).status()), "OPERATION_ENDED");
  EXPECT_EQ(Cancel("tenants/default/operations/none").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(OperationTest, CancelDuringAStepHolds) {
  int cancelled = 0;
  for (int i = 0; i < 60; ++i) {
    SCOPED_TRACE(i);
    const auto rows = store().Events();
    for (const auto& [key, row] : rows) store().Delete(ColumnFamily::kEvents, EncodeEventKey(key));
    const auto letters = store().Rows(ColumnFamily::kDeadLetters);
    for (const auto& [key, letter] : letters) store().Delete(ColumnFamily::kDeadLetters, key);
    world_.DieMany(1000);
    const auto begun = world_.RedriveAll(0);
    ASSERT_TRUE(begun.ok()) << begun.status();
    int callbacks = i;
    store().runtime.RunUntil([&] { return callbacks-- == 0; }, absl::Seconds(1));
    const auto answer = Cancel(begun->name());
    const v1::Operation ended = world_.Await(begun);
    if (answer.ok()) {
      ++cancelled;
      EXPECT_EQ(ended.state(), v1::Operation::CANCELLED);
      EXPECT_EQ(ended.done_count(), answer->done_count());
    }
    EXPECT_EQ(ended.done_count() + static_cast<int64_t>(world_.Letters()), 1000);
    EXPECT_EQ(static_cast<int64_t>(DueTimes().size()), ended.done_count());
  }
  EXPECT_GT(cancelled, 0);
}

TEST_F(OperationTest, RedriveOfARunTakesItsEventsOnly) {
  const std::string one = RunWorld::Id(world_.bench.start);
  const std::string two = RunWorld::Id(world_.bench.start + absl::Hours(1));
  world_.PutRun(one, 0, 400);
  std::vector<DeadLetterWorld::Death> deaths = {world_.OneOff("a")};
  for (uint64_t i = 0; i < 400; ++i) {
    deaths.push_back(world_.OfRun(one, i, 400));
    if (i % 2 == 0) deaths.push_back(world_.OfRun(two, i, 400));
  }
  world_.Die(deaths);
  v1::RedriveRunRequest request;
  request.set_name(absl::StrCat(kParent, "/runs/", one));
  const v1::Operation ended = world_.Await(store().Call(&DeadLetterService::RedriveRun, request));
  EXPECT_EQ(ended.state(), v1::Operation::SUCCEEDED);
  EXPECT_EQ(ended.run(), request.name());
  EXPECT_EQ(ended.done_count(), 400);
  EXPECT_EQ(world_.Letters(), 201u);
  EXPECT_EQ(world_.bench.Get(one)->failed_count(), 0);
  request.set_name("tenants/default/schedules/none/runs/" + one);
  EXPECT_EQ(store().Call(&DeadLetterService::RedriveRun, request).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(OperationTest, DeadLettersThatCannotBeRedrivenAreCountedAndStay) {
  world_.Die({world_.OfRun(RunWorld::Id(world_.bench.start), 0, 1), world_.OneOff("a")});
  v1::DeleteScheduleRequest remove;
  remove.set_name(kParent);
  ASSERT_TRUE(store().Call(&ScheduleApi::DeleteSchedule, remove).ok());
  store().Put(ColumnFamily::kDeadLetters,
              EncodeDeadLetterKey({"default", world_.bench.start, "broken"}), "\xff\xff");
  const v1::Operation ended = world_.Await(world_.RedriveAll(0));
  EXPECT_EQ(ended.state(), v1::Operation::SUCCEEDED);
  EXPECT_EQ(ended.done_count(), 1);
  EXPECT_EQ(ended.failed_count(), 2);
  EXPECT_THAT(ended.last_failure(), HasSubstr("has been deleted"));
  EXPECT_EQ(world_.Letters(), 2u);
}

TEST_F(OperationTest, PurgeDeletesWhatMatchesAndKeepsOutcomes) {
  world_.DieMany(700);
  world_.Die({world_.OneOff("keep")});
  v1::PurgeDeadLettersRequest request;
  request.set_parent("tenants/default");
  request.set_filter("NOT event_id = keep");
  request.set_force(true);
  const auto begun = store().Call(&DeadLetterService::PurgeDeadLetters, request);
  ASSERT_TRUE(begun.ok()) << begun.status();
  const v1::Operation ended = world_.Await(begun->operation());
  EXPECT_EQ(ended.kind(), v1::Operation::PURGE);
  EXPECT_EQ(ended.done_count(), 700);
  EXPECT_EQ(world_.Letters(), 1u);
  EXPECT_TRUE(store().Events().empty());
  EXPECT_EQ(store().Rows(ColumnFamily::kDone).size(), 701u);
}

TEST_F(OperationTest, FilterOfSeveralLinesIsShownInOne) {
  const auto begun = world_.RedriveAll(0, "schedule = none\n\tAND policy = 'p'");
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_EQ(begun->filter(), "schedule = none  AND policy = 'p'");
  EXPECT_EQ(world_.Await(begun).filter(), begun->filter());
  EXPECT_EQ(world_.Await(world_.RedriveAll(0, "\t")).filter(), " ");
  EXPECT_EQ(ErrorReason(world_.RedriveAll(0, "policy = 'p\tq'").status()), "INVALID_FIELD");
}

TEST_F(OperationTest, OperationsAreListedBoundedAndCollected) {
  world_.DieMany(50);
  std::vector<std::string> names;
  for (size_t i = 0; i < kOperationsRunningMax; ++i) {
    const auto begun = world_.RedriveAll(0.001, "schedule = none");
    ASSERT_TRUE(begun.ok()) << begun.status();
    names.push_back(begun->name());
    // Nothing matches, so it ends at once; the rate keeps none of them.
    world_.Await(begun);
  }
  for (size_t i = 0; i < kOperationsRunningMax; ++i) {
    const auto begun = world_.RedriveAll(0.001);
    ASSERT_TRUE(begun.ok()) << begun.status();
    names.push_back(begun->name());
    store().runtime.AdvanceBy(absl::Milliseconds(100));
  }
  EXPECT_EQ(ErrorReason(world_.RedriveAll(0).status()), "TOO_MANY_OPERATIONS");
  std::reverse(names.begin(), names.end());
  EXPECT_EQ(List(""), names);
  EXPECT_EQ(List("", 7), names);
  EXPECT_EQ(List("state = RUNNING AND kind = REDRIVE").size(), kOperationsRunningMax);
  EXPECT_EQ(List("state = SUCCEEDED").size(), kOperationsRunningMax);
  EXPECT_TRUE(List("kind = PURGE").empty());
  for (size_t i = 0; i < kOperationsRunningMax; ++i) ASSERT_TRUE(Cancel(names[i]).ok());
  store().runtime.RunUntil([] { return false; }, absl::Hours(24 * 7 - 1));
  EXPECT_EQ(List("").size(), 2 * kOperationsRunningMax);
  store().runtime.RunUntil([] { return false; }, absl::Hours(3));
  EXPECT_TRUE(List("").empty());
}

TEST_F(OperationTest, RepeatedRequestBeginsOneOperation) {
  world_.DieMany(10);
  v1::RedriveDeadLettersRequest request;
  request.set_parent("tenants/default");
  request.set_request_id("r");
  const auto first = store().Call(&DeadLetterService::RedriveDeadLetters, request);
  ASSERT_TRUE(first.ok()) << first.status();
  world_.Await(first);
  const auto again = store().Call(&DeadLetterService::RedriveDeadLetters, request);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->DebugString(), first->DebugString());
  EXPECT_EQ(store().Rows(ColumnFamily::kOperations).size(), 1u);
  request.set_max_per_second(1);
  EXPECT_EQ(ErrorReason(store().Call(&DeadLetterService::RedriveDeadLetters, request).status()),
            "REQUEST_ID_REUSED");
  request.set_request_id("");
  request.set_validate_only(true);
  ASSERT_TRUE(store().Call(&DeadLetterService::RedriveDeadLetters, request).ok());
  EXPECT_EQ(store().Rows(ColumnFamily::kOperations).size(), 1u);
}

TEST_F(OperationTest, RepeatedRequestDoesNotCountAgain) {
  ScanCounter counter(*store().store);
  const auto master = AnotherMaster(counter);
  v1::PurgeDeadLettersRequest request;
  request.set_parent("tenants/default");
  request.set_force(true);
  request.set_request_id("r");
  const auto purge = [&] {
    std::optional<absl::StatusOr<v1::PurgeDeadLettersResponse>> answer;
    master->dead_letters().PurgeDeadLetters(
        request, [&](absl::StatusOr<v1::PurgeDeadLettersResponse> r) { answer = std::move(r); });
    EXPECT_TRUE(store().runtime.RunUntil([&] { return answer.has_value(); }, absl::Minutes(1)));
    return answer->value().operation();
  };
  const int before = counter.scans;
  const v1::Operation first = purge();
  EXPECT_GT(counter.scans, before);
  world_.Await(first);
  const int ended = counter.scans;
  EXPECT_EQ(purge().DebugString(), first.DebugString());
  EXPECT_EQ(counter.scans, ended);
}

TEST_F(OperationTest, RepeatedRequestIsAnsweredAfterItsScheduleIsDeleted) {
  world_.Die({world_.OfRun(RunWorld::Id(world_.bench.start), 0, 1)});
  v1::RedriveRunRequest request;
  request.set_name(absl::StrCat(kParent, "/runs/", RunWorld::Id(world_.bench.start)));
  request.set_request_id("r");
  const auto first = store().Call(&DeadLetterService::RedriveRun, request);
  ASSERT_TRUE(first.ok()) << first.status();
  world_.Await(first);
  v1::DeleteScheduleRequest remove;
  remove.set_name(kParent);
  ASSERT_TRUE(store().Call(&ScheduleApi::DeleteSchedule, remove).ok());
  const auto again = store().Call(&DeadLetterService::RedriveRun, request);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->DebugString(), first->DebugString());
  request.set_request_id("");
  EXPECT_EQ(store().Call(&DeadLetterService::RedriveRun, request).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace operation_test
}  // namespace escapement::master
