#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "common/kv/client/kv_client.h"
#include "common/kv/memory/mem_kv_store.h"
#include "common/sim/sim_runtime.h"
#include "common/storage/children_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/emitter/service/emitter_service.h"
#include "tests/budget/mark.h"
#include "tests/budget/paths.h"
#include "tests/budget/rocks_rig.h"

namespace escapement::budget {
namespace {

constexpr kv::Layout kLayout = {.partitions = 4, .queue_shards = 4};

}  // namespace

void RunEmissionPath(uint64_t events) {
  sim::SimWorld::Options world;
  world.start_time = absl::FromUnixSeconds(1'772'323'200);  // 2026-03-01T00:00:00Z
  sim::SimRuntime runtime(1, world);
  kv::MemKvStore::Options options;
  options.layout = kLayout;
  kv::MemKvStore store(runtime, options);
  const std::shared_ptr<Executor> executor = runtime.NewExecutor("budget");
  kv::KvClient client(store, runtime, kv::KvClient::Options());
  for (uint64_t i = 0; i < events;) {
    kv::Commit commit;
    for (uint64_t n = 0; n < kBatchEvents && i < events; ++n) {
      kv::Group& group = commit.groups.emplace_back();
      const storage::v1::DefinitionRecord definition = AddSchedule(i++, "1 * * * *", &group);
      AddChildren(definition, TimetableOf(definition).value(), runtime.world().Now(), kLayout,
                  group.mutations);
    }
    bool applied = false;
    client.CommitAsync(std::move(commit), executor, [&](absl::StatusOr<kv::CommitResult> result) {
      applied = result.ok() && result->verdicts[0].applied;
    });
    if (!runtime.RunUntil([&] { return applied; }, absl::Seconds(10))) std::abort();
  }
  emitter::EmitterService service({}, store, runtime);
  service.Start();
  // The schedules fire at 00:01; rows are written five seconds ahead.
  const absl::Time begin = world.start_time + absl::Seconds(53);
  runtime.AdvanceBy(begin - runtime.world().Now());
  const auto& rows = store.disk()->families[static_cast<size_t>(kv::ColumnFamily::kEvents)];
  if (!rows.empty()) std::abort();
  escapement_budget_mark();
  const bool done = runtime.RunUntil([&] { return rows.size() == events; }, absl::Seconds(5));
  escapement_budget_mark();
  if (!done) std::abort();
  executor->Stop();
}

}  // namespace escapement::budget
