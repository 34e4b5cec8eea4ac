#include "services/token_manager/turns/queued_slice.h"

#include <algorithm>
#include <limits>

#include "absl/numeric/int128.h"

namespace escapement::token_manager {
namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

}  // namespace

absl::Time Pacing::At(uint64_t index) const {
  if (count == 0) return absl::InfinitePast();
  if (index <= first) return begin;
  const uint64_t steps = std::min(index - first, count);
  const int64_t micros = std::max<int64_t>(absl::ToInt64Microseconds(duration), 0);
  const absl::uint128 at =
      (absl::uint128(static_cast<uint64_t>(micros)) * steps + count - 1) / count;
  return begin + absl::Microseconds(static_cast<int64_t>(absl::Uint128Low64(at)));
}

uint64_t Pacing::EndAt(absl::Time now) const {
  if (count == 0 || now >= begin + duration) return kMax;
  if (now < begin) return 0;
  const int64_t micros = absl::ToInt64Microseconds(duration);
  if (micros <= 0) return kMax;
  const auto passed = static_cast<uint64_t>(absl::ToInt64Microseconds(now - begin));
  const absl::uint128 steps =
      absl::uint128(passed) * count / static_cast<uint64_t>(micros) + 1;  // at most count
  const uint64_t end = first + absl::Uint128Low64(steps);
  return end < first ? kMax : end;
}

absl::Time EligibleAt(const QueuedSlice& slice) {
  return std::max(slice.due, slice.pacing.At(slice.first));
}

}  // namespace escapement::token_manager
