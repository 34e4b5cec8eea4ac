// DeadLetterSweepLoop: deletes dead letters that are older than their retention, and operations
// that ended long ago. Every master does it; deleting twice does nothing.
//
// Threads: the context's executor.

#ifndef SERVICES_MASTER_DEAD_LETTERS_DEAD_LETTER_SWEEP_LOOP_H_
#define SERVICES_MASTER_DEAD_LETTERS_DEAD_LETTER_SWEEP_LOOP_H_

#include <string>

#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "services/master/master_context.h"

namespace escapement::master {

class DeadLetterSweepLoop {
 public:
  // `context` outlives it; its executor is stopped before the loop is destroyed.
  DeadLetterSweepLoop(MasterContext& context, absl::Duration retention)
      : context_(context), retention_(retention) {}

  // Looks at all rows, page by page with pauses; begins again a while after the end.
  void Start();

 private:
  void StartLater();
  void SweepLetters(std::string position);
  void OnLetters(const kv::ScanResult& page);
  void SweepOperations(std::string position);
  void OnOperations(const kv::ScanResult& page);

  MasterContext& context_;
  const absl::Duration retention_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_DEAD_LETTERS_DEAD_LETTER_SWEEP_LOOP_H_
