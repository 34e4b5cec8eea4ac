#include "common/tzdata/tzdata_gate.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/memory/mem_kv_store.h"
#include "common/sim/sim_runtime.h"
#include "common/tzdata/tzdata_table.h"
#include "gtest/gtest.h"

namespace escapement::tzdata {
namespace tzdata_gate_test {

using kv::ColumnFamily;

constexpr int64_t kStart = 1'772'323'200;  // 2026-03-01T00:00:00Z, the begin of the world
constexpr int64_t kDay = 86'400;

using Spans = std::vector<cron::OffsetSpan>;

Database DatabaseOf(std::string revision, std::map<std::string, Spans> zones) {
  return {.revision = std::move(revision), .zones = [zones = std::move(zones)] {
            std::vector<cron::Zone> made;
            for (const auto& [name, spans] : zones)
              made.push_back(cron::Zone::FromSpans(name, spans));
            return made;
          }};
}

// Zone A is moved forward tomorrow, or not; B next year; C never.
Database OldRules() {
  return DatabaseOf("2026a",
                    {{"Test/A", {{.offset = 0}, {.begin = kStart + kDay, .offset = 3600}}},
                     {"Test/B", {{.offset = 0}, {.begin = kStart + 300 * kDay, .offset = 3600}}},
                     {"Test/C", {{.offset = 3600}}}});
}
Database NewRules(std::string revision = "2026b") {
  return DatabaseOf(std::move(revision),
                    {{"Test/A", {{.offset = 0}}},
                     {"Test/B", {{.offset = 0}, {.begin = kStart + 301 * kDay, .offset = 3600}}},
                     {"Test/C", {{.offset = 3600}}},
                     {"Test/D", {{.offset = 7200}}}});
}

class TzdataGateTest : public ::testing::Test {
 protected:
  TzdataGateTest()
      : store_process_(world_, "store"),
        store_(std::make_unique<kv::MemKvStore>(store_process_, StoreOptions())) {}
  ~TzdataGateTest() override {
    for (auto& [name, instance] : instances_) instance.process->Kill();
  }

  struct Instance {
    std::unique_ptr<sim::SimProcess> process;
    std::unique_ptr<Metrics> metrics;
    std::unique_ptr<TzdataGate> gate;
    int opened = 0, closed = 0;
  };
  Instance& Start(const std::string& name, Database database) {
    Instance& instance = instances_[name];
    instance.process = std::make_unique<sim::SimProcess>(world_, name);
    instance.metrics = std::make_unique<Metrics>();
    instance.gate = std::make_unique<TzdataGate>(
        TzdataGate::Options{
            .database = std::move(database), .instance = name, .metrics = instance.metrics.get()},
        *store_, *instance.process, [&instance] { ++instance.opened; },
        [&instance] { ++instance.closed; });
    instance.gate->Start();
    return instance;
  }
  void Kill(const std::string& name) {
    instances_[name].process->Kill();
    instances_.erase(name);
  }

  kv::MemKvStore::Options StoreOptions() {
    kv::MemKvStore::Options options;
    options.on_durable = [this](const kv::CommitRecord& record) {
      bool wrote = false;
      for (size_t g = 0; g < record.request->groups.size(); ++g) {
        for (const kv::Mutation& mutation : record.request->groups[g].mutations)
          wrote |= record.verdicts[g].applied && mutation.key == kRevisionKey;
      }
      if (wrote) ++revision_commits_;
    };
    return options;
  }
  std::string Meta(absl::string_view key) const {
    const auto& meta = store_->disk()->families[static_cast<size_t>(ColumnFamily::kMeta)];
    const auto it = meta.find(key);
    return it == meta.end() ? "" : it->second;
  }
  void Advance(absl::Duration duration) { world_.AdvanceBy(duration); }

  sim::SimWorld world_{1};
  sim::SimProcess store_process_;
  std::unique_ptr<kv::MemKvStore> store_;
  std::map<std::string, Instance> instances_;
  int revision_commits_ = 0;
};

TEST_F(TzdataGateTest, TheFirstProcessesAdoptTheirRevisionOnce) {
  Instance& a = Start("a", OldRules());
  Instance& b = Start("b", OldRules());
  EXPECT_FALSE(a.gate->Open());
  EXPECT_TRUE(absl::StrContains(a.metrics->Serialize(),
                                "escapement_tzdata_info{rev_in_store=\"\",version=\"2026a\"} 1"));
  Advance(absl::Seconds(1));
  EXPECT_TRUE(a.gate->Open());
  EXPECT_TRUE(b.gate->Open());
  EXPECT_EQ(a.opened, 1);
  EXPECT_EQ(b.opened, 1);
  EXPECT_EQ(revision_commits_, 1);
  EXPECT_EQ(Meta(kRevisionKey), "2026a");
  EXPECT_EQ(Meta(kSwitchKey), "");
  const auto rules = DecodeRules(Meta(ZoneRulesKey("Test/A")));
  ASSERT_TRUE(rules.has_value());
  EXPECT_EQ(rules->spans.size(), 2u);
  EXPECT_LT(rules->begin, world_.Now() - absl::Hours(365 * 24));
  EXPECT_GT(rules->end, world_.Now() + absl::Hours(3650 * 24));
  EXPECT_TRUE(
      absl::StrContains(a.metrics->Serialize(),
                        "escapement_tzdata_info{rev_in_store=\"2026a\",version=\"2026a\"} 1"));
}

TEST_F(TzdataGateTest, NewerProcessSwitchesTheStoreAndOlderOnesClose) {
  Instance& old = Start("old", OldRules());
  Advance(absl::Seconds(1));
  Instance& fresh = Start("new", NewRules());
  Advance(absl::Seconds(1));
  EXPECT_TRUE(fresh.gate->Open());
  EXPECT_FALSE(old.gate->Open());
  EXPECT_EQ(old.opened, 1);
  EXPECT_EQ(old.closed, 1);
  EXPECT_EQ(revision_commits_, 2);
  const auto change = DecodeSwitch(Meta(kSwitchKey));
  ASSERT_TRUE(change.has_value());
  EXPECT_EQ(change->old_revision, "2026a");
  EXPECT_EQ(change->new_revision, "2026b");
  // The switch was one second ago, give or take the store's time.
  EXPECT_LE(change->time, world_.Now());
  EXPECT_GE(change->time, world_.Now() - absl::Seconds(1));
  // Only A differs within reach. The store keeps B's new rules as well.
  ASSERT_EQ(change->before.size(), 1u);
  EXPECT_EQ(change->before.begin()->first, "Test/A");
  EXPECT_EQ(change->before.begin()->second.spans.size(), 2u);
  EXPECT_EQ(DecodeRules(Meta(ZoneRulesKey("Test/A")))->spans.size(), 1u);
  EXPECT_EQ(DecodeRules(Meta(ZoneRulesKey("Test/B")))->spans[1].begin, kStart + 301 * kDay);
  EXPECT_NE(Meta(ZoneRulesKey("Test/D")), "");
  EXPECT_TRUE(
      absl::StrContains(old.metrics->Serialize(),
                        "escapement_tzdata_info{rev_in_store=\"2026b\",version=\"2026a\"} 1"));
}

TEST_F(TzdataGateTest, AnOlderProcessWaitsUntilItsRevisionIsInForce) {
  Start("new", NewRules());
  Advance(absl::Seconds(1));
  Instance& old = Start("old", OldRules());
  Instance& unknown = Start("unknown", DatabaseOf("unknown-0123456789abcdef", {}));
  Advance(absl::Seconds(30));
  EXPECT_FALSE(old.gate->Open());
  EXPECT_FALSE(unknown.gate->Open());
  EXPECT_EQ(old.opened, 0);
  EXPECT_EQ(Meta(kRevisionKey), "2026b");
  // The same happens if the store is restored from an older copy.
  Kill("new");
  sim::SimProcess process(world_, "operator");
  kv::KvClient::Options options;
  options.name = "operator";
  kv::KvClient client(*store_, process, std::move(options));
  kv::Commit back;
  back.groups = {{.mutations = {{.key = std::string(kRevisionKey), .value = "2026a"}}}};
  client.CommitAsync(std::move(back), process.NewExecutor("operator"),
                     [](absl::StatusOr<kv::CommitResult>) {});
  Advance(absl::Seconds(2));
  EXPECT_TRUE(old.gate->Open());
  EXPECT_EQ(old.opened, 1);
  EXPECT_EQ(old.closed, 0);
  EXPECT_EQ(unknown.opened, 0);
}

TEST_F(TzdataGateTest, AClosedGateStaysClosed) {
  Instance& old = Start("old", OldRules());
  Advance(absl::Seconds(1));
  Start("new", NewRules());
  Advance(absl::Seconds(1));
  Start("newest", NewRules("2026c"));
  Advance(absl::Seconds(5));
  EXPECT_EQ(Meta(kRevisionKey), "2026c");
  EXPECT_EQ(old.opened, 1);
  EXPECT_EQ(old.closed, 1);
  EXPECT_EQ(DecodeSwitch(Meta(kSwitchKey))->before.size(), 0u);
}

TEST_F(TzdataGateTest, ExactlyOneNewerProcessSwitchesEvenIfSomeDie) {
  Start("old", OldRules());
  Advance(absl::Seconds(1));
  for (int i = 0; i < 20; ++i) {
    Start("dies", NewRules());
    Advance(absl::Microseconds(20 * i));
    Kill("dies");
  }
  Start("b", NewRules());
  Start("c", NewRules());
  Advance(absl::Seconds(2));
  EXPECT_TRUE(instances_["b"].gate->Open());
  EXPECT_TRUE(instances_["c"].gate->Open());
  EXPECT_EQ(revision_commits_, 2);
  EXPECT_EQ(DecodeSwitch(Meta(kSwitchKey))->before.size(), 1u);
}

TEST_F(TzdataGateTest, GateWatchesAgainAfterAStoreRestart) {
  Instance& old = Start("old", OldRules());
  Advance(absl::Seconds(1));
  store_->Crash(kv::MemKvStore::Unsynced::kLost);
  Advance(absl::Seconds(3));
  EXPECT_TRUE(old.gate->Open());
  store_->Restart();
  Advance(absl::Seconds(3));
  Start("new", NewRules());
  Advance(absl::Seconds(3));
  EXPECT_FALSE(old.gate->Open());
  EXPECT_EQ(old.closed, 1);
}

TEST(DatabaseTest, ThisMachinesRevisionIsTheVersionOfItsFiles) {
  const Database database = ThisMachine();
  EXPECT_EQ(database.revision, cron::TzdataVersion());
  const std::vector<cron::Zone> zones = database.zones();
  EXPECT_GT(zones.size(), 400u);
  // Without a version, the rules themselves are hashed.
  const std::string unknown = RevisionOf(zones);
  EXPECT_EQ(unknown, RevisionOf(ThisMachine().zones()));
  EXPECT_EQ(unknown.size(), 24u);
  EXPECT_NE(unknown, RevisionOf({zones.begin(), zones.end() - 1}));
}

}  // namespace tzdata_gate_test
}  // namespace escapement::tzdata
