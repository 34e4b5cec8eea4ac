// CheckCellStore: whether a store can be a cell of the installation.

#ifndef SERVICES_MASTER_CELLS_CELL_CHECK_H_
#define SERVICES_MASTER_CELLS_CELL_CHECK_H_

#include <cstdint>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "services/master/base/master_context.h"
#include "services/master/base/options.h"

namespace escapement::master {

// Its store must answer, be that of this cell, have the home cell's layout otherwise, and have no
// key of tokens, or the home cell's. `adopt`: gives it that key, if it has none. So a store that
// was adopted once cannot become a cell of another installation.
//
// `home` is the context of the home cell. `done` runs on its executor. Errors as of CreateCell.
void CheckCellStore(MasterContext& home, OpenedStore store, uint32_t cell, bool adopt,
                    absl::AnyInvocable<void(absl::Status)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_CELLS_CELL_CHECK_H_
