// Times as integer microseconds since 1970: the unit of everything stored.

#ifndef COMMON_BASE_PROTO_TIME_H_
#define COMMON_BASE_PROTO_TIME_H_

#include <cstdint>
#include <limits>
#include <optional>

#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"

namespace escapement {

// Rounds down; the infinities become the extremes of int64.
inline int64_t ToMicros(absl::Time time) { return absl::ToUnixMicros(time); }

// The extremes of int64 become the infinities.
inline absl::Time FromMicros(int64_t micros) {
  if (micros == std::numeric_limits<int64_t>::max()) return absl::InfiniteFuture();
  if (micros == std::numeric_limits<int64_t>::min()) return absl::InfinitePast();
  return absl::FromUnixMicros(micros);
}

// Times and durations of the public messages ↔ microseconds and absl. Pure.

// nullopt if it is outside the years 1 to 9999 or its nanos are malformed. Rounds up to
// microseconds: what is due at a time must not happen before it, and the inclusive start and the
// exclusive end of a range keep their meaning.
std::optional<int64_t> TimestampMicros(const google::protobuf::Timestamp& timestamp);
// As TimestampMicros, but rounds down: for "strictly after" a time.
std::optional<int64_t> TimestampMicrosDown(const google::protobuf::Timestamp& timestamp);
void SetTimestamp(int64_t micros, google::protobuf::Timestamp& timestamp);

// nullopt if it is malformed or longer than protobuf's 10,000 years. Exact, for comparing with
// bounds.
std::optional<absl::Duration> ToDuration(const google::protobuf::Duration& duration);
// Rounds up, so that no wait is shorter than asked for.
int64_t MicrosUp(absl::Duration duration);
void SetDuration(int64_t micros, google::protobuf::Duration& duration);

}  // namespace escapement

#endif  // COMMON_BASE_PROTO_TIME_H_
