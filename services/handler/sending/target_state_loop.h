// TargetStateLoop: shows how this handler uses its targets: as rows in `target_states`, one for
// each target and tenant (common/storage/name_tables.h), and as metrics.
//
// A row is written when its target becomes known, its circuit breaker changes or it asks for a
// longer pause, and at most every kTargetUsedRowEvery while the target is used. Every row is
// written again after kTargetRowEvery, so that readers can tell the rows of dead handlers. Targets
// without an attempt for kTargetIdle are forgotten, and their rows deleted.
//
// While a target is down, paused or has a troubled group, each step also looks whether somebody has
// reset it (ResetTarget).
//
// A step writes and deletes at most kTargetRowsMax rows. If more are due, the next step goes on
// behind the last one, so that each has its turn in every round.
//
// Threads: one, the handler's executor.

#ifndef SERVICES_HANDLER_SENDING_TARGET_STATE_LOOP_H_
#define SERVICES_HANDLER_SENDING_TARGET_STATE_LOOP_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "common/kv/client/kv_client.h"
#include "common/runtime/runtime.h"
#include "services/handler/base/metrics.h"
#include "services/handler/sending/send_loop.h"

namespace escapement::handler {

inline constexpr absl::Duration kTargetStateStep = absl::Seconds(2);
inline constexpr absl::Duration kTargetUsedRowEvery = absl::Seconds(10);
inline constexpr absl::Duration kTargetRowEvery = absl::Seconds(30);
inline constexpr absl::Duration kTargetIdle = absl::Minutes(10);
// Rows of one commit. Bounds its size; a round through all pairs that a handler counts takes some
// 70 s at most, less than kTargetRowValidFor.
inline constexpr size_t kTargetRowsMax = 500;
// Resets that a step reads, of all targets that were reset in the last minutes.
inline constexpr uint32_t kTargetResetsMax = 1000;

class TargetStateLoop {
 public:
  // `instance` names this handler. The references must outlive the loop.
  TargetStateLoop(std::string instance, SendLoop& sends, kv::KvClient& client, Runtime& runtime,
                  std::shared_ptr<Executor> executor, HandlerMetrics& metrics);

  // Does nothing until kTargetStateStep after the last time. `now` is store time.
  void Step(absl::Time now);

 private:
  // A row as it is in the store.
  struct Written {
    CircuitBreaker::State state = CircuitBreaker::State::kClosed;
    std::optional<absl::Duration> paused_until;     // Clock::Elapsed
    absl::Duration at = -absl::InfiniteDuration();  // Clock::Elapsed
    uint64_t seen = 0;                              // the step that last found its target
    // Only in the step that has found them.
    const SendTarget* target = nullptr;
    const TargetUse* use = nullptr;
  };
  using Name = std::pair<std::string, std::string>;  // target key, tenant

  void SetGauges(absl::Duration elapsed);
  // Finds the targets of this step, and their uses.
  void FindTargets();
  // The rows that must be written or deleted, up to the bound.
  kv::Group NextRows(absl::Time now, absl::Duration elapsed);
  // Adds the row if it must be written.
  void AddRow(const Name& name, Written& written, absl::Time now, absl::Duration elapsed,
              kv::Group& group) const;
  void Commit(kv::Group group);
  // Does what ResetTarget has asked for since the targets in trouble are so.
  void ReadResets(absl::Time now, absl::Duration elapsed);

  const std::string instance_;
  SendLoop& sends_;
  kv::KvClient& client_;
  Runtime& runtime_;
  const std::shared_ptr<Executor> executor_;
  HandlerMetrics& metrics_;
  absl::Duration next_ = -absl::InfiniteDuration();  // Clock::Elapsed
  uint64_t step_ = 0;
  bool committing_ = false;
  bool reading_ = false;
  std::map<Name, Written> written_;
  Name last_;  // the name that the last step ended with
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_SENDING_TARGET_STATE_LOOP_H_
