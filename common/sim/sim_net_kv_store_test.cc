#include "common/sim/sim_net_kv_store.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/memory/mem_kv_store.h"
#include "common/sim/sim_network.h"
#include "common/sim/sim_process.h"
#include "common/sim/sim_world.h"
#include "gtest/gtest.h"

namespace escapement::sim {
namespace sim_net_kv_store_test {

using kv::ColumnFamily;

// A store in a process that can be killed, and started again on its disk.
struct StoreProcess {
  StoreProcess(SimWorld& world) : world(world) { Start(); }
  void Start() {
    process = std::make_unique<SimProcess>(world, "store",
                                           SimProcess::Options{.incarnation = ++incarnation});
    store = std::make_unique<kv::MemKvStore>(*process, kv::MemKvStore::Options{}, disk);
    endpoint.service = store.get();
  }
  void Kill() {
    process->Kill();
    endpoint.service = nullptr;
    store.reset();
    process.reset();
  }
  SimWorld& world;
  uint64_t incarnation = 0;
  std::shared_ptr<kv::MemDisk> disk = std::make_shared<kv::MemDisk>();
  std::unique_ptr<SimProcess> process;
  std::unique_ptr<kv::MemKvStore> store;
  SimStoreEndpoint endpoint{"store", nullptr};
};

struct Client {
  Client(SimNetwork& network, const SimStoreEndpoint& endpoint, const std::string& name = "client")
      : process(network.world(), name),
        store(network, process, endpoint, SimNetKvStore::Options()),
        executor(process.NewExecutor(name)),
        client(store, process,
               {.name = name, .on_session_lost = nullptr, .session_executor = nullptr}) {}
  SimProcess process;
  SimNetKvStore store;
  std::shared_ptr<Executor> executor;
  kv::KvClient client;
};

kv::Commit Append(int number) {
  kv::Group group;
  // Put one key for each application, and require it to be absent: a key that is put twice would
  // hide a doubled application.
  const std::string key = absl::StrCat("k", number);
  group.conditions.push_back(
      {.cf = ColumnFamily::kEvents, .key = key, .kind = kv::Condition::Kind::kAbsent});
  group.mutations.push_back({.cf = ColumnFamily::kEvents, .key = key, .value = "v"});
  kv::Commit commit;
  commit.groups.push_back(std::move(group));
  return commit;
}

class LossyStore : public testing::TestWithParam<uint64_t> {};

TEST_P(LossyStore, CommitAppliesOnceDespiteLossDoublingAndCrashes) {
  SimWorld world(GetParam(), {.post_latency_max = absl::Microseconds(20)});
  SimNetwork network(world, "net");
  StoreProcess store(world);
  Client client(network, store.endpoint);
  network.set_faults({.loss = 100'000, .duplication = 200'000, .long_delay = 50'000});
  int answered = 0;
  int applied = 0;
  for (int i = 0; i < 300; ++i) {
    client.executor->PostAfter(absl::Milliseconds(100) * i, [&, i] {
      client.client.CommitAsync(Append(i), client.executor,
                                [&](absl::StatusOr<kv::CommitResult> result) {
                                  ++answered;
                                  if (result.ok() && result->verdicts[0].applied) ++applied;
                                });
    });
  }
  for (int crash = 1; crash <= 3; ++crash) {
    world.AdvanceBy(absl::Seconds(7));
    if (crash % 2 == 0) {
      store.store->Crash(kv::MemKvStore::Unsynced::kKept);
      world.RunUntilIdle();
    }
    store.Kill();
    world.AdvanceBy(absl::Seconds(1));
    store.Start();
  }
  network.set_faults({});
  world.AdvanceBy(absl::Seconds(30));
  EXPECT_EQ(answered, 300);
  EXPECT_EQ(applied, 300);
  EXPECT_EQ(store.disk->families[static_cast<size_t>(ColumnFamily::kEvents)].size(), 300u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, LossyStore, testing::Range<uint64_t>(0, 10));

// The store's next process does not know answers without a write. So a late copy must not be
// decided there after the client has gone on.
TEST(SimNetKvStore, ACopyOfACommitDoesNotReachTheNextProcessOfTheStore) {
  SimWorld world(7);
  SimNetwork network(world, "net");
  StoreProcess store(world);
  SimProcess process(world, "client");
  SimNetKvStore client(network, process, store.endpoint, SimNetKvStore::Options());
  kv::CommitRequest request;
  client.OpenSession(0, 0, [&](absl::StatusOr<kv::SessionInfo> info) {
    ASSERT_TRUE(info.ok()) << info.status();
    request.session = info->session;
  });
  world.AdvanceBy(absl::Seconds(1));
  request.number = 1;
  request.groups = Append(1).groups;
  absl::Status answer;
  const auto commit = [&] {
    client.Commit(request,
                  [&](absl::StatusOr<kv::CommitResult> result) { answer = result.status(); });
  };
  network.set_faults({.delay_min = absl::Milliseconds(100), .delay_max = absl::Milliseconds(101)});
  commit();
  store.Kill();
  store.Start();
  world.AdvanceBy(absl::Seconds(5));
  EXPECT_TRUE(absl::IsUnavailable(answer)) << answer;
  const auto& events = store.disk->families[static_cast<size_t>(ColumnFamily::kEvents)];
  EXPECT_TRUE(events.empty());
  store.Kill();  // the next commit reaches the first process that it finds
  commit();
  store.Start();
  world.AdvanceBy(absl::Seconds(5));
  EXPECT_TRUE(answer.ok()) << answer;
  EXPECT_EQ(events.size(), 1u);
}

TEST(SimNetKvStore, WatchSeesEveryCommitUntilItLags) {
  SimWorld world(7);
  SimNetwork network(world, "net");
  StoreProcess store(world);
  Client client(network, store.endpoint);
  world.AdvanceBy(absl::Seconds(1));
  std::vector<std::string> seen;
  int lagged = 0;
  auto watch =
      client.client.OpenWatch({.cf = ColumnFamily::kEvents, .begin = "", .end = "z", .from_seq = 0},
                              /*excluding_own=*/false, client.executor,
                              {.on_batch =
                                   [&](kv::WatchBatch batch) {
                                     for (const auto& mutation : batch.mutations)
                                       seen.push_back(mutation.key);
                                   },
                               .on_lagged = [&](absl::Status) { ++lagged; }});
  world.AdvanceBy(absl::Seconds(1));
  for (int i = 0; i < 5; ++i) {
    client.client.CommitAsync(Append(i), client.executor, [](absl::StatusOr<kv::CommitResult>) {});
  }
  world.AdvanceBy(absl::Seconds(1));
  EXPECT_EQ(seen, (std::vector<std::string>{"k0", "k1", "k2", "k3", "k4"}));
  EXPECT_EQ(lagged, 0);
  network.Block("store", "client");
  client.client.CommitAsync(Append(9), client.executor, [](absl::StatusOr<kv::CommitResult>) {});
  world.AdvanceBy(absl::Seconds(3));
  EXPECT_EQ(lagged, 1);
  EXPECT_EQ(seen.size(), 5u);
}

TEST(SimNetKvStore, WatchEndMovedBeforeAScanHasMovedAtTheStore) {
  SimWorld world(7);
  SimNetwork network(world, "net");
  StoreProcess store(world);
  Client client(network, store.endpoint);
  Client writer(network, store.endpoint, "writer");
  world.AdvanceBy(absl::Seconds(1));
  std::set<std::string> seen;
  auto watch =
      client.client.OpenWatch({.cf = ColumnFamily::kEvents,
                               .begin = "a",
                               .end = "z",
                               .from_seq = 0,
                               .then = {{.begin = "k", .end = "k"}}},
                              /*excluding_own=*/false, client.executor,
                              {.on_batch =
                                   [&](kv::WatchBatch batch) {
                                     for (const auto& mutation : batch.mutations)
                                       seen.insert(mutation.key);
                                   },
                               .on_lagged = [](absl::Status) { FAIL() << "nothing is lost"; }});
  world.AdvanceBy(absl::Seconds(1));
  for (int i = 100; i < 500; ++i) {
    writer.client.CommitAsync(Append(i), writer.executor, [](absl::StatusOr<kv::CommitResult>) {});
    const std::string end = absl::StrCat("k", i + 1);
    watch->MoveEnd(1, end);
    client.client.Scan({.cf = ColumnFamily::kEvents, .begin = absl::StrCat("k", i), .end = end},
                       client.executor, [&](absl::StatusOr<kv::ScanResult> result) {
                         ASSERT_TRUE(result.ok());
                         for (const kv::Entry& entry : result->entries) seen.insert(entry.key);
                       });
    // Later ends are sent together with this one and its scan.
    if (i % 4 == 0) world.AdvanceBy(absl::Milliseconds(2));
  }
  world.AdvanceBy(absl::Seconds(3));
  EXPECT_EQ(seen.size(), 400u);
  // The ends arrived in their order.
  writer.client.CommitAsync(Append(499999), writer.executor,
                            [](absl::StatusOr<kv::CommitResult>) {});
  writer.client.CommitAsync(Append(501), writer.executor, [](absl::StatusOr<kv::CommitResult>) {});
  world.AdvanceBy(absl::Seconds(1));
  EXPECT_TRUE(seen.contains("k499999"));
  EXPECT_FALSE(seen.contains("k501"));
}

TEST(SimNetKvStore, AWatchEndsWithItsStore) {
  SimWorld world(7);
  SimNetwork network(world, "net");
  StoreProcess store(world);
  Client client(network, store.endpoint);
  world.AdvanceBy(absl::Seconds(1));
  int lagged = 0;
  auto open = [&] {
    return client.client.OpenWatch(
        {.cf = ColumnFamily::kEvents, .begin = "", .end = "z", .from_seq = 0}, false,
        client.executor, {.on_batch = nullptr, .on_lagged = [&](absl::Status) { ++lagged; }});
  };
  auto watch = open();
  world.AdvanceBy(absl::Seconds(1));
  store.Kill();
  world.AdvanceBy(absl::Seconds(3));
  EXPECT_EQ(lagged, 1);
  auto refused = open();
  world.AdvanceBy(absl::Seconds(3));
  EXPECT_EQ(lagged, 2);
  auto closed = open();
  closed.reset();
  world.AdvanceBy(absl::Seconds(3));
  EXPECT_EQ(lagged, 2);
}

}  // namespace sim_net_kv_store_test
}  // namespace escapement::sim
