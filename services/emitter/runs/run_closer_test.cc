#include "services/emitter/runs/run_closer.h"

#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/kv/memory/mem_kv_store.h"
#include "common/metrics/metrics.h"
#include "common/sim/sim_runtime.h"
#include "common/storage/children_table.h"
#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "common/storage/name_tables.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "gtest/gtest.h"
#include "services/emitter/base/options.h"

namespace escapement::emitter {
namespace run_closer_test {

using kv::ColumnFamily;

class RunCloserTest : public testing::Test {
 protected:
  RunCloserTest()
      : store_(runtime_, {}),
        executor_(runtime_.NewExecutor("emitter")),
        client_(store_, runtime_, ClientOptions()) {
    RunCloser::Options options;
    options.layout = layout_;
    options.leases.valid = [this](uint32_t) { return lease_valid_; };
    options.leases.fence = [](uint32_t) {
      return kv::Condition{
          .cf = ColumnFamily::kLeases, .key = "lost", .kind = kv::Condition::Kind::kAbsent};
    };
    closer_ = std::make_shared<RunCloser>(client_, executor_, metrics_, std::move(options));
    executor_->Post([this] {
      closer_->Start();
      closer_->AddPartition(0);
    });
    runtime_.AdvanceBy(absl::Seconds(1));
  }
  ~RunCloserTest() override { closer_->Stop(); }

  static kv::KvClient::Options ClientOptions() {
    kv::KvClient::Options options;
    options.name = "test";
    return options;
  }

  void Put(ColumnFamily cf, std::string key, std::string value) {
    kv::Commit commit;
    commit.groups.resize(1);
    commit.groups[0].mutations.push_back(
        {.cf = cf, .key = std::move(key), .value = std::move(value)});
    client_.CommitAsync(std::move(commit), executor_, [](absl::StatusOr<kv::CommitResult>) {});
  }

  const kv::MemDisk::Family& Disk(ColumnFamily cf) const {
    return store_.disk()->families[static_cast<size_t>(cf)];
  }

  storage::v1::RunRecord Read(const RunKey& key) const {
    storage::v1::RunRecord run;
    EXPECT_TRUE(run.ParseFromString(Disk(ColumnFamily::kRuns).at(EncodeRunKey(key))));
    return run;
  }
  bool Closed() const { return Read(run_).complete_time_micros() != 0; }

  // A run of a schedule with on_complete, with its mark.
  void PutRun(const RunKey& key, uint64_t event_count) {
    storage::v1::RunRecord run;
    run.set_tenant("t");
    run.set_schedule_id("s");
    run.set_version(3);
    run.set_event_count(event_count);
    run.set_nominal_time_micros(1'795'230'000'000'000);
    run.set_has_on_complete(true);
    Put(ColumnFamily::kRuns, EncodeRunKey(key), run.SerializeAsString());
    Put(ColumnFamily::kCheckpoints, ActiveRunKey(0, key.uid, key.occurrence), "");
  }

  // An active run with a window of 100 s that opens now.
  void PutWindowedRun(const RunKey& key, uint64_t event_count) {
    const int64_t now = ToMicros(client_.NowLow());
    storage::v1::RunRecord run;
    run.set_event_count(event_count);
    run.set_window_open_micros(now);
    run.set_window_close_micros(now + 100'000'000);
    Put(ColumnFamily::kRuns, EncodeRunKey(key), run.SerializeAsString());
    Put(ColumnFamily::kCheckpoints, ActiveRunKey(0, key.uid, key.occurrence), "");
    runtime_.AdvanceBy(absl::Milliseconds(100));
  }

  double RunsAtRisk() {
    executor_->Post([this] { closer_->JudgeWindows(); });
    runtime_.AdvanceBy(absl::Milliseconds(100));
    return metrics_.runs_at_risk.Value();
  }

  void PutDefinition(const Uid& uid, bool only_failures = false) {
    storage::v1::DefinitionRecord definition;
    definition.set_on_complete_if_failed(only_failures);
    storage::v1::DeliveryRecord* delivery = definition.mutable_on_complete();
    delivery->mutable_target()->mutable_http()->set_uri("http://h/done");
    delivery->set_content_type("application/json");
    Put(ColumnFamily::kDefinitions, DefinitionKey(uid, 3), definition.SerializeAsString());
  }

  void PutPart(const RunKey& key, uint16_t shard, uint64_t succeeded, uint64_t failed,
               uint64_t expired) {
    storage::v1::RunPartRecord part;
    part.set_succeeded(succeeded);
    part.set_failed(failed);
    part.set_expired(expired);
    Put(ColumnFamily::kRunParts, RunPartKey(key, shard), part.SerializeAsString());
  }

  const RunKey run_{Uid(), "o1"};
  const kv::Layout layout_{.partitions = 1, .queue_shards = 4};
  sim::SimRuntime runtime_{3};
  kv::MemKvStore store_;
  std::shared_ptr<Executor> executor_;
  kv::KvClient client_;
  Metrics registry_;
  EmitterMetrics metrics_{registry_};
  bool lease_valid_ = true;
  std::shared_ptr<RunCloser> closer_;
};

TEST_F(RunCloserTest, ARunThatEndsWhileALeaseIsInDoubtIsClosedOnceItIsNot) {
  storage::v1::RunRecord run;
  run.set_event_count(2);
  Put(ColumnFamily::kRuns, EncodeRunKey(run_), run.SerializeAsString());
  Put(ColumnFamily::kCheckpoints, ActiveRunKey(0, run_.uid, run_.occurrence), "");
  runtime_.AdvanceBy(absl::Seconds(1));
  lease_valid_ = false;
  storage::v1::RunPartRecord part;
  part.set_succeeded(2);
  Put(ColumnFamily::kRunParts, RunPartKey(run_, 0), part.SerializeAsString());
  runtime_.AdvanceBy(absl::Seconds(5));
  EXPECT_FALSE(Closed());
  lease_valid_ = true;
  runtime_.AdvanceBy(absl::Seconds(5));
  EXPECT_TRUE(Closed());
  EXPECT_EQ(closer_->active_runs(), 0u);
}

// The schedule was changed away from the occurrence, and back to it with another n.
TEST_F(RunCloserTest, ARunThatIsWrittenAnewEndsWithAsManyEventsAsItHasNow) {
  for (const auto& [before, after] : {std::pair{9, 4}, std::pair{2, 4}}) {
    SCOPED_TRACE(before);
    const RunKey key{run_.uid, absl::StrCat("o", before)};
    PutDefinition(key.uid);
    PutRun(key, static_cast<uint64_t>(before));
    runtime_.AdvanceBy(absl::Seconds(1));
    PutRun(key, static_cast<uint64_t>(after));
    runtime_.AdvanceBy(absl::Seconds(1));
    PutPart(key, 0, 3, 0, 0);
    runtime_.AdvanceBy(absl::Seconds(5));
    EXPECT_EQ(Read(key).complete_time_micros(), 0);
    PutPart(key, 1, 1, 0, 0);
    runtime_.AdvanceBy(absl::Seconds(5));
    EXPECT_NE(Read(key).complete_time_micros(), 0);
    EXPECT_EQ(closer_->active_runs(), 0u);
  }
}

TEST_F(RunCloserTest, TheEndIsToldInTheSameCommitExactlyAsAClientWouldMakeTheEvent) {
  PutDefinition(run_.uid);
  PutRun(run_, 10);
  PutPart(run_, 0, 3, 0, 0);
  PutPart(run_, 0, 5, 1, 0);  // the newer one of the same shard
  runtime_.AdvanceBy(absl::Seconds(5));
  EXPECT_FALSE(Closed());
  EXPECT_TRUE(Disk(ColumnFamily::kEvents).empty());
  PutPart(run_, PolicyRunPart(2), 2, 0, 2);
  runtime_.AdvanceBy(absl::Seconds(1));
  ASSERT_TRUE(Closed());
  ASSERT_EQ(Disk(ColumnFamily::kEvents).size(), 1u);
  const auto& [bytes, value] = *Disk(ColumnFamily::kEvents).begin();
  const EventKey key = DecodeEventKey(bytes).value();
  storage::v1::EventRecord row;
  ASSERT_TRUE(row.ParseFromString(value));
  const std::string id = RunEndEventId("t", run_);
  EXPECT_EQ(row.event_id(), id);
  EXPECT_TRUE(row.client_chosen_id());
  EXPECT_EQ(row.version(), 0u);
  EXPECT_EQ(row.count(), 1u);
  EXPECT_EQ(row.run_count(), 1u);
  EXPECT_EQ(row.launch_time_micros(), Read(run_).complete_time_micros());
  EXPECT_EQ(row.payload(),
            RunEndPayload(Read(run_), "o1",
                          {.counts = {.succeeded = 7, .failed = 1, .expired = 2}, .rest = {}}));
  EXPECT_EQ(key.uid, UidOfClientChosenId("t", id));
  EXPECT_EQ(key.shard, ShardOfEventId(id, layout_.queue_shards));
  EXPECT_EQ(key.lane, 5);
  EXPECT_EQ(key.due_time, FromMicros(row.launch_time_micros()));
  storage::v1::EventNameRecord name;
  ASSERT_TRUE(name.ParseFromString(Disk(ColumnFamily::kEventNames).at(EventNameKey("t", id))));
  EXPECT_EQ(name.event_key(), bytes);
  storage::v1::DefinitionRecord interned;
  ASSERT_TRUE(interned.ParseFromString(Disk(ColumnFamily::kDefinitions)
                                           .at(DefinitionKey(Uid::FromBytes(row.definition_hash()),
                                                             /*version=*/0))));
  EXPECT_EQ(interned.delivery().target().http().uri(), "http://h/done");
  EXPECT_EQ(metrics_.run_end_events.Value(), 1.0);
}

TEST_F(RunCloserTest, OnlyRunsWithFailuresAreToldIfThatIsWanted) {
  PutDefinition(run_.uid, /*only_failures=*/true);
  const RunKey failed{run_.uid, "failed"};
  const RunKey expired{run_.uid, "expired"};
  for (const RunKey& key : {run_, failed, expired}) PutRun(key, 2);
  PutPart(run_, 0, 2, 0, 0);
  PutPart(failed, 0, 1, 1, 0);
  PutPart(expired, 0, 1, 0, 1);
  runtime_.AdvanceBy(absl::Seconds(5));
  EXPECT_TRUE(Closed());
  EXPECT_EQ(closer_->active_runs(), 0u);
  std::set<std::string> told;
  for (const auto& [key, value] : Disk(ColumnFamily::kEvents)) {
    storage::v1::EventRecord row;
    ASSERT_TRUE(row.ParseFromString(value));
    told.insert(row.event_id());
  }
  EXPECT_EQ(told, (std::set<std::string>{RunEndEventId("t", failed), RunEndEventId("t", expired)}));
  EXPECT_EQ(metrics_.run_end_events.Value(), 2.0);
}

TEST_F(RunCloserTest, PayloadHasTheReportOfAllParts) {
  PutDefinition(run_.uid);
  PutRun(run_, 4);
  storage::v1::RunPartRecord part;
  part.set_succeeded(1);
  part.set_tokens(7);
  NoteSlow(3, 250'000, part);
  Put(ColumnFamily::kRunParts, RunPartKey(run_, PolicyRunPart(0)), part.SerializeAsString());
  part.set_succeeded(2);
  part.set_tokens(9);
  NoteSlow(2, 500'000, part);
  Put(ColumnFamily::kRunParts, RunPartKey(run_, PolicyRunPart(0)), part.SerializeAsString());
  storage::v1::RunPartRecord masters;
  masters.set_skipped(2);
  masters.set_never_started(2);
  Put(ColumnFamily::kRunParts, RunPartKey(run_, kMasterRunPart), masters.SerializeAsString());
  runtime_.AdvanceBy(absl::Seconds(5));
  ASSERT_EQ(Disk(ColumnFamily::kEvents).size(), 1u);
  storage::v1::EventRecord row;
  ASSERT_TRUE(row.ParseFromString(Disk(ColumnFamily::kEvents).begin()->second));
  EXPECT_TRUE(absl::StrContains(
      row.payload(), R"("never_started":2,"tokens":9,"slowest":[)"
                     R"({"event":"tenants/t/schedules/s/runs/o1/events/2","seconds":0.500000},)"
                     R"({"event":"tenants/t/schedules/s/runs/o1/events/3","seconds":0.250000}]})"))
      << row.payload();
}

TEST_F(RunCloserTest, RunsThatDoNotKeepToTheirWindowsAreCounted) {
  PutWindowedRun(run_, 10);
  PutRun({run_.uid, "without"}, 2);
  EXPECT_EQ(RunsAtRisk(), 0);
  runtime_.AdvanceBy(absl::Seconds(40));
  EXPECT_EQ(RunsAtRisk(), 1);  // nothing has ended
  PutPart(run_, 0, 5, 0, 0);
  runtime_.AdvanceBy(absl::Milliseconds(100));
  EXPECT_EQ(RunsAtRisk(), 0);
  runtime_.AdvanceBy(absl::Seconds(60));
  EXPECT_EQ(RunsAtRisk(), 1);
  PutPart(run_, 0, 10, 0, 0);
  runtime_.AdvanceBy(absl::Seconds(1));
  EXPECT_EQ(closer_->active_runs(), 1u);
  EXPECT_EQ(RunsAtRisk(), 0);  // it has ended
}

TEST_F(RunCloserTest, ManyWindowsAreJudgedInSeveralSteps) {
  for (size_t i = 0; i < kWindowsJudgedMax + 1; ++i)
    PutWindowedRun({run_.uid, absl::StrCat("o", i)}, 10);
  runtime_.AdvanceBy(absl::Seconds(200));
  EXPECT_EQ(RunsAtRisk(), 0);  // the step has not come to the last one
  EXPECT_EQ(RunsAtRisk(), kWindowsJudgedMax + 1);
  executor_->Post([this] { closer_->DropPartition(0); });
  EXPECT_EQ(RunsAtRisk(), 0);
}

TEST_F(RunCloserTest, RunsThatEndTogetherShareTheInternedTarget) {
  PutDefinition(run_.uid);
  for (int i = 0; i < 30; ++i) {
    const RunKey key{run_.uid, absl::StrCat("o", i)};
    PutRun(key, 1);
    PutPart(key, 0, 1, 0, 0);
  }
  runtime_.AdvanceBy(absl::Seconds(5));
  EXPECT_EQ(closer_->active_runs(), 0u);
  EXPECT_EQ(Disk(ColumnFamily::kEvents).size(), 30u);
  EXPECT_EQ(Disk(ColumnFamily::kEventNames).size(), 30u);
  EXPECT_EQ(Disk(ColumnFamily::kDefinitions).size(), 2u);
}

TEST_F(RunCloserTest, WithoutItsDefinitionARunIsClosedAndNobodyIsTold) {
  PutRun(run_, 1);
  PutPart(run_, 0, 1, 0, 0);
  runtime_.AdvanceBy(absl::Seconds(5));
  EXPECT_TRUE(Closed());
  EXPECT_TRUE(Disk(ColumnFamily::kEvents).empty());
}

TEST_F(RunCloserTest, AnEventOfThatNameDoesNotKeepARunOpen) {
  PutDefinition(run_.uid);
  Put(ColumnFamily::kEventNames, EventNameKey("t", RunEndEventId("t", run_)), "somebody's");
  PutRun(run_, 1);
  PutPart(run_, 0, 1, 0, 0);
  runtime_.AdvanceBy(absl::Seconds(5));
  EXPECT_TRUE(Closed());
  EXPECT_TRUE(Disk(ColumnFamily::kEvents).empty());
}

TEST_F(RunCloserTest, NobodyIsToldUnderALeaseThatIsLost) {
  PutDefinition(run_.uid);
  PutRun(run_, 1);
  Put(ColumnFamily::kLeases, "lost", "to another");
  PutPart(run_, 0, 1, 0, 0);
  runtime_.AdvanceBy(absl::Seconds(5));
  EXPECT_FALSE(Closed());
  EXPECT_TRUE(Disk(ColumnFamily::kEvents).empty());
}

// The masters take redriven events back out of the counts, below zero in their own part.
TEST_F(RunCloserTest, RedrivenEventsEndOnceMore) {
  for (const bool masters_first : {false, true}) {
    SCOPED_TRACE(masters_first);
    const RunKey key{run_.uid, masters_first ? "o1" : "o2"};
    PutDefinition(key.uid);
    const auto closed = [&] { return Read(key).complete_time_micros() != 0; };
    if (masters_first) {
      PutPart(key, 0, 0, 2, 0);
      PutPart(key, kMasterRunPart, 0, ~uint64_t{0} - 1, 0);  // two were redriven
      PutRun(key, 4);
    } else {
      PutRun(key, 4);
      runtime_.AdvanceBy(absl::Seconds(1));
      PutPart(key, 0, 0, 2, 0);
      runtime_.AdvanceBy(absl::Seconds(1));
      PutPart(key, kMasterRunPart, 0, ~uint64_t{0}, 0);
      runtime_.AdvanceBy(absl::Seconds(1));
      PutPart(key, kMasterRunPart, 0, ~uint64_t{0} - 1, 0);
    }
    runtime_.AdvanceBy(absl::Seconds(5));
    EXPECT_FALSE(closed());
    PutPart(key, 0, 3, 2, 0);
    runtime_.AdvanceBy(absl::Seconds(5));
    EXPECT_FALSE(closed());
    PutPart(key, 0, 4, 2, 0);
    runtime_.AdvanceBy(absl::Seconds(5));
    EXPECT_TRUE(closed());
  }
}

}  // namespace run_closer_test
}  // namespace escapement::emitter
