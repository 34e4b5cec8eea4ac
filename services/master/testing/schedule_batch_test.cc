// Batches of schedules: each request has the answer and the effect of its single call.

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/kv/forwarding_kv_store.h"
#include "common/rpc/status_conversion.h"
#include "common/status/errors.h"
#include "common/storage/event_table.h"
#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "gtest/gtest.h"
#include "services/master/base/limits.h"
#include "services/master/testing/master_world.h"
#include "services/master/testing/schedule_world.h"

namespace escapement::master {
namespace schedule_batch_test {

using kv::ColumnFamily;
using ::testing::ElementsAre;

// A store that counts the calls of masters and refuses reads of too many values.
class CallCounter final : public kv::ForwardingKvStore {
 public:
  using kv::ForwardingKvStore::Commit;
  using kv::ForwardingKvStore::ForwardingKvStore;
  void Commit(std::shared_ptr<const kv::CommitRequest> request,
              Callback<kv::CommitResult> done) override {
    ++commits;
    inner_.Commit(std::move(request), std::move(done));
  }
  void MultiGet(std::vector<kv::Key> keys, Callback<kv::GetResult> done) override {
    ++reads;
    if (keys.size() > keys_max) return done(absl::OutOfRangeError("too many bytes"));
    inner_.MultiGet(std::move(keys), std::move(done));
  }
  int commits = 0;
  int reads = 0;
  size_t keys_max = 20'000;
};

std::string Name(const std::string& id) { return "tenants/default/schedules/" + id; }

v1::UpdateScheduleRequest Renamed(const std::string& id, const std::string& display_name) {
  v1::UpdateScheduleRequest request;
  request.mutable_schedule()->set_name(Name(id));
  request.mutable_schedule()->set_display_name(display_name);
  return request;
}

v1::DeleteScheduleRequest Deletion(const std::string& id) {
  v1::DeleteScheduleRequest request;
  request.set_name(Name(id));
  return request;
}

// The code of each result: 0 for one without an error.
template <typename Response>
std::vector<int> CodesOf(const Response& response) {
  std::vector<int> codes;
  for (const v1::ScheduleResult& result : response.results())
    codes.push_back(result.error().code());
  return codes;
}

class ScheduleBatchTest : public ::testing::Test {
 protected:
  static v1::BatchCreateSchedulesRequest Creations(const std::vector<std::string>& ids) {
    v1::BatchCreateSchedulesRequest batch;
    batch.set_parent("tenants/default");
    for (const std::string& id : ids) *batch.add_requests() = ValidSchedule(id);
    return batch;
  }
  static v1::BatchCreateSchedulesRequest Creations(int count) {
    std::vector<std::string> ids;
    for (int i = 0; i < count; ++i) ids.push_back(absl::StrCat("s", i));
    return Creations(ids);
  }
  v1::BatchCreateSchedulesResponse Create(const v1::BatchCreateSchedulesRequest& batch) {
    return Answered(&ScheduleApi::BatchCreateSchedules, batch);
  }
  template <typename Request, typename Response>
  Response Answered(void (ScheduleApi::*method)(Request, Done<Response>), const Request& request) {
    const auto answer = world_.Call(method, request);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.value_or(Response());
  }
  v1::Schedule Get(const std::string& id) {
    v1::GetScheduleRequest request;
    request.set_name(Name(id));
    return world_.Call(&ScheduleApi::GetSchedule, request).value_or(v1::Schedule());
  }
  // The error of a result must be that of the single call.
  void ExpectSame(const v1::ScheduleResult& result, const absl::Status& single) {
    EXPECT_NE(ErrorReason(single), "");
    EXPECT_EQ(result.error().DebugString(), ToRpcStatus(single).DebugString());
  }
  template <typename Request, typename Response>
  std::string FieldRefused(void (ScheduleApi::*method)(Request, Done<Response>),
                           const Request& request) {
    const auto fields = FieldViolationsOf(world_.Call(method, request).status());
    return fields.empty() ? "" : fields[0].first;
  }

  ScheduleWorld bench_{2, 5};
  MasterWorld& world_ = bench_.fixture;
};

TEST_F(ScheduleBatchTest, EachCreationHasItsOwnAnswer) {
  ASSERT_TRUE(world_.Call(&ScheduleApi::CreateSchedule, ValidSchedule("taken")).ok());
  auto batch = Creations({"a", "Bad Id", "taken", "", "a"});
  batch.mutable_requests(0)->clear_parent();
  batch.mutable_requests(0)->mutable_schedule()->set_cron("* * * * * *");
  batch.mutable_requests(1)->mutable_schedule()->set_cron("61 * * * *");
  const auto response = Create(batch);
  EXPECT_THAT(CodesOf(response), ElementsAre(0, 3, 6, 0, 6));
  ASSERT_EQ(response.results_size(), 5);
  EXPECT_EQ(response.results(0).schedule().name(), Name("a"));
  EXPECT_EQ(response.results(0).schedule().payload(), "");
  EXPECT_EQ(Get("a").payload(), "{}");
  EXPECT_EQ(response.results(0).schedule().etag(), Get("a").etag());
  EXPECT_TRUE(response.results(3).schedule().name().starts_with("tenants/default/schedules/"));
  for (const int i : {1, 2}) {
    ExpectSame(response.results(i),
               world_.Call(&ScheduleApi::CreateSchedule, batch.requests(i)).status());
  }
  // As after the single call, the occurrences that the emitter has planned already have rows.
  EXPECT_EQ(bench_.Rows(), (Strings{"1@1", "2@1", "3@1", "4@1"}));
  EXPECT_EQ(world_.Rows(ColumnFamily::kStates).size(), 3u);
}

TEST_F(ScheduleBatchTest, EachUpdateAndDeletionHasItsOwnAnswer) {
  Create(Creations({"a", "b", "c"}));
  v1::BatchUpdateSchedulesRequest updates;
  updates.set_parent("tenants/default");
  *updates.add_requests() = Renamed("a", "A");
  *updates.add_requests() = Renamed("none", "A");
  *updates.add_requests() = Renamed("b", "B");
  updates.mutable_requests(2)->mutable_schedule()->set_etag("\"9-9-00000000\"");
  *updates.add_requests() = Renamed("c", "C");
  updates.mutable_requests(3)->mutable_update_mask()->add_paths("nothing");
  updates.add_requests();
  *updates.add_requests() = Renamed("c", "C");
  const auto updated = Answered(&ScheduleApi::BatchUpdateSchedules, updates);
  EXPECT_THAT(CodesOf(updated), ElementsAre(0, 5, 10, 3, 3, 0));
  EXPECT_EQ(updated.results(0).schedule().display_name(), "A");
  EXPECT_EQ(Get("a").display_name(), "A");
  EXPECT_EQ(Get("b").display_name(), "");
  for (const int i : {1, 2, 3, 4}) {
    ExpectSame(updated.results(i),
               world_.Call(&ScheduleApi::UpdateSchedule, updates.requests(i)).status());
  }

  v1::BatchDeleteSchedulesRequest deletions;
  deletions.set_parent("tenants/default");
  for (const char* id : {"a", "none", "b"}) *deletions.add_requests() = Deletion(id);
  deletions.mutable_requests(2)->set_etag("\"9-9-00000000\"");
  const auto deleted = Answered(&ScheduleApi::BatchDeleteSchedules, deletions);
  EXPECT_THAT(CodesOf(deleted), ElementsAre(0, 5, 10));
  EXPECT_EQ(deleted.results(0).result_case(), v1::ScheduleResult::RESULT_NOT_SET);
  EXPECT_EQ(Get("a").name(), "");
  EXPECT_EQ(Get("b").name(), Name("b"));
}

TEST_F(ScheduleBatchTest, SchedulesOfOtherTenantsAreRefusedUnread) {
  bench_.MakeSchedule("* * * * *");
  auto creations = Creations({"a", "b"});
  creations.mutable_requests(1)->set_parent("tenants/other");
  EXPECT_THAT(CodesOf(Create(creations)), ElementsAre(0, 3));
  v1::BatchUpdateSchedulesRequest updates;
  updates.set_parent("tenants/other");
  *updates.add_requests() = Renamed("s", "S");
  EXPECT_THAT(CodesOf(Answered(&ScheduleApi::BatchUpdateSchedules, updates)), ElementsAre(3));
  v1::BatchDeleteSchedulesRequest deletions;
  deletions.set_parent("tenants/other");
  *deletions.add_requests() = Deletion("s");
  EXPECT_THAT(CodesOf(Answered(&ScheduleApi::BatchDeleteSchedules, deletions)), ElementsAre(3));
  EXPECT_EQ(Get("s").version(), 1);
}

TEST_F(ScheduleBatchTest, ThousandSchedulesTakeFewCallsOfTheStore) {
  CallCounter counter(*world_.store);
  MasterOptions options;
  options.instance = "counted";
  MasterService master(options, counter, world_.runtime);
  master.Start();
  world_.runtime.AdvanceBy(absl::Seconds(1));
  for (const size_t keys_max : {20'000, 60}) {
    SCOPED_TRACE(keys_max);
    counter.commits = counter.reads = 0;
    counter.keys_max = keys_max;
    auto batch = Creations(1000);
    for (auto& request : *batch.mutable_requests())
      request.set_schedule_id(absl::StrCat(request.schedule_id(), "-", keys_max));
    std::optional<absl::StatusOr<v1::BatchCreateSchedulesResponse>> answer;
    master.schedules().BatchCreateSchedules(
        batch, [&](absl::StatusOr<v1::BatchCreateSchedulesResponse> response) {
          answer = std::move(response);
        });
    ASSERT_TRUE(world_.runtime.RunUntil([&] { return answer.has_value(); }, absl::Minutes(1)));
    ASSERT_TRUE(answer->ok()) << answer->status();
    EXPECT_EQ(CodesOf(**answer), std::vector<int>(1000, 0));
    for (int i = 0; i < 1000; ++i)
      EXPECT_EQ((*answer)->results(i).schedule().name(), Name(batch.requests(i).schedule_id()));
    if (keys_max < 20'000) continue;
    EXPECT_LE(counter.commits, 10);
    EXPECT_LE(counter.reads, 20);
  }
  EXPECT_EQ(world_.Rows(ColumnFamily::kStates).size(), 2000u);
}

TEST_F(ScheduleBatchTest, RepeatedRequestsHaveOneEffect) {
  auto batch = Creations({"a", "b"});
  batch.mutable_requests(0)->set_request_id("first");
  batch.mutable_requests(1)->set_request_id("second");
  const auto first = Create(batch);
  EXPECT_THAT(CodesOf(first), ElementsAre(0, 0));
  batch.mutable_requests(1)->mutable_schedule()->set_display_name("another");
  *batch.add_requests() = ValidSchedule("c");
  const auto again = Create(batch);
  EXPECT_THAT(CodesOf(again), ElementsAre(0, 3, 0));
  EXPECT_EQ(again.results(0).DebugString(), first.results(0).DebugString());
  // The single call with this request_id is the same request.
  const auto single = world_.Call(&ScheduleApi::CreateSchedule, batch.requests(0));
  ASSERT_TRUE(single.ok()) << single.status();
  EXPECT_EQ(single->uid(), first.results(0).schedule().uid());
  EXPECT_EQ(world_.Rows(ColumnFamily::kStates).size(), 3u);
}

TEST_F(ScheduleBatchTest, ValidateOnlyWritesNothing) {
  bench_.MakeSchedule("* * * * *");
  const std::string before = world_.Dump();
  auto batch = Creations({"a", "s"});
  batch.set_validate_only(true);
  EXPECT_THAT(CodesOf(Create(batch)), ElementsAre(0, 6));
  v1::BatchDeleteSchedulesRequest deletions;
  deletions.set_parent("tenants/default");
  deletions.set_validate_only(true);
  *deletions.add_requests() = Deletion("s");
  EXPECT_THAT(CodesOf(Answered(&ScheduleApi::BatchDeleteSchedules, deletions)), ElementsAre(0));
  EXPECT_EQ(world_.Dump(), before);
}

TEST_F(ScheduleBatchTest, RequestsThatLoseARaceAreDecidedAgain) {
  int raced = 0;
  for (int steps = 1; steps < 30; ++steps) {
    ScheduleWorld bench(2, 2);
    std::optional<absl::StatusOr<v1::BatchCreateSchedulesResponse>> answer;
    bench.fixture.master->schedules().BatchCreateSchedules(
        Creations(50),
        [&](absl::StatusOr<v1::BatchCreateSchedulesResponse> r) { answer = std::move(r); });
    for (int i = 0; i < steps && bench.fixture.runtime.world().Step(); ++i) {
    }
    // The emitter moves one of the two partitions.
    const std::string planned = EncodeCheckpoint(bench.At(5));
    kv::Group group;
    for (const std::string& key : {PlannedToKey(1), EmittedToKey(1)})
      group.mutations.push_back({.cf = ColumnFamily::kCheckpoints, .key = key, .value = planned});
    std::optional<bool> applied;
    bench.fixture.TryCommit({group}, [&](bool all) { applied = all; });
    ASSERT_TRUE(bench.fixture.runtime.RunUntil(
        [&] { return answer.has_value() && applied.has_value(); }, absl::Minutes(1)));
    ASSERT_TRUE(answer->ok()) << answer->status();
    EXPECT_EQ(CodesOf(**answer), std::vector<int>(50, 0));
    EXPECT_EQ(bench.fixture.Rows(ColumnFamily::kStates).size(), 50u);
    std::set<int64_t> covered;
    for (const auto& [key, value] : bench.fixture.Rows(ColumnFamily::kStates)) {
      storage::v1::StateRecord state;
      ASSERT_TRUE(state.ParseFromString(value));
      covered.insert(state.covered_to_micros());
    }
    raced += covered.size() == 2;
  }
  EXPECT_GT(raced, 0);
}

TEST_F(ScheduleBatchTest, UpdatesOfOneScheduleAllTakeEffect) {
  bench_.MakeSchedule("* * * * *");
  v1::BatchUpdateSchedulesRequest updates;
  updates.set_parent("tenants/default");
  for (int i = 0; i < 5; ++i) *updates.add_requests() = Renamed("s", absl::StrCat("name ", i));
  EXPECT_THAT(CodesOf(Answered(&ScheduleApi::BatchUpdateSchedules, updates)),
              ElementsAre(0, 0, 0, 0, 0));
  EXPECT_EQ(Get("s").version(), 6);
}

TEST_F(ScheduleBatchTest, BatchIsBounded) {
  EXPECT_EQ(FieldRefused(&ScheduleApi::BatchCreateSchedules, Creations(0)), "requests");
  EXPECT_EQ(FieldRefused(&ScheduleApi::BatchCreateSchedules, Creations(1001)), "requests");
  auto large = Creations(40);
  for (auto& request : *large.mutable_requests())
    request.mutable_schedule()->set_payload(std::string(kPayloadBytesMax, 'p'));
  EXPECT_EQ(FieldRefused(&ScheduleApi::BatchCreateSchedules, large), "requests");
  auto nowhere = Creations(1);
  nowhere.set_parent("nowhere");
  EXPECT_EQ(FieldRefused(&ScheduleApi::BatchCreateSchedules, nowhere), "parent");
  EXPECT_TRUE(world_.Rows(ColumnFamily::kStates).empty());
}

// Ordinary clients of gRPC refuse an answer of more than 4 MiB.
TEST_F(ScheduleBatchTest, LongAnswersEndWithShortResults) {
  auto batch = Creations(1000);
  for (int i = 0; i < 1000; ++i) {
    v1::Schedule& schedule = *batch.mutable_requests(i)->mutable_schedule();
    (*schedule.mutable_target()->mutable_http()->mutable_headers())["a"] = std::string(4000, 'a');
    if (i % 10 != 0) continue;
    for (int k = 0; k < 30; ++k) schedule.add_exclusions(std::string(120, '\t'));
  }
  const auto response = Create(batch);
  EXPECT_LE(response.ByteSizeLong(), kAnswerBytesMax);
  EXPECT_EQ(response.results(1).schedule().target().http().headers_size(), 1);
  const v1::Schedule& last = response.results(999).schedule();
  EXPECT_FALSE(last.has_target());
  EXPECT_EQ(last.etag(), Get("s999").etag());
  EXPECT_EQ(last.uid(), Get("s999").uid());
  EXPECT_EQ(response.results(0).error().details_size(), 2);
  const google::rpc::Status& error = response.results(990).error();
  EXPECT_EQ(error.code(), 3);
  EXPECT_EQ(error.message(), "");
  ASSERT_EQ(error.details_size(), 1);
  google::rpc::ErrorInfo info;
  ASSERT_TRUE(error.details(0).UnpackTo(&info));
  EXPECT_EQ(info.reason(), "INVALID_FIELD");
}

}  // namespace schedule_batch_test
}  // namespace escapement::master
