#include "common/base/proto_time.h"

namespace escapement {

namespace {
constexpr int64_t kMicros = 1'000'000;
constexpr int64_t kYear1 = -62'135'596'800;
constexpr int64_t kYear10000 = 253'402'300'800;
constexpr int64_t kDurationSecondsMax = 315'576'000'000;
constexpr int32_t kNanosOfMicro = 1000;
constexpr int32_t kNanosMax = 999'999'999;

bool Valid(const google::protobuf::Timestamp& timestamp) {
  return timestamp.seconds() >= kYear1 && timestamp.seconds() < kYear10000 &&
         timestamp.nanos() >= 0 && timestamp.nanos() <= kNanosMax;
}
}  // namespace

std::optional<int64_t> TimestampMicros(const google::protobuf::Timestamp& timestamp) {
  if (!Valid(timestamp)) return std::nullopt;
  return timestamp.seconds() * kMicros + (timestamp.nanos() + kNanosOfMicro - 1) / kNanosOfMicro;
}

std::optional<int64_t> TimestampMicrosDown(const google::protobuf::Timestamp& timestamp) {
  if (!Valid(timestamp)) return std::nullopt;
  return timestamp.seconds() * kMicros + timestamp.nanos() / kNanosOfMicro;
}

void SetTimestamp(int64_t micros, google::protobuf::Timestamp& timestamp) {
  int64_t seconds = micros / kMicros;
  int64_t rest = micros % kMicros;
  if (rest < 0) {
    rest += kMicros;
    --seconds;
  }
  timestamp.set_seconds(seconds);
  timestamp.set_nanos(static_cast<int32_t>(rest * 1000));
}

std::optional<absl::Duration> ToDuration(const google::protobuf::Duration& duration) {
  const bool opposite_signs = (duration.seconds() > 0 && duration.nanos() < 0) ||
                              (duration.seconds() < 0 && duration.nanos() > 0);
  if (opposite_signs || duration.nanos() > kNanosMax || duration.nanos() < -kNanosMax ||
      duration.seconds() > kDurationSecondsMax || duration.seconds() < -kDurationSecondsMax) {
    return std::nullopt;
  }
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

int64_t MicrosUp(absl::Duration duration) {
  return absl::ToInt64Microseconds(absl::Ceil(duration, absl::Microseconds(1)));
}

void SetDuration(int64_t micros, google::protobuf::Duration& duration) {
  duration.set_seconds(micros / kMicros);
  duration.set_nanos(static_cast<int32_t>(micros % kMicros * 1000));
}

}  // namespace escapement
