#include "services/handler/target_health/target_use.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/printable_text.h"

namespace escapement::handler {
namespace {

constexpr absl::Duration kHalf = absl::Seconds(30);

}  // namespace

void TargetUse::OnSent(uint64_t attempts, absl::Duration now) {
  in_flight_ += attempts;
  last_used_ = now;
}

TargetUse::Half& TargetUse::NowCounted(absl::Duration now) {
  if (now < now_counted_.begin + kHalf) return now_counted_;
  // After a pause the last half says nothing about the last minute.
  before_ = now < now_counted_.begin + 2 * kHalf ? now_counted_ : Half{.begin = now};
  now_counted_ = {.begin = now};
  return now_counted_;
}

void TargetUse::OnSucceeded(absl::Duration now) {
  TakeFrom<uint64_t>(in_flight_, 1);
  ++NowCounted(now).attempts;
  last_used_ = now;
}

void TargetUse::OnFailed(absl::string_view error, absl::Duration now) {
  TakeFrom<uint64_t>(in_flight_, 1);
  Half& half = NowCounted(now);
  ++half.attempts;
  ++half.failures;
  last_used_ = now;
  last_error_.assign(error.data(), std::min(error.size(), kUseErrorBytesMax));
  last_error_at_ = now;
}

void TargetUse::OnUnsent() { TakeFrom<uint64_t>(in_flight_, 1); }

std::string TargetUse::LastError() const { return CleanText(last_error_, kUseErrorBytesMax); }

TargetUse::Counts TargetUse::CountsAt(absl::Duration now) const {
  if (now >= now_counted_.begin + 2 * kHalf) return {.measured = 2 * kHalf};
  Counts counts{.attempts = now_counted_.attempts,
                .failures = now_counted_.failures,
                .measured = now - now_counted_.begin};
  if (now >= now_counted_.begin + kHalf) return counts;
  counts.attempts += before_.attempts;
  counts.failures += before_.failures;
  counts.measured = now - before_.begin;
  return counts;
}

}  // namespace escapement::handler
