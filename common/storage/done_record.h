// The part of a Done record that it repeats from the row whose events have ended.
//
// Pure.

#ifndef COMMON_STORAGE_DONE_RECORD_H_
#define COMMON_STORAGE_DONE_RECORD_H_

#include "escapement/storage/v1/records.pb.h"

namespace escapement {

// Sets tenant, event id, version, attempts, the attempts that the row remembers, times of the
// occurrence, and what the row says about its run. The caller sets count, outcome, reason, output,
// and the last attempt with the times of dispatch and completion.
storage::v1::DoneRecord DoneRecordOf(const storage::v1::EventRecord& row);

}  // namespace escapement

#endif  // COMMON_STORAGE_DONE_RECORD_H_
