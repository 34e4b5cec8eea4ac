// What a Done record repeats of the row whose events have ended.
//
// Pure.

#ifndef COMMON_STORAGE_DONE_RECORD_H_
#define COMMON_STORAGE_DONE_RECORD_H_

#include "escapement/storage/v1/records.pb.h"

namespace escapement {

// Tenant, event id, version, attempts, times of the occurrence, and what is known of its run.
// Count, outcome, reason, output and the times of dispatch and completion are the caller's.
storage::v1::DoneRecord DoneRecordOf(const storage::v1::EventRecord& row);

}  // namespace escapement

#endif  // COMMON_STORAGE_DONE_RECORD_H_
