// One step of an operation: a bounded number of dead letters or events and the operation's
// progress, as one group. The group's first condition is that the operation is as it was read.
//
// The rate is exact: the events of a step become due one after the other, 1 / rate apart, and the
// next step continues there. A step that comes late catches up by at most kOperationSlack.
//
// Pure.

#ifndef SERVICES_MASTER_OPERATIONS_OPERATION_STEP_H_
#define SERVICES_MASTER_OPERATIONS_OPERATION_STEP_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "common/kv/layout.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/master/operations/cancel_page.h"
#include "services/master/operations/dead_letter_list.h"
#include "services/master/operations/redrive_batch.h"

namespace escapement::master {

// An operation, as it was read.
struct OperationInput {
  std::string key;
  std::string bytes;
  storage::v1::OperationRecord record;
};

// Dead letters that a step handles.
struct OperationPage {
  std::vector<StoredDeadLetter> letters;
  std::string cursor;         // key of the last dead letter that was examined
  bool ended = false;         // there are no further ones
  uint64_t broken = 0;        // dead letters that cannot be read
  absl::Status broken_error;  // why the last of them cannot be read
};

// The range of `dead_letters` that the operation has not examined yet. Empty: begin >= end.
kv::KeyRange RestOf(const storage::v1::OperationRecord& record,
                    const DeadLetterSelection& selection);

// Takes from the rows of that range at most as many dead letters as one step may handle.
OperationPage TakePage(const storage::v1::OperationRecord& record,
                       const DeadLetterSelection& selection, kv::ScanResult rows);

struct OperationStep {
  kv::Group group;
  storage::v1::OperationRecord record;  // the operation after the group
  uint64_t done = 0;  // dead letters that the group redrives or deletes, or events it cancels
};
// `facts` has the rows of RedriveFactKeys of all letters, if the operation redrives. `now` is the
// store's time.
OperationStep BuildStep(const OperationInput& operation, const OperationPage& page,
                        const RedriveFacts& facts, const kv::Layout& layout, absl::Time now);
// The same of an operation that cancels events.
OperationStep BuildCancelStep(const OperationInput& operation, const CancelPage& page,
                              absl::Time now);

// The operation ends as FAILED.
OperationStep BuildFailure(const OperationInput& operation, const absl::Status& error,
                           absl::Time now);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_OPERATIONS_OPERATION_STEP_H_
