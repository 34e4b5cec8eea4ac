// CellService: which cells there are, and how they are. CheckCellStore: whether a store can be a
// cell of the installation. ReadCellStatus: how a cell is, from its rows.
//
// Threads: as master_apis.h.

#ifndef SERVICES_MASTER_CELLS_CELL_SERVICE_H_
#define SERVICES_MASTER_CELLS_CELL_SERVICE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "escapement/v1/cell_service.pb.h"
#include "services/master/api/master_apis.h"
#include "services/master/base/master_context.h"
#include "services/master/base/options.h"
#include "services/master/cells/cell_directory.h"

namespace escapement::master {

// A cell as this master reaches it.
struct ReachedCell {
  MasterContext* context = nullptr;  // null: the master does not know the cell yet
  kv::StoreAdmin* admin = nullptr;   // null: nobody to ask for its status
  std::vector<std::string> tenants = {};
  std::string problem = {};  // why it is not served; empty: it is
};

// The store must answer, be that of this cell, have the home cell's layout otherwise, and have no
// key of tokens, or the home cell's. `adopt`: gives it that key, if it has none. So a store that
// was adopted once cannot become a cell of another installation.
//
// `home` is the context of the home cell. `done` runs on its executor. Errors as of CreateCell.
void CheckCellStore(MasterContext& home, OpenedStore store, uint32_t cell, bool adopt,
                    absl::AnyInvocable<void(absl::Status)> done);

// `cell.context` is set and the cell is served. Sets all but name, serving and problem. `done` runs
// on the executor of the cell's context.
void ReadCellStatus(ReachedCell cell,
                    absl::AnyInvocable<void(absl::StatusOr<v1::CellStatus>)> done);

class CellService {
 public:
  // The rest of the master answers these questions. They are asked on the context's executor.
  struct Sources {
    // Counts all tenants that exist.
    std::function<TenantCounts()> tenants = [] { return TenantCounts(); };
    std::function<ReachedCell(uint32_t cell)> reach = [](uint32_t) { return ReachedCell(); };
  };

  // `context` is that of the home cell, and outlives the service. `open_store` makes a client of a
  // cell's store; null: cells cannot be created.
  CellService(MasterContext& context, OpenStore open_store)
      : context_(context), open_store_(std::move(open_store)) {}

  // Before the first call.
  void SetSources(Sources sources) { sources_ = std::move(sources); }

  void CreateCell(v1::CreateCellRequest request, Done<v1::Cell> done);
  void GetCell(v1::GetCellRequest request, Done<v1::Cell> done);
  void ListCells(v1::ListCellsRequest request, Done<v1::ListCellsResponse> done);
  void UpdateCell(v1::UpdateCellRequest request, Done<v1::Cell> done);
  void GetCellStatus(v1::GetCellStatusRequest request, Done<v1::CellStatus> done);

 private:
  // Adds what the record does not have.
  Done<v1::Cell> WithCounts(Done<v1::Cell> done);

  MasterContext& context_;
  const OpenStore open_store_;
  Sources sources_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_CELLS_CELL_SERVICE_H_
