// The PostgreSQL of a test program.

#ifndef TESTS_CONFORMANCE_LOG_PG_LOG_RIG_H_
#define TESTS_CONFORMANCE_LOG_PG_LOG_RIG_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "common/kv/log/pg/pg_log.h"
#include "common/runtime/runtime.h"
#include "tests/conformance/log/log_rig.h"
#include "tests/fixtures/postgres/postgres.h"

namespace escapement::kv {

// Started by the first call, from the main thread, with the log's schema.
fixtures::Postgres& TestPostgres();

std::string NewStoreName();

// The machine's.
Runtime& TestRuntime();

class PgRig final : public LogRig {
 public:
  struct Options {
    std::function<absl::Status()> before_connect = nullptr;
    absl::Duration lock_timeout = absl::Milliseconds(200);
    absl::Duration silence_max = absl::Seconds(10);
    absl::Duration hosts_asked_every = absl::Seconds(5);
  };
  PgRig() : PgRig(TestPostgres().url(), NewStoreName(), {}) {}
  PgRig(const std::string& url, const std::string& store, const Options& options);

  SharedLog& log(size_t replica) override { return *logs_.at(replica); }
  void Disconnect(size_t replica) override { logs_.at(replica)->Disconnect(); }
  void Await(absl::Mutex& mu, absl::FunctionRef<bool()> done) override;
  const std::string& store() const { return store_; }
  // The name under which writers of this log connect.
  std::string writer() const { return "escapement-writer-" + store_; }

 private:
  const std::string store_;
  std::vector<std::unique_ptr<PgLog>> logs_;
};

}  // namespace escapement::kv

#endif  // TESTS_CONFORMANCE_LOG_PG_LOG_RIG_H_
