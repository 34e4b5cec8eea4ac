// SweepLoop: deletes old rows of some column families, page by page with pauses, and begins again a
// while after the end. Every master does it; deleting twice does nothing.
//
// Threads: the executor given.

#ifndef SERVICES_MASTER_SWEEPS_SWEEP_LOOP_H_
#define SERVICES_MASTER_SWEEPS_SWEEP_LOOP_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/kv_store.h"
#include "common/metrics/metrics.h"
#include "common/runtime/runtime.h"

namespace escapement::master {

// The rows of a column family of which old ones are deleted.
struct SweptRows {
  kv::ColumnFamily cf;
  kv::KeyRange range = {};  // an empty end: to the end of the family
  bool keys_only = false;   // the page has no values
  // Adds what deletes the old rows of the page. Returns the key to go on at; nullopt: behind the
  // page. `now` is KvClient::NowLow().
  std::function<std::optional<std::string>(const kv::ScanResult& page, absl::Time now,
                                           kv::Commit& commit)>
      delete_old = nullptr;
  Counter* deleted = nullptr;  // counts the deletions that applied; null: none does
  // True: this sweep reads none of them. Asked when their turn comes; null: they always are read.
  std::function<bool()> idle = nullptr;
};

// Deletes the rows that are older than `retention`. Their keys are in the order of time within a
// tenant, so behind the first row that is kept, the next tenant's begin. A key must never be used
// again, so that its deletion needs no condition. `read`: the row's time and tenant; a row whose
// key cannot be read is deleted. `prefix`: that of a tenant's rows.
SweptRows SweptByTime(
    kv::ColumnFamily cf, absl::Duration retention,
    std::function<std::optional<std::pair<absl::Time, std::string>>(absl::string_view key)> read,
    std::string (*prefix)(absl::string_view tenant));

class SweepLoop {
 public:
  // `every`: from the end of one sweep to the begin of the next. `client` outlives the loop;
  // `executor` is stopped before the loop is destroyed.
  SweepLoop(kv::KvClient& client, std::shared_ptr<Executor> executor, absl::Duration every,
            std::vector<SweptRows> swept)
      : client_(client), executor_(std::move(executor)), every_(every), swept_(std::move(swept)) {}

  void Start() { Step(0, {}); }

 private:
  // Sweeps a page of swept_[index] from `position` on; empty: from the begin of its range.
  void Step(size_t index, std::string position);
  void OnPage(size_t index, const kv::ScanResult& page);
  void OnCommitted(const SweptRows& rows, const std::vector<size_t>& deletions,
                   const absl::StatusOr<kv::CommitResult>& result) const;
  void StartLater();

  kv::KvClient& client_;
  const std::shared_ptr<Executor> executor_;
  const absl::Duration every_;
  const std::vector<SweptRows> swept_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SWEEPS_SWEEP_LOOP_H_
