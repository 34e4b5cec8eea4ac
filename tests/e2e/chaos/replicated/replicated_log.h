// The log of a replicated store after a run, read with SQL and not with the code under test: its
// rows, the commits in it, the state that they make, and whether it is well formed.
//
// Threads: any. ReadLogRows and CheckCopy block on IO.

#ifndef TESTS_E2E_CHAOS_REPLICATED_REPLICATED_LOG_H_
#define TESTS_E2E_CHAOS_REPLICATED_REPLICATED_LOG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/kv/log/log_position.h"
#include "tests/e2e/chaos/base/commit_file.h"
#include "tests/e2e/chaos/base/end_state.h"
#include "tests/simulation/record/history.h"

namespace escapement::chaos {

// All rows of the log "default", also row 0. The log must not have been trimmed.
absl::StatusOr<std::vector<kv::LogRow>> ReadLogRows(const std::string& url);

// Rule "log": sequences are dense, each row's chain follows on the row before, epochs never go
// back, each term begins with a leader row and ends with its handover. So one leader wrote at a
// time.
std::vector<simulation::Violation> CheckLogRows(const std::vector<kv::LogRow>& rows);

// The state after all rows. DATA_LOSS if a row is malformed.
absl::StatusOr<EndState> StateOf(const std::vector<kv::LogRow>& rows);

// The commits of the log, as the leaders of its terms decided them. `folder`: see
// CommitFile::BeginTerm. DATA_LOSS if the files do not hold every commit.
absl::StatusOr<CommitFiles> CommitsOf(const std::vector<kv::LogRow>& rows,
                                      const std::string& folder);

// Rule "copy": a replica's folder holds exactly the state after one of the rows. No process may use
// the folder. A folder without a copy is no violation.
absl::StatusOr<std::vector<simulation::Violation>> CheckCopy(const std::vector<kv::LogRow>& rows,
                                                             const std::string& data_dir);

}  // namespace escapement::chaos

#endif  // TESTS_E2E_CHAOS_REPLICATED_REPLICATED_LOG_H_
