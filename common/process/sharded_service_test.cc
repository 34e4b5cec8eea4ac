// ShardedService over a store in memory, on virtual time.

#include "common/process/sharded_service.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/kv/memory/mem_kv_store.h"
#include "common/sim/sim_runtime.h"
#include "gtest/gtest.h"

namespace escapement {
namespace sharded_service_test {

constexpr uint32_t kShards = 4;

struct WithMetrics {
  Metrics metrics;
};

class TestService final : public WithMetrics, public ShardedService {
 public:
  TestService(const std::string& instance, kv::KvStore& store, Runtime& runtime)
      : ShardedService({.executor = "test",
                        .session_name = "test",
                        .instance = instance,
                        .lease_kind = "queue_shard",
                        .metrics = &metrics,
                        .meta_keys = {"other key"}},
                       store, runtime) {}
  ~TestService() override { Stop(); }

  using ShardedService::executor;
  using ShardedService::Fence;
  using ShardedService::LeaseValid;
  using ShardedService::planned_step;
  using ShardedService::PlanStep;
  using ShardedService::ReleaseLeases;
  using ShardedService::Wake;

  double Count(const std::string& name) {
    return metrics.GetCounter(name, "", {{"program", "test"}})->Value();
  }
  double Level(const std::string& name) {
    return metrics.GetGauge(name, "", {{"program", "test"}})->Value();
  }

  std::set<uint32_t> shards;
  std::map<uint32_t, Closure> wanted;  // releases that wait for the test
  bool other_key_found = true;
  int layouts = 0;
  int sessions_lost = 0;
  int steps = 0;
  int drains = 0;

 private:
  void OnLayout(const kv::Layout& layout, std::vector<std::optional<std::string>> values) override {
    ++layouts;
    ASSERT_EQ(values.size(), 1u);
    other_key_found = values[0].has_value();
    StartLeases(layout.queue_shards);
  }
  void OnAcquired(const lease::HeldLease& lease) override { shards.insert(lease.index); }
  void OnLost(uint32_t index) override { shards.erase(index); }
  void OnReleaseWanted(uint32_t index, Closure release) override {
    wanted[index] = std::move(release);
  }
  void OnSessionLost() override { ++sessions_lost; }
  void Step() override { ++steps; }
  void OnDrain() override { ++drains; }
};

class ShardedServiceTest : public ::testing::Test {
 protected:
  static kv::MemKvStore::Options StoreOptions() {
    kv::MemKvStore::Options options;
    options.layout.queue_shards = kShards;
    return options;
  }
  // Runs `call` on the service's executor.
  void On(TestService& service, Closure call) {
    service.executor()->Post(std::move(call));
    runtime_.AdvanceBy(absl::Milliseconds(1));
  }

  sim::SimRuntime runtime_{1};
  kv::MemKvStore store_{runtime_, StoreOptions()};
};

TEST_F(ShardedServiceTest, StartReadsTheLayoutAndAcquiresAllShards) {
  TestService service("a", store_, runtime_);
  EXPECT_FALSE(service.Ready());
  service.Start();
  runtime_.AdvanceBy(absl::Seconds(1));
  EXPECT_TRUE(service.Ready());
  EXPECT_FALSE(service.other_key_found);
  EXPECT_EQ(service.shards.size(), kShards);
  EXPECT_TRUE(service.LeaseValid(0));
  EXPECT_FALSE(service.LeaseValid(kShards));
  EXPECT_EQ(service.Fence(0).cf, kv::ColumnFamily::kLeases);
}

TEST_F(ShardedServiceTest, StartWaitsForAStoreThatIsDown) {
  store_.Crash(kv::MemKvStore::Unsynced::kLost);
  TestService service("a", store_, runtime_);
  service.Start();
  runtime_.AdvanceBy(absl::Seconds(10));
  EXPECT_FALSE(service.Ready());
  store_.Restart();
  runtime_.AdvanceBy(absl::Seconds(10));
  EXPECT_TRUE(service.Ready());
  EXPECT_EQ(service.layouts, 1);
}

TEST_F(ShardedServiceTest, SecondInstanceGetsItsShareWhenTheFirstReleasesIt) {
  TestService first("a", store_, runtime_);
  first.Start();
  runtime_.AdvanceBy(absl::Seconds(2));
  TestService second("b", store_, runtime_);
  second.Start();
  runtime_.AdvanceBy(absl::Seconds(10));
  ASSERT_EQ(first.wanted.size(), kShards / 2);
  EXPECT_EQ(first.shards.size(), kShards);
  EXPECT_TRUE(second.shards.empty());
  On(first, [&] {
    for (auto& [index, release] : std::exchange(first.wanted, {})) release();
  });
  runtime_.AdvanceBy(absl::Seconds(10));
  EXPECT_EQ(first.shards.size(), kShards / 2);
  EXPECT_EQ(second.shards.size(), kShards / 2);
  EXPECT_EQ(first.Count("escapement_leases_acquired_total"), kShards);
  EXPECT_EQ(first.Count("escapement_leases_lost_total"), 0);
  EXPECT_EQ(second.Count("escapement_leases_acquired_total"), kShards / 2);
  for (TestService* service : {&first, &second}) {
    EXPECT_EQ(service->Level("escapement_leases_held"), kShards / 2);
    EXPECT_EQ(service->Level("escapement_leases_owned"), kShards);
    EXPECT_EQ(service->Level("escapement_leases_wanted"), kShards);
  }
}

TEST_F(ShardedServiceTest, ShardsOfADeadProcessAreNotOwnedUntilTheyAreTaken) {
  TestService first("a", store_, runtime_);
  first.Start();
  runtime_.AdvanceBy(absl::Seconds(2));
  TestService second("b", store_, runtime_);
  second.Start();
  runtime_.AdvanceBy(absl::Seconds(2));
  EXPECT_TRUE(second.shards.empty());
  EXPECT_EQ(second.Level("escapement_leases_owned"), kShards);
  first.Stop();
  bool seen_free = false;
  for (int i = 0; i < 100 && second.shards.empty(); ++i) {
    runtime_.AdvanceBy(absl::Milliseconds(100));
    seen_free |= second.Level("escapement_leases_owned") == 0;
  }
  EXPECT_TRUE(seen_free);
  runtime_.AdvanceBy(absl::Seconds(2));
  EXPECT_EQ(second.Level("escapement_leases_owned"), kShards);
}

TEST_F(ShardedServiceTest, PausedServiceGivesItsShardsBackUntilItResumes) {
  TestService service("a", store_, runtime_);
  bool paused = false;
  service.PauseLeases([&] { paused = true; });
  runtime_.AdvanceBy(absl::Milliseconds(1));
  EXPECT_TRUE(paused);  // it holds none yet
  service.Start();
  runtime_.AdvanceBy(absl::Seconds(1));
  paused = false;
  service.PauseLeases([&] { paused = true; });
  runtime_.AdvanceBy(absl::Seconds(1));
  EXPECT_FALSE(paused);
  On(service, [&] {
    for (auto& [index, release] : std::exchange(service.wanted, {})) release();
  });
  runtime_.AdvanceBy(absl::Seconds(10));
  EXPECT_TRUE(paused);
  EXPECT_TRUE(service.shards.empty());
  EXPECT_EQ(service.Count("escapement_leases_lost_total"), 0);
  service.ResumeLeases();
  runtime_.AdvanceBy(absl::Seconds(1));
  EXPECT_EQ(service.shards.size(), kShards);
}

TEST_F(ShardedServiceTest, WakesBeforeAStepLeadToOneStep) {
  TestService service("a", store_, runtime_);
  On(service, [&] {
    for (int i = 0; i < 10; ++i) service.Wake();
    EXPECT_EQ(service.steps, 0);
  });
  EXPECT_EQ(service.steps, 1);
  On(service, [&] { service.Wake(); });
  EXPECT_EQ(service.steps, 2);
}

TEST_F(ShardedServiceTest, PlannedStepReplacesTheOneBefore) {
  TestService service("a", store_, runtime_);
  On(service, [&] {
    service.PlanStep(absl::Seconds(50), absl::Seconds(1));
    service.PlanStep(absl::Seconds(70), absl::Seconds(3));
    EXPECT_EQ(service.planned_step(), absl::Seconds(70));
  });
  runtime_.AdvanceBy(absl::Seconds(2));
  EXPECT_EQ(service.steps, 0);
  runtime_.AdvanceBy(absl::Seconds(2));
  EXPECT_EQ(service.steps, 1);
  EXPECT_EQ(service.planned_step(), std::nullopt);
  On(service, [&] {
    service.PlanStep(absl::Seconds(80), absl::Seconds(1));
    service.PlanStep(absl::InfiniteDuration(), absl::InfiniteDuration());
    EXPECT_EQ(service.planned_step(), std::nullopt);
  });
  runtime_.AdvanceBy(absl::Seconds(5));
  EXPECT_EQ(service.steps, 1);
}

TEST_F(ShardedServiceTest, LostSessionDropsTheShardsAndAcquiresThemAgain) {
  TestService service("a", store_, runtime_);
  service.Start();
  runtime_.AdvanceBy(absl::Seconds(2));
  store_.Crash(kv::MemKvStore::Unsynced::kLost);
  runtime_.AdvanceBy(absl::Milliseconds(10));
  // The store forgets its sessions.
  auto& meta = store_.disk()->families[static_cast<size_t>(kv::ColumnFamily::kMeta)];
  meta.erase(meta.lower_bound(std::string("\0s", 2)), meta.lower_bound(std::string("\0t", 2)));
  store_.Restart();
  for (int i = 0; i < 100 && service.sessions_lost == 0; ++i)
    runtime_.AdvanceBy(absl::Milliseconds(50));
  EXPECT_EQ(service.sessions_lost, 1);
  EXPECT_TRUE(service.shards.empty());
  EXPECT_EQ(service.Level("escapement_leases_owned"), 0);
  runtime_.AdvanceBy(absl::Seconds(20));
  EXPECT_EQ(service.shards.size(), kShards);
  EXPECT_EQ(service.layouts, 1);
}

TEST_F(ShardedServiceTest, DrainEndsWhenTheServiceReleasesItsLeases) {
  TestService service("a", store_, runtime_);
  service.Start();
  runtime_.AdvanceBy(absl::Seconds(2));
  int drained = 0;
  service.Drain([&] { ++drained; });
  runtime_.AdvanceBy(absl::Seconds(5));
  EXPECT_EQ(service.drains, 1);
  EXPECT_EQ(drained, 0);
  EXPECT_EQ(service.shards.size(), kShards);
  On(service, [&] {
    service.ReleaseLeases();
    service.ReleaseLeases();
  });
  runtime_.AdvanceBy(absl::Seconds(1));
  EXPECT_EQ(drained, 1);
  EXPECT_TRUE(service.shards.empty());
}

TEST_F(ShardedServiceTest, DrainBeforeTheLayoutIsReadEndsAtOnce) {
  store_.Crash(kv::MemKvStore::Unsynced::kLost);
  TestService service("a", store_, runtime_);
  service.Start();
  bool drained = false;
  service.Drain([&] { drained = true; });
  On(service, [&] { service.ReleaseLeases(); });
  EXPECT_TRUE(drained);
  store_.Restart();
  runtime_.AdvanceBy(absl::Seconds(10));
  EXPECT_EQ(service.layouts, 0);
}

}  // namespace sharded_service_test
}  // namespace escapement
