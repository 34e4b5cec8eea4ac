#include "services/store/service/store_tasks.h"

#include "common/kv/replica/move_store.h"
#include "services/store/service/store_flags.h"
#include "services/store/service/store_server.h"

namespace escapement::store {
namespace {

using Move = absl::Status (*)(kv::RocksKvStore::Options, Runtime&, kv::SharedLog&);

std::function<absl::Status(Runtime&)> Moving(Move move) {
  return [move](Runtime& runtime) {
    const StoreServer::Options options = StoreOptionsFromFlags();
    auto log = OpenSharedLog(options.replication, runtime);
    if (!log.ok()) return log.status();
    return move(RocksOptionsOf(options), runtime, **log);
  };
}

}  // namespace

std::function<absl::Status(Runtime&)> StoreTaskFromFlags() {
  switch (StoreTaskFlag()) {
    case StoreTask::kNone:
      return nullptr;
    case StoreTask::kMigrate:
      return [](Runtime&) { return MigrateSharedLog(StoreOptionsFromFlags().replication); };
    case StoreTask::kMoveIntoLog:
      return Moving(&kv::MoveStoreIntoLog);
    case StoreTask::kMoveOutOfLog:
      return Moving(&kv::MoveStoreOutOfLog);
  }
  return nullptr;
}

}  // namespace escapement::store
