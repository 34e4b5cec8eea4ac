#include "common/kv/store_clock.h"

#include <algorithm>
#include <utility>

#include "common/base/big_endian.h"
#include "common/base/micros.h"

namespace escapement::kv {

std::string EncodeClockRecord(const ClockRecord& record) {
  std::string out;
  AppendBigEndian<uint64_t>(&out, static_cast<uint64_t>(ToMicros(record.store_time)));
  AppendBigEndian<uint64_t>(&out,
                            static_cast<uint64_t>(absl::ToInt64Microseconds(record.boottime)));
  out.push_back(record.hold ? 1 : 0);
  out += record.boot_id;
  return out;
}

absl::StatusOr<ClockRecord> DecodeClockRecord(absl::string_view bytes) {
  if (bytes.size() < 17) return absl::DataLossError("the store's clock record is too short");
  ClockRecord record;
  record.store_time = FromMicros(static_cast<int64_t>(ReadBigEndian<uint64_t>(bytes)));
  record.boottime =
      absl::Microseconds(static_cast<int64_t>(ReadBigEndian<uint64_t>(bytes.substr(8))));
  record.hold = (bytes[16] & 1) != 0;
  record.boot_id = std::string(bytes.substr(17));
  return record;
}

StoreClock::StoreClock(std::optional<ClockRecord> record, std::string boot_id,
                       const ClockReading& now)
    : boot_id_(std::move(boot_id)), boottime_(now.boottime) {
  if (!record.has_value()) {
    store_time_ = now.wall;
  } else if (record->boot_id == boot_id_ && now.boottime >= record->boottime) {
    // As if the process had gone on: slewing forward never passes the wall clock, so nothing later
    // was given out. Not further: what is due would be early. (The record was cut to microseconds.)
    const absl::Duration elapsed = now.boottime - record->boottime;
    const absl::Time plain = record->store_time + elapsed;
    const absl::Duration forward = elapsed * kSlewMax + absl::Microseconds(1);
    const absl::Duration behind = now.wall - plain;
    store_time_ = plain;
    if (behind <= kFollowMax) store_time_ += std::clamp(behind, absl::ZeroDuration(), forward);
  } else if (now.wall - record->store_time <= kDowntimeMax) {
    // The last process may have given out times for one interval after its last record.
    store_time_ = std::max(record->store_time + kRecordInterval, now.wall);
  } else {
    store_time_ = record->store_time + kRecordInterval;
  }
  if (record.has_value()) hold_ = record->hold;
  hold_since_ = boottime_;
  Now(now);
}

absl::Time StoreClock::Now(const ClockReading& now) {
  const absl::Duration elapsed = std::max(now.boottime - boottime_, absl::ZeroDuration());
  boottime_ = std::max(boottime_, now.boottime);
  store_time_ += elapsed;
  disagreement_ = now.wall - store_time_;
  const bool ahead = disagreement_ > kFollowMax;
  if (ahead && !hold_) hold_since_ = boottime_;
  hold_ = ahead;
  if (StepIsStable()) StepTo(now.wall);
  const bool follow = absl::AbsDuration(disagreement_) <= kFollowMax || (draw_back_ && !hold_);
  if (disagreement_ >= absl::ZeroDuration()) draw_back_ = false;
  if (follow && !hold_) {
    const absl::Duration slew_max = elapsed * kSlewMax;
    store_time_ += std::clamp(disagreement_, -slew_max, slew_max);
    disagreement_ = now.wall - store_time_;
  }
  return absl::FromUnixMicros(absl::ToUnixMicros(store_time_));
}

bool StoreClock::StepIsStable() {
  if (!hold_ || disagreement_ > kStepMax) {
    step_since_.reset();
    return false;
  }
  if (!step_since_.has_value() || absl::AbsDuration(disagreement_ - step_) > kStepJitter) {
    step_since_ = boottime_;
    step_ = disagreement_;
  }
  return boottime_ - *step_since_ >= kStepStable;
}

void StoreClock::StepTo(absl::Time wall) {
  store_time_ = wall;
  disagreement_ = absl::ZeroDuration();
  hold_ = false;
  step_since_.reset();
  ++steps_;
}

ClockRecord StoreClock::Record(const ClockReading& now) {
  ClockRecord record;
  record.store_time = Now(now);
  record.boottime = boottime_;
  record.boot_id = boot_id_;
  record.hold = hold_;
  return record;
}

void StoreClock::Confirm(const ClockReading& now) {
  Now(now);
  if (disagreement_ > absl::ZeroDuration()) {
    StepTo(now.wall);
  } else {
    draw_back_ = true;
  }
}

}  // namespace escapement::kv
