#include "services/emitter/run_closer.h"

#include "common/kv/mem_kv_store.h"
#include "common/metrics/metrics.h"
#include "common/sim/sim_runtime.h"
#include "common/storage/children_table.h"
#include "common/storage/run_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "gtest/gtest.h"

namespace escapement::emitter {
namespace {

using kv::ColumnFamily;

class RunCloserTest : public testing::Test {
 protected:
  RunCloserTest()
      : store_(runtime_, {}),
        executor_(runtime_.NewExecutor("emitter")),
        client_(store_, runtime_, ClientOptions()) {
    RunCloser::Options options;
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

  bool Closed() const {
    storage::v1::RunRecord run;
    const auto& runs = store_.disk()->families[static_cast<size_t>(ColumnFamily::kRuns)];
    return run.ParseFromString(runs.at(EncodeRunKey(run_))) && run.complete_time_micros() != 0;
  }

  const RunKey run_{Uid(), "o1"};
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

}  // namespace
}  // namespace escapement::emitter
