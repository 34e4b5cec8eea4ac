// The log of a replicated store after a run, read with SQL and not with the code under test: its
// rows, the commits in it, the state that they make, and whether it is well formed.
//
// Threads: any. ReadLogRows and CheckCopy block on IO.

#ifndef TESTS_E2E_CHAOS_REPLICATED_REPLICATED_LOG_H_
#define TESTS_E2E_CHAOS_REPLICATED_REPLICATED_LOG_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/kv/log/forwarding_log.h"
#include "common/kv/log/log_position.h"
#include "common/kv/rocks/rocks_kv_store.h"
#include "common/process/service_process.h"
#include "services/store/service/store_server.h"
#include "tests/e2e/chaos/base/commit_file.h"
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

// LoggingReplica: a replica of the store over PostgreSQL, put together as services/store does, that
// also writes what it decides while it leads (commit_file.h). It makes a snapshot for each 256 KiB
// of the log.
//
// Threads: as HostedService.

// `rocks` has the options that the flags give. `commits` is the folder of the commit files.
absl::StatusOr<std::unique_ptr<HostedService>> MakeLoggingReplica(
    const ServiceContext& context, const store::StoreServer::Options& flags,
    kv::RocksKvStore::Options rocks, std::string commits);

// NotingLog: a log that knows the term in which this process appends. A leader appends its first
// row before it decides anything, so each decision belongs to the term noted last. It never trims:
// the judge reads the log from its beginning.
//
// Threads: any.

class NotingLog final : public kv::ForwardingLog {
 public:
  using ForwardingLog::ForwardingLog;

  // The highest epoch of an append so far.
  uint64_t epoch() const { return epoch_; }

  void Append(kv::AppendRequest request, std::function<void(kv::AppendResult)> done) override {
    uint64_t noted = epoch_;
    while (noted < request.term.epoch && !epoch_.compare_exchange_weak(noted, request.term.epoch)) {
    }
    inner_.Append(std::move(request), std::move(done));
  }
  void Trim(uint32_t snapshots_kept, Callback<kv::TrimResult> done) override {
    done(kv::TrimResult());
  }

 private:
  std::atomic<uint64_t> epoch_{0};
};

}  // namespace escapement::chaos

#endif  // TESTS_E2E_CHAOS_REPLICATED_REPLICATED_LOG_H_
