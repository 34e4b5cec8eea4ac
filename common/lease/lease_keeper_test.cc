#include "common/lease/lease_keeper.h"

#include <map>
#include <set>

#include "common/kv/memory/mem_kv_store.h"
#include "common/lease/lease_table.h"
#include "common/sim/sim_runtime.h"
#include "gtest/gtest.h"

namespace escapement::lease {
namespace lease_keeper_test {

constexpr uint32_t kCount = 8;
constexpr absl::Duration kTtl = absl::Seconds(5);

// One instance: its client, its keeper, and the callbacks it received.
class Instance {
 public:
  Instance(sim::SimRuntime& runtime, kv::MemKvStore& store, const std::string& name,
           bool hesitates = false, std::vector<std::string> dead = {})
      : executor_(runtime.NewExecutor(name)),
        client_(store, runtime, ClientOptions(name)),
        keeper_(client_, runtime, executor_,
                {.kind = "queue_shard",
                 .count = kCount,
                 .instance = name,
                 .dead_instances = std::move(dead),
                 .ttl = kTtl},
                MakeCallbacks(hesitates)) {
    executor_->Post([this] { keeper_.Start(); });
  }

  std::set<uint32_t> Valid() const {
    std::set<uint32_t> valid;
    for (uint32_t i = 0; i < kCount; ++i) {
      if (keeper_.Valid(i)) valid.insert(i);
    }
    return valid;
  }
  void Stop() { executor_->Stop(); }
  LeaseKeeper& keeper() { return keeper_; }
  kv::KvClient& client() { return client_; }
  const std::shared_ptr<Executor>& executor() { return executor_; }

  std::map<uint32_t, HeldLease> held;  // by the callbacks so far
  std::vector<HeldLease> acquired;     // every acquired lease, in order
  std::map<uint32_t, Closure> wanted;  // wanted releases

 private:
  static kv::KvClient::Options ClientOptions(const std::string& name) {
    kv::KvClient::Options options;
    options.name = name;
    return options;
  }
  LeaseKeeper::Callbacks MakeCallbacks(bool hesitates) {
    LeaseKeeper::Callbacks callbacks;
    callbacks.on_acquired = [this](const HeldLease& lease) {
      held[lease.index] = lease;
      acquired.push_back(lease);
    };
    callbacks.on_lost = [this](uint32_t index) { held.erase(index); };
    if (hesitates) {
      callbacks.on_release_wanted = [this](uint32_t index, Closure release) {
        wanted[index] = std::move(release);
      };
    }
    return callbacks;
  }

  std::shared_ptr<Executor> executor_;
  kv::KvClient client_;
  LeaseKeeper keeper_;
};

class LeaseKeeperTest : public ::testing::Test {
 protected:
  Instance& Start(const std::string& name, bool hesitates = false) {
    instances_[name] = std::make_unique<Instance>(runtime_, store_, name, hesitates);
    return *instances_[name];
  }
  Instance& StartKnowingDead(const std::string& name, std::vector<std::string> dead) {
    instances_[name] =
        std::make_unique<Instance>(runtime_, store_, name, /*hesitates=*/false, std::move(dead));
    return *instances_[name];
  }
  // Like a process that is paused or dead: none of its code runs.
  void Kill(const std::string& name) { instances_.at(name)->Stop(); }

  // Advances in small steps. At each step it checks that no lease is valid for two instances.
  void Advance(absl::Duration duration) {
    for (absl::Duration t; t < duration; t += absl::Milliseconds(50)) {
      runtime_.AdvanceBy(absl::Milliseconds(50));
      std::set<uint32_t> seen;
      for (const auto& [name, instance] : instances_) {
        for (uint32_t index : instance->Valid()) {
          EXPECT_TRUE(seen.insert(index).second)
              << "lease " << index << " is valid twice, once for " << name;
        }
      }
    }
  }

  sim::SimRuntime runtime_{1};
  kv::MemKvStore store_{runtime_, kv::MemKvStore::Options()};
  std::map<std::string, std::unique_ptr<Instance>> instances_;
};

TEST_F(LeaseKeeperTest, TheFirstInstanceTakesAllAtOnce) {
  Instance& a = Start("a");
  Advance(absl::Milliseconds(200));
  EXPECT_EQ(a.Valid().size(), kCount);
  EXPECT_EQ(a.held.size(), kCount);
  EXPECT_EQ(a.held[0].epoch, 1u);
  EXPECT_EQ(a.held[0].former_owner_end, absl::InfinitePast());
}

TEST_F(LeaseKeeperTest, ANewInstanceHasItsShareWithinFiveSeconds) {
  Instance& a = Start("a");
  Advance(absl::Seconds(2));
  Instance& b = Start("b");
  Instance& c = Start("c");
  Advance(absl::Seconds(5));
  EXPECT_EQ(a.Valid().size() + b.Valid().size() + c.Valid().size(), kCount);
  for (Instance* instance : {&a, &b, &c}) {
    EXPECT_GE(instance->Valid().size(), 2u);
    EXPECT_LE(instance->Valid().size(), 3u);
  }
}

TEST_F(LeaseKeeperTest, DeadInstanceLosesItsLeasesWithinTtlPlusTwoSeconds) {
  Instance& a = Start("a");
  Instance& b = Start("b");
  Advance(absl::Seconds(8));
  ASSERT_EQ(a.Valid().size(), 4u);
  const std::set<uint32_t> of_b = b.Valid();
  Kill("b");
  Advance(kTtl - absl::Milliseconds(1200));
  EXPECT_EQ(a.Valid().size(), 4u) << "not before its leases have ended";
  Advance(absl::Milliseconds(3200));
  EXPECT_EQ(a.Valid().size(), kCount);
  for (uint32_t index : of_b) {
    EXPECT_GT(a.held[index].former_owner_end, absl::InfinitePast());
    EXPECT_GE(a.held[index].epoch, 2u);
  }
}

TEST_F(LeaseKeeperTest, LeasesOfAProvenDeadInstanceAreTakenAtOnce) {
  Instance& a = Start("a");
  Start("b");
  Advance(absl::Seconds(8));
  ASSERT_EQ(a.Valid().size(), 4u);
  Kill("b");
  instances_.erase("b");
  Instance& c = StartKnowingDead("c", {"older", "b"});
  Advance(absl::Milliseconds(200));
  EXPECT_EQ(c.Valid().size(), 4u);
  for (const auto& [index, lease] : c.held) {
    EXPECT_TRUE(lease.former_owner_lost);
    EXPECT_TRUE(lease.former_owner_dead);
  }
  EXPECT_EQ(a.Valid().size(), 4u);
}

TEST_F(LeaseKeeperTest, OnlyAReleasedLeaseHasNoLostOwner) {
  Instance& a = Start("a");
  Advance(absl::Seconds(2));
  bool released = false;
  a.executor()->Post([&] { a.keeper().Release([&] { released = true; }); });
  Advance(absl::Seconds(1));
  ASSERT_TRUE(released);
  Kill("a");
  Instance& b = Start("b");
  Advance(absl::Seconds(2));
  ASSERT_EQ(b.Valid().size(), kCount);
  for (const auto& [index, lease] : b.held) EXPECT_FALSE(lease.former_owner_lost);
  Kill("b");
  Instance& c = Start("c");
  Advance(kTtl + absl::Seconds(2));
  ASSERT_EQ(c.Valid().size(), kCount);
  for (const auto& [index, lease] : c.held) {
    EXPECT_TRUE(lease.former_owner_lost);
    EXPECT_FALSE(lease.former_owner_dead);
  }
}

TEST_F(LeaseKeeperTest, APausedHolderDoubtsItsLeasesBeforeAnybodyTakesThem) {
  Instance& a = Start("a");
  Advance(absl::Seconds(1));
  Kill("a");
  Start("b");
  // Advance() checks that both are never valid at once; the paused instance never learned of the
  // change.
  Advance(absl::Seconds(10));
  EXPECT_TRUE(a.Valid().empty());
  EXPECT_EQ(a.held.size(), kCount);
}

TEST_F(LeaseKeeperTest, ReleaseMakesAllLeasesFreeAtOnce) {
  Instance& a = Start("a");
  Instance& b = Start("b");
  Advance(absl::Seconds(8));
  bool released = false;
  a.executor()->Post([&] { a.keeper().Release([&] { released = true; }); });
  Advance(absl::Seconds(2));
  EXPECT_TRUE(released);
  EXPECT_TRUE(a.held.empty());
  EXPECT_EQ(b.Valid().size(), kCount);
}

TEST_F(LeaseKeeperTest, APausedKeeperGivesAllBackAndTakesNoneUntilItResumes) {
  Instance& a = Start("a", /*hesitates=*/true);
  runtime_.AdvanceBy(absl::Seconds(1));
  ASSERT_EQ(a.Valid().size(), kCount);
  bool none_held = false;
  a.executor()->Post([&] { a.keeper().Pause([&] { none_held = true; }); });
  runtime_.AdvanceBy(absl::Seconds(1));
  // It finishes its work first.
  ASSERT_EQ(a.wanted.size(), kCount);
  EXPECT_EQ(a.Valid().size(), kCount);
  EXPECT_FALSE(none_held);
  a.executor()->Post([&] {
    for (auto& [index, release] : std::exchange(a.wanted, {})) release();
  });
  runtime_.AdvanceBy(absl::Milliseconds(10));
  EXPECT_TRUE(none_held);
  EXPECT_TRUE(a.held.empty());
  // Another one has all of them at once: it sees no other member.
  Instance& b = Start("b");
  runtime_.AdvanceBy(absl::Milliseconds(100));
  EXPECT_EQ(b.Valid().size(), kCount);
  runtime_.AdvanceBy(absl::Seconds(20));
  EXPECT_EQ(b.Valid().size(), kCount);
  EXPECT_TRUE(a.held.empty());
  a.executor()->Post([&] { a.keeper().Resume(); });
  runtime_.AdvanceBy(absl::Seconds(5));
  EXPECT_EQ(a.Valid().size(), kCount / 2);
}

TEST_F(LeaseKeeperTest, LeasesThatArriveDuringAPauseAreGivenBack) {
  Instance& a = Start("a");
  bool none_held = false;
  // The first step has not ended.
  a.executor()->Post([&] { a.keeper().Pause([&] { none_held = true; }); });
  runtime_.AdvanceBy(absl::Seconds(1));
  EXPECT_TRUE(none_held);
  EXPECT_TRUE(a.held.empty());
  a.executor()->Post([&] { a.keeper().Resume(); });
  runtime_.AdvanceBy(absl::Seconds(1));
  EXPECT_EQ(a.Valid().size(), kCount);
}

TEST_F(LeaseKeeperTest, HolderFinishesItsWorkBeforeALeaseMoves) {
  Instance& a = Start("a", /*hesitates=*/true);
  Advance(absl::Seconds(1));
  Instance& b = Start("b");
  Advance(absl::Seconds(12));
  EXPECT_EQ(a.wanted.size(), 4u);
  EXPECT_EQ(a.Valid().size(), kCount) << "renewed until it lets go";
  EXPECT_TRUE(b.Valid().empty());
  for (auto& [index, release] : a.wanted) a.executor()->Post(std::move(release));
  Advance(absl::Seconds(2));
  EXPECT_EQ(a.Valid().size(), 4u);
  EXPECT_EQ(b.Valid().size(), 4u);
}

// So the renewals of an idle machine are committed together and synced once.
TEST_F(LeaseKeeperTest, KeepersRenewAtTheSameBeatsOfTheStore) {
  Instance& a = Start("a");
  Advance(absl::Milliseconds(300));
  Start("b");
  Advance(absl::Milliseconds(350));
  Start("c");
  Advance(absl::Seconds(6));
  std::vector<absl::Time> ends;
  a.client().Scan({.cf = kv::ColumnFamily::kMembers}, a.executor(),
                  [&](const absl::StatusOr<kv::ScanResult>& result) {
                    ASSERT_TRUE(result.ok()) << result.status();
                    for (const kv::Entry& entry : result->entries)
                      ends.push_back(DecodeMemberValue(entry.value).value());
                  });
  runtime_.AdvanceBy(absl::Milliseconds(50));
  ASSERT_EQ(ends.size(), 3u);
  for (absl::Time end : ends) {
    const absl::Duration renewed_at = (end - kTtl - absl::UnixEpoch()) % absl::Seconds(1);
    EXPECT_GE(renewed_at, absl::Milliseconds(500)) << end;
    EXPECT_LT(renewed_at, absl::Milliseconds(520)) << end;
  }
}

TEST_F(LeaseKeeperTest, DropAllReacquiresLeasesWithTheNextEpoch) {
  Instance& a = Start("a");
  Advance(absl::Seconds(1));
  const uint64_t before = a.held[3].epoch;
  a.executor()->Post([&] { a.keeper().DropAll(); });
  runtime_.RunUntilIdle();
  EXPECT_TRUE(a.held.empty());
  Advance(absl::Seconds(2));
  EXPECT_EQ(a.held.size(), kCount);
  EXPECT_EQ(a.held[3].epoch, before + 1);
}

TEST_F(LeaseKeeperTest, AFencedCommitOfAFormerHolderDoesNotApply) {
  Instance& a = Start("a");
  Advance(absl::Seconds(1));
  const kv::Condition fence = a.keeper().Fence(0);
  const auto write = [&] {
    absl::Status status = absl::UnknownError("no answer");
    kv::Commit commit;
    commit.fence = {fence};
    commit.groups.push_back({.mutations = {{.key = "k", .value = "v"}}});
    a.client().CommitAsync(std::move(commit), a.executor(),
                           [&](absl::StatusOr<kv::CommitResult> r) { status = r.status(); });
    runtime_.AdvanceBy(absl::Milliseconds(100));
    return status;
  };
  EXPECT_TRUE(write().ok());
  a.executor()->Post([&] { a.keeper().DropAll(); });
  Advance(absl::Seconds(2));
  EXPECT_TRUE(absl::IsFailedPrecondition(write()));
}

TEST_F(LeaseKeeperTest, EpochsOnlyGrow) {
  std::map<uint32_t, uint64_t> last;
  for (int round = 0; round < 4; ++round) {
    const std::string name = "instance-" + std::to_string(round);
    Instance& instance = Start(name);
    Advance(absl::Seconds(9));
    ASSERT_EQ(instance.Valid().size(), kCount);
    for (const HeldLease& lease : instance.acquired) {
      EXPECT_GT(lease.epoch, last[lease.index]);
      last[lease.index] = lease.epoch;
    }
    Kill(name);
  }
}

}  // namespace lease_keeper_test
}  // namespace escapement::lease
