#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/kv/log/memory/mem_log.h"
#include "common/kv/log/memory/mem_log_engine.h"
#include "common/sim/sim_process.h"
#include "common/sim/sim_world.h"
#include "tests/conformance/log/log_rig.h"

namespace escapement::kv {
namespace {

class MemRig final : public LogRig {
 public:
  MemRig() : world_(/*seed=*/1), engine_process_(world_, "engine"), engine_(engine_process_) {
    for (size_t i = 0; i < kReplicas; ++i) {
      const std::string name = absl::StrCat("replica-", i);
      processes_.push_back(std::make_unique<sim::SimProcess>(world_, name));
      logs_.push_back(
          std::make_unique<MemLog>(*processes_.back(), engine_, MemLog::Options{.name = name}));
    }
  }

  SharedLog& log(size_t replica) override { return *logs_.at(replica); }
  void Disconnect(size_t replica) override {
    world_.After(absl::Microseconds(world_.events_run() % 1000), "disconnect",
                 [this, replica] { engine_.Disconnect(absl::StrCat("replica-", replica)); });
  }
  void Await(absl::Mutex& mu, absl::FunctionRef<bool()> done) override {
    const bool came = world_.RunUntil(
        [&] {
          absl::MutexLock lock(&mu);
          return done();
        },
        absl::Minutes(1));
    CHECK(came) << "no answer";
  }

 private:
  sim::SimWorld world_;
  sim::SimProcess engine_process_;
  MemLogEngine engine_;
  std::vector<std::unique_ptr<sim::SimProcess>> processes_;
  std::vector<std::unique_ptr<MemLog>> logs_;
};

}  // namespace

std::unique_ptr<LogRig> MakeMemRig() { return std::make_unique<MemRig>(); }

}  // namespace escapement::kv
