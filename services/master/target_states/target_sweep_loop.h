// TargetSweepLoop: deletes the rows of `target_states` that their handlers have not written for
// long, because they are dead. Every master does it; deleting twice does nothing.
//
// Threads: the context's executor.

#ifndef SERVICES_MASTER_TARGET_STATES_TARGET_SWEEP_LOOP_H_
#define SERVICES_MASTER_TARGET_STATES_TARGET_SWEEP_LOOP_H_

#include <string>

#include "common/kv/kv_store.h"
#include "services/master/master_context.h"

namespace escapement::master {

class TargetSweepLoop {
 public:
  // `context` outlives it; its executor is stopped before the loop is destroyed.
  explicit TargetSweepLoop(MasterContext& context) : context_(context) {}

  // Reads all rows, page by page with pauses, and again some minutes after the end.
  void Start() { Step({}); }

 private:
  void Step(std::string position);
  void OnPage(const kv::ScanResult& page);
  void StartLater();

  MasterContext& context_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_TARGET_STATES_TARGET_SWEEP_LOOP_H_
