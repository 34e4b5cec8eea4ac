#include <algorithm>

#include "common/lease/lease_table.h"
#include "gtest/gtest.h"

namespace escapement::lease {
namespace lease_plan_test {

// Leases and their holders. The plans of all instances change them, one after the other.
class Cluster {
 public:
  explicit Cluster(size_t count) : leases_(count) {}

  void Add(const std::string& name) { members_.push_back(name); }
  void Remove(const std::string& name) {
    members_.erase(std::find(members_.begin(), members_.end(), name));
    for (SeenLease& lease : leases_) {
      if (lease.owner == name) lease.expired = true;
    }
  }
  std::vector<uint32_t> HeldBy(const std::string& name) const {
    std::vector<uint32_t> held;
    for (uint32_t i = 0; i < leases_.size(); ++i) {
      if (leases_[i].owner == name && !leases_[i].expired) held.push_back(i);
    }
    return held;
  }
  // Returns the number of released leases.
  size_t Round() {
    size_t released = 0;
    for (const std::string& self : members_) {
      const LeasePlan plan =
          PlanLeases({.self = self, .members = members_, .leases = leases_, .held = HeldBy(self)});
      for (uint32_t i : plan.release) leases_[i] = {};
      for (uint32_t i : plan.acquire) leases_[i] = {.owner = self};
      released += plan.release.size();
    }
    return released;
  }
  const std::vector<std::string>& members() const { return members_; }

 private:
  std::vector<std::string> members_;
  std::vector<SeenLease> leases_;
};

TEST(LeasePlanTest, AnyNumberOfInstancesShareWithinOne) {
  for (size_t count : {1, 8, 16, 17}) {
    for (int n = 1; n <= 20; ++n) {
      Cluster cluster(count);
      for (int i = 0; i < n; ++i) {
        cluster.Add("instance-" + std::to_string(i));
        cluster.Round();
      }
      cluster.Round();
      cluster.Round();
      size_t total = 0;
      for (const std::string& name : cluster.members()) {
        const size_t held = cluster.HeldBy(name).size();
        EXPECT_GE(held, count / n);
        EXPECT_LE(held, count / n + 1);
        total += held;
      }
      EXPECT_EQ(total, count);
      EXPECT_EQ(cluster.Round(), 0u) << "a balanced cluster must not move leases";
    }
  }
}

TEST(LeasePlanTest, LeasesOfADeadInstanceAreSharedWithoutMovingOthers) {
  Cluster cluster(12);
  for (const char* name : {"a", "b", "c"}) cluster.Add(name);
  for (int i = 0; i < 3; ++i) cluster.Round();
  const std::vector<uint32_t> before = cluster.HeldBy("a");
  cluster.Remove("b");
  EXPECT_EQ(cluster.Round(), 0u);
  const std::vector<uint32_t> after = cluster.HeldBy("a");
  EXPECT_EQ(after.size(), 6u);
  EXPECT_TRUE(std::includes(after.begin(), after.end(), before.begin(), before.end()));
}

TEST(LeasePlanTest, LiveLeaseOfAnotherInstanceIsNotTaken) {
  const LeasePlan plan =
      PlanLeases({.self = "b", .members = {"b"}, .leases = {{.owner = "a"}, {}}, .held = {}});
  EXPECT_EQ(plan.acquire, std::vector<uint32_t>({1}));
}

TEST(LeasePlanTest, OwnLeasesOfALostSessionAreReacquired) {
  const LeasePlan plan =
      PlanLeases({.self = "a", .members = {"a"}, .leases = {{.owner = "a"}}, .held = {}});
  EXPECT_EQ(plan.acquire, std::vector<uint32_t>({0}));
}

// Found by the simulation: by its row "b" held the lease, so "a" left it to "b". "b" left it to
// "a", the first by name.
TEST(LeasePlanTest, ADroppedLeaseIsTakenByExactlyOneOfTwo) {
  for (const bool expired : {false, true}) {
    const std::vector<SeenLease> leases = {{.owner = "b", .expired = expired}};
    const size_t by_a =
        PlanLeases({.self = "a", .members = {"a", "b"}, .leases = leases, .held = {}})
            .acquire.size();
    const size_t by_b =
        PlanLeases({.self = "b", .members = {"a", "b"}, .leases = leases, .held = {}})
            .acquire.size();
    EXPECT_EQ(by_a + by_b, 1u) << expired;
    EXPECT_EQ(by_b, expired ? 0u : 1u);
  }
}

}  // namespace lease_plan_test
}  // namespace escapement::lease
