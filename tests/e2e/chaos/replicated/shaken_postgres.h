// ShakenPostgres: a PostgreSQL with a synchronous standby, both of which can be killed, paused and
// promoted. After a promotion the former standby is the primary and gets a new standby.
//
// Victims of faults are "postgres" (the whole primary), "postgres.writer" (the backends of stores
// that append) and "postgres.standby". One fault at a time.
//
// Threads: the main thread only.

#ifndef TESTS_E2E_CHAOS_REPLICATED_SHAKEN_POSTGRES_H_
#define TESTS_E2E_CHAOS_REPLICATED_SHAKEN_POSTGRES_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/e2e/chaos/base/chaos_plan.h"
#include "tests/fixtures/postgres/postgres.h"

namespace escapement::chaos {

class ShakenPostgres {
 public:
  // Returns once the standby is synchronous.
  static absl::StatusOr<std::unique_ptr<ShakenPostgres>> Start();

  // The primary's; another one after a promotion.
  std::string socket() const { return primary_->socket(); }
  std::string url() const { return primary_->url(); }

  // Asks once whether the primary has a synchronous standby that streams.
  bool Synced();
  // Waits for it. DEADLINE_EXCEEDED if it has none in time.
  absl::Status AwaitSynced(absl::Duration timeout);

  // UNAVAILABLE, and nothing happens, while the standby is not synchronous, or no writer is there
  // to be a victim. A promotion is complete when it returns, except for the new standby. After a
  // split the promoted server has a standby already, and the old primary goes on without one.
  absl::Status Begin(const Fault& fault);
  // Starts what has ended. A promoted primary gets a new standby, and an old primary ends.
  absl::Status End(const Fault& fault);

 private:
  ShakenPostgres() = default;
  absl::Status BeginWriters(Fault::Kind kind);
  absl::Status BeginServer(fixtures::Postgres& server, Fault::Kind kind);
  absl::Status EndServer(fixtures::Postgres& server, Fault::Kind kind);
  absl::Status AddStandby();

  std::unique_ptr<fixtures::Postgres> primary_;
  std::unique_ptr<fixtures::Postgres> standby_;  // null after a promotion, until its end
  std::unique_ptr<fixtures::Postgres> old_;      // the former primary, during a split
  std::vector<pid_t> writers_;                   // victims of the present fault
};

}  // namespace escapement::chaos

#endif  // TESTS_E2E_CHAOS_REPLICATED_SHAKEN_POSTGRES_H_
