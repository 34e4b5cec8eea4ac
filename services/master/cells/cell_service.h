// CellService: which cells there are, and how they are.
//
// Threads: as master_apis.h.

#ifndef SERVICES_MASTER_CELLS_CELL_SERVICE_H_
#define SERVICES_MASTER_CELLS_CELL_SERVICE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

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
