// CellDirectory: the cells of the installation. ChooseCell: the cell of a new tenant.

#ifndef SERVICES_MASTER_CELLS_CELL_DIRECTORY_H_
#define SERVICES_MASTER_CELLS_CELL_DIRECTORY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/client/range_mirror.h"
#include "common/runtime/runtime.h"
#include "escapement/storage/v1/access_records.pb.h"

namespace escapement::master {

inline constexpr uint32_t kHomeCell = 0;

std::string NameOfCell(uint32_t cell);  // cells/{cell}
// INVALID_ARGUMENT for `field` if it is not cells/{0 to 63}.
absl::StatusOr<uint32_t> ParseCellName(absl::string_view name, absl::string_view field);

// The record of cell 0 before its first change.
storage::v1::CellRecord HomeCellRecord();

// A row of `meta` as it was read. nullopt: there is no such cell. DATA_LOSS if it cannot be read.
absl::StatusOr<std::optional<storage::v1::CellRecord>> ReadCellRecord(
    uint32_t cell, const std::optional<std::string>& bytes);
// The same row. FAILED_PRECONDITION: there is no such cell (CELL_NOT_FOUND), or it takes no new
// tenants (CELL_DRAINING).
absl::Status CheckTakesTenants(uint32_t cell, const std::optional<std::string>& bytes);

// Tenants by cell; cells without tenants may be missing.
using TenantCounts = std::map<uint32_t, int64_t>;

// The cell with the fewest tenants for its weight, of those that take new ones and are `served`; of
// equal ones the lowest. nullopt: there is none. Pure.
std::optional<uint32_t> ChooseCell(const std::vector<storage::v1::CellRecord>& cells,
                                   const TenantCounts& tenants,
                                   absl::FunctionRef<bool(uint32_t cell)> served);

// CellDirectory: the cells, current to within milliseconds (range_mirror.h). Its store is that of
// the home cell.
//
// Threads: All from any; the rest on the executor. Stop the executor before it is destroyed.
class CellDirectory {
 public:
  // `client` must outlive it.
  CellDirectory(kv::KvClient& client, std::shared_ptr<Executor> executor);

  void Start() { mirror_.Start(); }
  // Called on the executor once the cells have been read, and after each change. Set it before
  // Start.
  void OnChange(std::function<void()> on_change) { on_change_ = std::move(on_change); }

  // True once the cells have been read.
  bool loaded() const;
  // By their numbers, cell 0 included. Before they have been read, only that one.
  std::vector<storage::v1::CellRecord> All() const;

 private:
  void Take(const kv::RangeMirror::Rows& rows);

  kv::RangeMirror mirror_;
  std::function<void()> on_change_;
  mutable absl::Mutex mutex_;
  bool loaded_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<storage::v1::CellRecord> cells_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_CELLS_CELL_DIRECTORY_H_
