// ReadCellStatus: how a cell is, from its rows.

#ifndef SERVICES_MASTER_CELLS_CELL_STATUS_H_
#define SERVICES_MASTER_CELLS_CELL_STATUS_H_

#include <cstdint>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "escapement/v1/cell_service.pb.h"
#include "services/master/cells/cell_service.h"

namespace escapement::master {

// `cell.context` is set and the cell is served. Sets all but name, serving and problem. `done` runs
// on the executor of the cell's context.
void ReadCellStatus(ReachedCell cell,
                    absl::AnyInvocable<void(absl::StatusOr<v1::CellStatus>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_CELLS_CELL_STATUS_H_
