#include "services/master/policies/policy_waiters.h"

#include <algorithm>

#include "absl/numeric/int128.h"
#include "common/base/proto_time.h"

namespace escapement::master {
namespace {

// For an even window: events before this index may go `into_micros` after the window's begin.
uint64_t PacedEnd(const storage::v1::ThrottleRecord& throttle, int64_t into_micros) {
  const auto duration =
      static_cast<uint64_t>(std::max<int64_t>(throttle.window().duration_micros(), 1));
  const absl::uint128 places =
      absl::uint128(static_cast<uint64_t>(into_micros)) * throttle.pace_count() / duration + 1;
  // Beyond the last place there is none to wait for.
  if (places >= throttle.pace_count()) return ~uint64_t{0};
  return throttle.pace_first() + absl::Uint128Low64(places);
}

// When the event with this index may go.
int64_t PacedMicros(const storage::v1::ThrottleRecord& throttle, uint64_t index) {
  const uint64_t place = index < throttle.pace_first() ? 0 : index - throttle.pace_first();
  const auto duration =
      static_cast<uint64_t>(std::max<int64_t>(throttle.window().duration_micros(), 1));
  const absl::uint128 into =
      absl::uint128(std::min(place, throttle.pace_count())) * duration / throttle.pace_count();
  return throttle.window_begin_micros() + static_cast<int64_t>(absl::Uint128Low64(into));
}

}  // namespace

DueEvents DueOf(const WaitingKey& key, const storage::v1::EventRecord& row, absl::Time now) {
  const storage::v1::ThrottleRecord& throttle = row.throttle();
  if (key.due_time > now || throttle.taken() >= row.count()) return {};
  const uint64_t first = key.first + throttle.taken();
  DueEvents due = {.count = row.count() - throttle.taken(), .oldest = key.due_time};
  if (!throttle.has_window()) return due;
  const absl::Time begin = FromMicros(throttle.window_begin_micros());
  if (begin > now) return {};
  due.oldest = std::max(due.oldest, begin);
  if (throttle.pace_count() == 0) return due;
  const uint64_t end = PacedEnd(throttle, ToMicros(now) - throttle.window_begin_micros());
  if (end <= first) return {};
  due.count = std::min(due.count, end - first);
  due.oldest = std::max(due.oldest, FromMicros(PacedMicros(throttle, first)));
  return due;
}

void WaitingTally::Add(const Uid& schedule, const DueEvents& due) {
  if (due.count == 0) return;
  count_ += due.count;
  oldest_ = std::min(oldest_, due.oldest);
  Waiter& waiter = waiters_[schedule];
  waiter.schedule = schedule;
  waiter.count += due.count;
  waiter.oldest = std::min(waiter.oldest, due.oldest);
}

std::vector<WaitingTally::Waiter> WaitingTally::Largest(size_t limit) const {
  std::vector<Waiter> largest;
  for (const auto& [schedule, waiter] : waiters_) largest.push_back(waiter);
  // Stable: equal ones stay in the order of their uids.
  std::stable_sort(largest.begin(), largest.end(),
                   [](const Waiter& a, const Waiter& b) { return a.count > b.count; });
  if (largest.size() > limit) largest.resize(limit);
  return largest;
}

}  // namespace escapement::master
