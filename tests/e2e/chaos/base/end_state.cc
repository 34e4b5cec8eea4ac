#include "tests/e2e/chaos/base/end_state.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/base/key_codec.h"
#include "common/kv/engine/commit_engine.h"
#include "common/kv/rocks/rocks_kv_store.h"
#include "common/runtime/system_runtime.h"

namespace escapement::chaos {
namespace {

constexpr uint32_t kPageRows = 10'000;
constexpr uint32_t kPageBytes = 8 << 20;

absl::StatusOr<kv::ScanResult> ScanAndWait(kv::KvStore& store, kv::ScanRequest request) {
  absl::StatusOr<kv::ScanResult> result;
  absl::Notification done;
  store.Scan(std::move(request), [&](absl::StatusOr<kv::ScanResult> answer) {
    result = std::move(answer);
    done.Notify();
  });
  done.WaitForNotification();
  return result;
}

}  // namespace

absl::Status ReadFamily(kv::KvStore& store, kv::ColumnFamily cf, kv::MemDisk* disk) {
  auto& rows = disk->families[static_cast<size_t>(cf)];
  rows.clear();
  kv::ScanRequest request{.cf = cf, .limit = kPageRows, .bytes_max = kPageBytes};
  while (true) {
    auto page = ScanAndWait(store, request);
    if (!page.ok()) return page.status();
    for (kv::Entry& entry : page->entries) rows[entry.key] = std::move(entry.value);
    if (!page->more || page->entries.empty()) return absl::OkStatus();
    request.begin = KeyAfter(page->entries.back().key);
  }
}

absl::StatusOr<EndState> ReadEndState(const std::string& data_dir) {
  SystemRuntime runtime;
  absl::Mutex mutex;
  kv::CommitSeq own = 0;  // the first commit of this opening itself: the clock's hold
  kv::RocksKvStore::Options options;
  options.data_dir = data_dir;
  options.free_bytes_min = 0;
  options.block_cache_bytes = 8 << 20;
  options.on_decided = [&](const auto& records) {
    absl::MutexLock lock(&mutex);
    if (own == 0 && !records.empty()) own = records.front()->seq;
  };
  auto store = kv::RocksKvStore::Open(std::move(options), runtime.clock());
  if (!store.ok()) return store.status();
  EndState state;
  for (size_t i = 0; i < kv::kColumnFamilyCount; ++i) {
    if (absl::Status status = ReadFamily(**store, static_cast<kv::ColumnFamily>(i), &state.disk);
        !status.ok())
      return status;
  }
  absl::MutexLock lock(&mutex);
  state.seq = own == 0 ? (*store)->info().seq : own - 1;
  return state;
}

}  // namespace escapement::chaos
