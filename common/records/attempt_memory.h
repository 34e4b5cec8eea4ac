// RememberAttempt: the failed attempts that a row remembers.
//
// A row has its last attempts only, with their texts cut, because it is copied with each claim.
//
// Pure.

#ifndef COMMON_RECORDS_ATTEMPT_MEMORY_H_
#define COMMON_RECORDS_ATTEMPT_MEMORY_H_

#include <cstddef>

#include "escapement/storage/v1/records.pb.h"

namespace escapement {

inline constexpr int kAttemptsRemembered = 9;
inline constexpr size_t kRememberedErrorBytesMax = 256;
inline constexpr size_t kRememberedAnswerBytesMax = 512;

// Adds the attempt to row.tried. The oldest of more than kAttemptsRemembered goes.
void RememberAttempt(storage::v1::AttemptRecord attempt, storage::v1::EventRecord& row);

}  // namespace escapement

#endif  // COMMON_RECORDS_ATTEMPT_MEMORY_H_
