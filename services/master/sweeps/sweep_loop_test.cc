#include "services/master/sweeps/sweep_loop.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/kv/group_parts.h"
#include "common/kv/memory/mem_kv_store.h"
#include "common/sim/sim_runtime.h"
#include "gtest/gtest.h"
#include "services/master/base/limits.h"

namespace escapement::master {
namespace sweep_loop_test {

using kv::ColumnFamily;

constexpr absl::Duration kRetention = absl::Hours(1);
constexpr absl::Duration kEvery = absl::Minutes(10);

std::string Prefix(absl::string_view tenant) { return absl::StrCat(tenant, "/"); }
std::string RowKey(absl::string_view tenant, absl::Time time, int number = 0) {
  return absl::StrCat(Prefix(tenant), absl::Dec(ToMicros(time), absl::kZeroPad20), "-", number);
}
std::optional<std::pair<absl::Time, std::string>> Read(absl::string_view key) {
  const size_t slash = key.find('/');
  int64_t micros = 0;
  if (slash == absl::string_view::npos || !absl::SimpleAtoi(key.substr(slash + 1, 20), &micros))
    return std::nullopt;
  return std::pair(FromMicros(micros), std::string(key.substr(0, slash)));
}

class SweepLoopTest : public ::testing::Test {
 protected:
  SweepLoopTest() { runtime_.AdvanceBy(absl::Seconds(1)); }
  ~SweepLoopTest() override { executor_->Stop(); }

  // Adds a row to those that PutAll commits.
  void Put(ColumnFamily cf, const std::string& key, const std::string& value = "") {
    rows_.mutations.push_back(kv::Put(cf, key, value));
  }
  void PutAll() {
    kv::Commit commit;
    commit.groups.push_back(std::exchange(rows_, {}));
    client_.CommitAsync(std::move(commit), executor_,
                        [](const absl::StatusOr<kv::CommitResult>& result) {
                          EXPECT_TRUE(result.ok()) << result.status();
                        });
    runtime_.AdvanceBy(absl::Seconds(1));
  }
  size_t Count(ColumnFamily cf) const {
    return store_.disk()->families[static_cast<size_t>(cf)].size();
  }
  bool Has(ColumnFamily cf, const std::string& key) const {
    return store_.disk()->families[static_cast<size_t>(cf)].count(key) > 0;
  }
  absl::Time Now() { return runtime_.world().Now(); }

  sim::SimRuntime runtime_{1};
  kv::MemKvStore store_{runtime_, kv::MemKvStore::Options()};
  std::shared_ptr<Executor> executor_ = runtime_.NewExecutor("master");
  kv::KvClient client_{store_, runtime_, kv::KvClient::Options()};
  kv::Group rows_;
  Metrics registry_;
  Counter& deleted_ = *registry_.GetCounter("deleted", "deletions");
};

TEST_F(SweepLoopTest, OldRowsOfEveryTenantAreDeletedAndCounted) {
  constexpr int kOld = 3 * kSweepRowsMax / 2;
  std::vector<std::string> kept;
  for (const char* tenant : {"a", "b", "c"}) {
    for (int i = 0; i < kOld; ++i)
      Put(ColumnFamily::kAudit, RowKey(tenant, Now() - 2 * kRetention, i));
    for (int i = 0; i < 10; ++i) {
      kept.push_back(RowKey(tenant, Now(), i));
      Put(ColumnFamily::kAudit, kept.back());
    }
  }
  Put(ColumnFamily::kAudit, "broken");
  PutAll();
  SweptRows rows = SweptByTime(ColumnFamily::kAudit, kRetention, &Read, &Prefix);
  rows.deleted = &deleted_;
  SweepLoop loop(client_, executor_, kEvery, {rows});
  loop.Start();
  runtime_.AdvanceBy(absl::Minutes(1));
  EXPECT_EQ(Count(ColumnFamily::kAudit), kept.size());
  for (const std::string& key : kept) EXPECT_TRUE(Has(ColumnFamily::kAudit, key)) << key;
  EXPECT_EQ(deleted_.Value(), 3 * kOld + 1);
  runtime_.AdvanceBy(kRetention + kEvery);
  EXPECT_EQ(Count(ColumnFamily::kAudit), 0u) << "the next sweeps find what is old by then";
}

TEST_F(SweepLoopTest, EveryFamilyIsSweptWithinItsRange) {
  SweptRows all{.cf = ColumnFamily::kOperations};
  all.delete_old = [](const kv::ScanResult& page, absl::Time, kv::Commit& commit) {
    for (const kv::Entry& entry : page.entries) {
      if (entry.value == "old")
        commit.groups.emplace_back().mutations.push_back(
            kv::Delete(ColumnFamily::kOperations, entry.key));
    }
    return std::nullopt;
  };
  SweptRows part = all;
  part.cf = ColumnFamily::kKeys;
  part.range = {"k", "m"};
  part.delete_old = [](const kv::ScanResult& page, absl::Time, kv::Commit& commit) {
    for (const kv::Entry& entry : page.entries)
      commit.groups.emplace_back().mutations.push_back(kv::Delete(ColumnFamily::kKeys, entry.key));
    return std::nullopt;
  };
  for (const char* key : {"j", "k", "l", "m"}) Put(ColumnFamily::kKeys, key);
  Put(ColumnFamily::kOperations, "one", "old");
  Put(ColumnFamily::kOperations, "two", "new");
  PutAll();
  SweepLoop loop(client_, executor_, kEvery, {all, part});
  loop.Start();
  runtime_.AdvanceBy(absl::Seconds(10));
  EXPECT_TRUE(Has(ColumnFamily::kOperations, "two"));
  EXPECT_EQ(Count(ColumnFamily::kOperations), 1u);
  EXPECT_TRUE(Has(ColumnFamily::kKeys, "j") && Has(ColumnFamily::kKeys, "m"));
  EXPECT_EQ(Count(ColumnFamily::kKeys), 2u);
}

TEST_F(SweepLoopTest, DeletionsThatAreRefusedAreNotCounted) {
  SweptRows rows{.cf = ColumnFamily::kTargetStates};
  rows.deleted = &deleted_;
  rows.delete_old = [](const kv::ScanResult& page, absl::Time, kv::Commit& commit) {
    for (const kv::Entry& entry : page.entries) {
      kv::Group& group = commit.groups.emplace_back();
      group.conditions.push_back(kv::ValueIs(ColumnFamily::kTargetStates, entry.key, "old"));
      group.mutations.push_back(kv::Delete(ColumnFamily::kTargetStates, entry.key));
    }
    return std::nullopt;
  };
  Put(ColumnFamily::kTargetStates, "one", "old");
  Put(ColumnFamily::kTargetStates, "two", "new");
  PutAll();
  SweepLoop loop(client_, executor_, kEvery, {rows});
  loop.Start();
  runtime_.AdvanceBy(absl::Seconds(10));
  EXPECT_EQ(Count(ColumnFamily::kTargetStates), 1u);
  EXPECT_EQ(deleted_.Value(), 1);
}

}  // namespace sweep_loop_test
}  // namespace escapement::master
