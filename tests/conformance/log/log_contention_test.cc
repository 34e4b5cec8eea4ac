// Three replicas share a MemLog through many faults. Nothing that one of them calls lasting is ever
// lost, and none believes to lead when another one does.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/kv/log/memory/mem_log.h"
#include "common/kv/log/memory/mem_log_engine.h"
#include "common/sim/sim_process.h"
#include "common/sim/sim_random.h"
#include "common/sim/sim_world.h"
#include "gtest/gtest.h"
#include "tests/conformance/log/log_actor.h"

namespace escapement::kv {
namespace log_contention_test {

using sim::SimProcess;
using sim::SimWorld;

constexpr size_t kReplicas = 3;
constexpr absl::Duration kRun = absl::Minutes(3);

struct Outcome {
  uint64_t rows = 0;   // that lasted, as their leaders know
  uint64_t terms = 0;  // that began
  std::vector<std::string> breaches;
  uint64_t trace_hash = 0;
};

class Contention {
 public:
  Contention(uint64_t seed, LogActor::Mistake mistake)
      : world_(seed),
        random_(seed, "faults"),
        mistake_(mistake),
        engine_process_(world_, "engine"),
        engine_(engine_process_) {
    MemLogFaults faults;
    faults.long_delays = 1000;
    faults.calls_lost = faults.answers_lost = 500;
    faults.blocked = 2000;
    engine_.set_faults(faults);
    engine_.set_on_replicated([this](const LogRow& row) {
      if (row.epoch < last_epoch_) Breach("a row of an older epoch behind a newer one");
      last_epoch_ = row.epoch;
    });
    for (size_t i = 0; i < kReplicas; ++i) Start(i);
    NextFault();
  }
  ~Contention() {
    for (size_t i = 0; i < kReplicas; ++i) Stop(i);
  }

  Outcome Run() {
    world_.AdvanceBy(kRun);
    for (size_t i = 0; i < kReplicas; ++i) Count(i);
    outcome_.trace_hash = world_.trace_hash();
    return outcome_;
  }

 private:
  struct Replica {
    std::unique_ptr<SimProcess> process;
    std::unique_ptr<LogActor> actor;
    uint64_t lives = 0;
  };

  void Start(size_t i) {
    Replica& replica = replicas_[i];
    const std::string name = absl::StrCat("replica-", i);
    SimProcess::Options options;
    options.incarnation = ++replica.lives;
    options.elapsed_rate_ppm = static_cast<int32_t>(random_.Below(400)) - 200;
    options.elapsed_offset = absl::Seconds(random_.Below(1000));
    replica.process = std::make_unique<SimProcess>(world_, name, options);
    LogActor::Options actor;
    actor.owner = absl::StrCat(name, "#", replica.lives);
    actor.mistake = mistake_;
    actor.on_lasting = [this](const LogRow& row) { CheckLasting(row); };
    actor.on_lease = [this](const LogTerm& term) {
      if (engine_.replicated().state().leader != term) Breach("two leaders at once");
    };
    replica.actor = std::make_unique<LogActor>(
        *replica.process,
        std::make_unique<MemLog>(*replica.process, engine_, MemLog::Options{.name = name}),
        std::move(actor));
  }
  void Stop(size_t i) {
    Replica& replica = replicas_[i];
    if (replica.actor == nullptr) return;
    Count(i);
    replica.process->Kill();
    replica.actor.reset();
  }
  void Count(size_t i) {
    if (replicas_[i].actor == nullptr) return;
    outcome_.rows += replicas_[i].actor->rows_lasting();
    outcome_.terms += replicas_[i].actor->terms_led();
  }

  void CheckLasting(const LogRow& row) {
    const auto& rows = engine_.replicated().rows();
    const auto found = rows.find(row.position.seq);
    if (found == rows.end() || found->second.position != row.position)
      Breach(absl::StrCat("row ", row.position.seq, " can be lost"));
  }
  void Breach(std::string what) { outcome_.breaches.push_back(std::move(what)); }

  void NextFault() {
    world_.After(random_.Between(absl::Milliseconds(100), absl::Seconds(4)), "fault", [this] {
      Fault();
      NextFault();
    });
  }
  void Fault() {
    const size_t i = random_.Below(kReplicas);
    const std::string name = absl::StrCat("replica-", i);
    using Direction = MemLogEngine::Direction;
    switch (random_.Below(8)) {
      case 0:
        engine_.Disconnect(name);
        break;
      case 1:
      case 2:
        engine_.Cut(name, random_.Below(2) == 0 ? Direction::kToEngine : Direction::kToClient);
        world_.After(random_.Between(absl::Milliseconds(10), absl::Seconds(6)), "heal",
                     [this, name] { engine_.Heal(name); });
        break;
      case 3:
        engine_.StopReplication();
        world_.After(random_.Between(absl::Milliseconds(10), absl::Seconds(4)), "resume",
                     [this] { engine_.ResumeReplication(); });
        break;
      case 4:
        engine_.Crash();
        break;
      case 5:
        engine_.Failover();
        break;
      case 6:
        if (replicas_[i].actor == nullptr) break;
        Stop(i);
        world_.After(random_.Between(absl::Milliseconds(10), absl::Seconds(3)), "start",
                     [this, i] { Start(i); });
        break;
      case 7:
        if (replicas_[i].actor != nullptr)
          replicas_[i].process->Pause(random_.Between(absl::Milliseconds(10), absl::Seconds(8)));
        break;
    }
  }

  SimWorld world_;
  sim::SimRandom random_;
  const LogActor::Mistake mistake_;
  SimProcess engine_process_;
  MemLogEngine engine_;
  Replica replicas_[kReplicas];
  uint64_t last_epoch_ = 0;
  Outcome outcome_;
};

Outcome RunSeed(uint64_t seed, LogActor::Mistake mistake = LogActor::Mistake::kNone) {
  return Contention(seed, mistake).Run();
}

TEST(LogContention, NothingLastingIsLostAndOneLeads) {
  constexpr uint64_t kSeeds = 300;
  uint64_t rows = 0, terms = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Outcome outcome = RunSeed(seed);
    ASSERT_TRUE(outcome.breaches.empty()) << "seed " << seed << ": " << outcome.breaches.front();
    rows += outcome.rows;
    terms += outcome.terms;
  }
  // Replicas lead and write most of the time, and leaders change.
  EXPECT_GT(rows, kSeeds * 1000);
  EXPECT_GT(terms, kSeeds * 5);
}

TEST(LogContention, SameSeedIsTheSameRun) {
  EXPECT_EQ(RunSeed(7).trace_hash, RunSeed(7).trace_hash);
  EXPECT_NE(RunSeed(7).trace_hash, RunSeed(8).trace_hash);
}

bool Caught(LogActor::Mistake mistake) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    if (!RunSeed(seed, mistake).breaches.empty()) return true;
  }
  return false;
}

TEST(LogContention, AnswerBeforeAcknowledgementIsCaught) {
  EXPECT_TRUE(Caught(LogActor::Mistake::kTrustsPresent));
}

TEST(LogContention, BeliefInShownRowsIsCaught) {
  EXPECT_TRUE(Caught(LogActor::Mistake::kTrustsShown));
}

TEST(LogContention, TakeoverFromLivingLeaderIsCaught) {
  EXPECT_TRUE(Caught(LogActor::Mistake::kLeadsOnFreshState));
}

}  // namespace log_contention_test
}  // namespace escapement::kv
