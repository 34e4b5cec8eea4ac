// The bounds of a TokenDoor, each with its effect.

#ifndef COMMON_TOKENS_LIMITS_H_
#define COMMON_TOKENS_LIMITS_H_

#include <cstddef>

#include "absl/time/time.h"

namespace escapement {

// The contract of TokenService: a larger request is refused with INVALID_ARGUMENT.
inline constexpr int kTokensMax = 10'000;                 // for one request
inline constexpr size_t kTokenOutputBytesMax = 4096;      // for one completion
inline constexpr size_t kTokenOutputsBytesMax = 8 << 20;  // for all completions of one request
inline constexpr absl::Duration kTokenHoldMin = absl::Seconds(1);
inline constexpr absl::Duration kTokenHoldMax = absl::Hours(24 * 30);
// Messages of one stream without an answer; one more ends the stream with RESOURCE_EXHAUSTED.
inline constexpr size_t kTokenStreamUnansweredMax = 64;

// Running calls of one process. Above this, a call is answered RESOURCE_EXHAUSTED with this retry
// delay.
inline constexpr size_t kTokenCallsMax = 16'384;
inline constexpr size_t kTokenCallBytesMax = size_t{256} << 20;  // sum of TokenBatch::bytes
inline constexpr absl::Duration kTokenBusyDelay = absl::Milliseconds(200);

// An event's `reason` is cut to this.
inline constexpr size_t kTokenReasonBytesMax = 256;
// Entries of one report row. Its reader then need not hold a whole request at once.
inline constexpr int kReportRowEntriesMax = 1000;
inline constexpr size_t kReportRowBytesMax = 1 << 20;
// Grants in one read: each contains its event's payload.
inline constexpr size_t kGrantsReadMax = 128;

}  // namespace escapement

#endif  // COMMON_TOKENS_LIMITS_H_
