// What bounds a TokenDoor, with what each bound causes.

#ifndef COMMON_TOKENS_LIMITS_H_
#define COMMON_TOKENS_LIMITS_H_

#include <cstddef>

#include "absl/time/time.h"

namespace escapement {

// The contract of TokenService: more is refused with INVALID_ARGUMENT.
inline constexpr int kTokensMax = 10'000;                 // of one request
inline constexpr size_t kTokenOutputBytesMax = 4096;      // of one completion
inline constexpr size_t kTokenOutputsBytesMax = 8 << 20;  // of one request, together
inline constexpr absl::Duration kTokenHoldMin = absl::Seconds(1);
inline constexpr absl::Duration kTokenHoldMax = absl::Hours(24 * 30);
// Messages of one stream without an answer: more end it with RESOURCE_EXHAUSTED.
inline constexpr size_t kTokenStreamUnansweredMax = 64;

// Under way in one process; beyond, calls are answered RESOURCE_EXHAUSTED with this delay.
inline constexpr size_t kTokenCallsMax = 16'384;
inline constexpr size_t kTokenCallBytesMax = size_t{256} << 20;  // as TokenBatch::bytes counts
inline constexpr absl::Duration kTokenBusyDelay = absl::Milliseconds(200);

// Of the text that becomes an event's `reason`; what is longer is cut.
inline constexpr size_t kTokenReasonBytesMax = 256;
// A report row holds no more, so that its reader need not take in a whole request at once.
inline constexpr int kReportRowEntriesMax = 1000;
inline constexpr size_t kReportRowBytesMax = 1 << 20;
// Grants read at once: each has its event's payload in it.
inline constexpr size_t kGrantsReadMax = 128;

}  // namespace escapement

#endif  // COMMON_TOKENS_LIMITS_H_
