#include "common/kv/replica/takeover_timer.h"

namespace escapement::kv {

void TakeoverTimer::Observe(const LogState& state, absl::Duration now) {
  const bool same = seen_.has_value() && seen_->leader == state.leader && seen_->last == state.last;
  if (!same) silent_since_ = now;
  seen_ = state;
  if (end_ != state.last) end_known_since_ = now;
  end_ = state.last;
}

bool TakeoverTimer::MayLead(const LogPlace& place, absl::Duration now) const {
  if (!seen_.has_value() || place.position != seen_->last) return false;
  if (now - silent_since_ >= kSilenceMax) return true;
  const uint64_t epoch = seen_->leader.epoch;
  return place.kind == RecordKind::kHandover && place.epoch == epoch && epoch != given_up_;
}

}  // namespace escapement::kv
