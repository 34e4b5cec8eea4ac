// OperationLoop: continues the running operations of all tenants, one bounded step after the other.
//
// Every master has one. They do not divide the operations among them: a step is a compare-and-set
// on the operation's record, so any number of masters do each piece once. The master whose step
// fails leaves the operation to the other one, until that has made no progress for
// kOperationPatience. If a master dies, its next step is another master's.
//
// Threads: the context's executor.

#ifndef SERVICES_MASTER_OPERATIONS_OPERATION_LOOP_H_
#define SERVICES_MASTER_OPERATIONS_OPERATION_LOOP_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/kv/client/range_mirror.h"
#include "common/kv/kv_store.h"
#include "services/master/base/master_context.h"
#include "services/master/operations/operation_step.h"

namespace escapement::master {

class OperationLoop {
 public:
  // `context` outlives it; its executor is stopped before the loop is destroyed.
  explicit OperationLoop(MasterContext& context);

  void Start() { mirror_.Start(); }

  // Running operations of the tenant that this master knows.
  size_t RunningOf(absl::string_view tenant) const;

 private:
  struct Work {
    OperationInput operation;
    absl::Duration not_before = absl::ZeroDuration();  // Clock::Elapsed: no step before this
    std::string writing;  // the record in the commit under way; empty: none
    int conflicts = 0;    // steps that lost a race, one after the other
  };

  void OnRows(const kv::RangeMirror::Rows& rows);
  // Begins the next step when it is due.
  void Wake();
  void Step();
  // `operation`: as it was when the rows were read. If it has changed, the commit is refused.
  void OnPage(const std::string& key, const OperationInput& operation,
              const DeadLetterSelection& selection, absl::StatusOr<kv::ScanResult> rows);
  void OnCancelPage(const OperationInput& operation, const absl::StatusOr<CancelPage>& page);
  // Counts what operations of this kind do.
  Counter& DoneBy(storage::v1::OperationRecord::Kind kind);
  void Commit(const std::string& key, OperationStep step);
  void OnCommitted(const std::string& key, const storage::v1::OperationRecord& record,
                   uint64_t done, const absl::StatusOr<kv::CommitResult>& result);
  // Ends the step under way; the operation's next step comes after `delay`.
  void EndStep(const std::string& key, absl::Duration delay);
  absl::Duration Elapsed() const { return context_.runtime.clock().Elapsed(); }

  MasterContext& context_;
  kv::RangeMirror mirror_;
  std::map<std::string, Work> works_;  // running operations, by key
  bool busy_ = false;                  // a step is under way
  uint64_t timer_ = 0;                 // the latest timer; earlier ones do nothing
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_OPERATIONS_OPERATION_LOOP_H_
