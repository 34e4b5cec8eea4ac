// MemLogEngine: the engine that the MemLogs of a simulation share. It commits as a PostgreSQL
// server with a synchronous standby does, and breaks as one:
//
// - A call that writes takes effect when it arrives, is replicated in that order, and is answered
//   and shown to others only then.
// - Crash(): the server starts again. It then shows what it had committed, replicated or not, and
//   answers calls that change nothing by it.
// - Failover(): the standby takes over, without what was not replicated.
// - Restore(): it comes back with another state, as from a backup.
// - Calls and answers are late or lost. With one of them the connection is lost, so the caller does
//   not know what came of all calls under way.
//
// Threads: that of the simulation. All of it runs on an executor of the engine's own runtime, and
// goes on when the client's process dies.

#ifndef COMMON_KV_LOG_MEMORY_MEM_LOG_ENGINE_H_
#define COMMON_KV_LOG_MEMORY_MEM_LOG_ENGINE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/kv/log/memory/mem_log_state.h"
#include "common/runtime/runtime.h"

namespace escapement::kv {

// Shares are in millionths of the calls.
struct MemLogFaults {
  absl::Duration delay_min = absl::Microseconds(50);  // each call and each answer takes this long
  absl::Duration delay_max = absl::Microseconds(500);
  absl::Duration replication_min = absl::Microseconds(200);
  absl::Duration replication_max = absl::Milliseconds(1);
  uint32_t long_delays = 0;  // calls and answers that take up to long_delay_max
  absl::Duration long_delay_max = absl::Seconds(5);
  uint32_t calls_lost = 0;
  uint32_t answers_lost = 0;
  uint32_t blocked = 0;  // appends and leads that fail because a transaction is in their way
};

class MemLogEngine {
 public:
  // `runtime` must outlive the engine, and the engine its clients.
  explicit MemLogEngine(Runtime& runtime);
  ~MemLogEngine();
  MemLogEngine(const MemLogEngine&) = delete;
  MemLogEngine& operator=(const MemLogEngine&) = delete;

  void set_faults(const MemLogFaults& faults) { faults_ = faults; }
  const MemLogFaults& faults() const { return faults_; }

  enum class Direction : uint8_t { kToEngine, kToClient };
  // Nothing that the client (a MemLog's name) sends arrives, or nothing that is sent to it.
  void Cut(const std::string& client, Direction direction);
  void Heal(const std::string& client);
  // All its connections are lost, as when the network or an operator ends them.
  void Disconnect(const std::string& client);

  // The standby does not answer. Nothing is replicated, and no call that writes is answered.
  void StopReplication() { replicating_ = false; }
  void ResumeReplication();
  void Crash();
  void Failover();
  void Restore(MemLogState state);

  // The replicated state: the truth for checkers.
  const MemLogState& replicated() const { return replicated_; }
  // The state that readers see.
  const MemLogState& shown() const { return shows_all_ ? committed_ : replicated_; }
  // Called for each row when it is replicated, in order.
  void set_on_replicated(std::function<void(const LogRow&)> observer) {
    on_replicated_ = std::move(observer);
  }

 private:
  friend class MemLog;
  struct Connection;
  struct Write {
    std::function<void(MemLogState&)> replay;  // empty if nothing changed
    std::shared_ptr<Connection> connection;
    Closure answer;
    absl::Duration due;  // not replicated before this time
  };

  // `lost` runs on the client's executor if the connection breaks.
  std::shared_ptr<Connection> Connect(const std::string& client, std::shared_ptr<Executor> executor,
                                      absl::Duration silence_max, std::function<void()> lost);
  // Runs `call` at the engine when it arrives. Calls of one connection keep their order.
  void Send(const std::shared_ptr<Connection>& connection, Closure call);
  // Runs `answer` on the client's executor when it arrives. Answers of one connection keep their
  // order.
  void Answer(const std::shared_ptr<Connection>& connection, Closure answer);
  // Answers once this and all earlier writes are replicated.
  void Commit(const std::shared_ptr<Connection>& connection,
              std::function<void(MemLogState&)> replay, Closure answer);
  // Answers a call that has changed nothing: at once if it has seen only what is shown, otherwise
  // once that is replicated, as it waits for a lock.
  void Refuse(const std::shared_ptr<Connection>& connection, Closure answer);
  void Replicate();
  void ScheduleReplication();
  bool IsCut(const Connection& connection, Direction direction) const;
  // The client notices it soon, or (silently) after its silence_max.
  void Break(const std::shared_ptr<Connection>& connection, bool silently);
  void BreakAll();
  bool Chance(uint32_t share) { return runtime_.random().Below(1'000'000) < share; }
  bool Blocked() { return Chance(faults_.blocked); }
  absl::Duration Between(absl::Duration low, absl::Duration high);
  absl::Duration Delay();

  Runtime& runtime_;
  const std::shared_ptr<Executor> executor_;
  MemLogFaults faults_;
  MemLogState committed_;
  MemLogState replicated_;
  bool shows_all_ = false;  // after a crash, until everything is replicated
  bool replicating_ = true;
  bool replication_scheduled_ = false;
  std::deque<Write> unreplicated_;
  std::vector<std::weak_ptr<Connection>> connections_;
  std::set<std::pair<std::string, Direction>> cuts_;
  std::function<void(const LogRow&)> on_replicated_;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_LOG_MEMORY_MEM_LOG_ENGINE_H_
