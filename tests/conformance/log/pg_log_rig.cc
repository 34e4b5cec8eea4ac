#include "tests/conformance/log/pg_log_rig.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/kv/log/pg/pg_connection.h"
#include "common/runtime/system_runtime.h"
#include "gtest/gtest.h"

namespace escapement::kv {
namespace {

std::unique_ptr<fixtures::Postgres>& Server() {
  static auto* const server = new std::unique_ptr<fixtures::Postgres>();
  return *server;
}

// Ends the server with the tests, not with the process.
class ServerEnds : public testing::Environment {
 public:
  void TearDown() override { Server().reset(); }
};

}  // namespace

Runtime& TestRuntime() {
  static auto* const runtime = new SystemRuntime();
  return *runtime;
}

fixtures::Postgres& TestPostgres() {
  if (Server() == nullptr) {
    auto server = fixtures::Postgres::Start();
    CHECK(server.ok()) << server.status().ToString();
    Server() = *std::move(server);
    testing::AddGlobalTestEnvironment(new ServerEnds());
    const auto migrated = MigratePgSchema(Server()->url(), PgSchemaSteps());
    CHECK(migrated.ok()) << migrated.status().ToString();
  }
  return *Server();
}

std::string NewStoreName() {
  static int stores = 0;
  return absl::StrCat("store-", ++stores);
}

PgRig::PgRig(const std::string& url, const std::string& store, const Options& options)
    : store_(store) {
  for (size_t i = 0; i < kReplicas; ++i) {
    auto log = PgLog::Make(TestRuntime(), {.url = url,
                                           .store = store,
                                           .before_connect = options.before_connect,
                                           .lock_timeout = options.lock_timeout,
                                           .statement_timeout = absl::Seconds(10),
                                           .silence_max = options.silence_max,
                                           .hosts_asked_every = options.hosts_asked_every});
    CHECK(log.ok()) << log.status().ToString();
    logs_.push_back(*std::move(log));
  }
}

void PgRig::Await(absl::Mutex& mu, absl::FunctionRef<bool()> done) {
  absl::MutexLock lock(&mu);
  CHECK(mu.AwaitWithTimeout(absl::Condition(&done), absl::Minutes(1))) << "no answer";
}

std::unique_ptr<LogRig> MakePgRig() { return std::make_unique<PgRig>(); }

}  // namespace escapement::kv
