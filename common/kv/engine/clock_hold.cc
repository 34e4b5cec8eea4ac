#include "common/kv/engine/clock_hold.h"

#include "absl/strings/str_cat.h"

namespace escapement::kv {
namespace {

// Rounds to seconds and uses the largest unit that gives a count of at least two.
std::string InWords(absl::Duration exact) {
  const absl::Duration duration = absl::Trunc(exact + absl::Milliseconds(500), absl::Seconds(1));
  if (duration < absl::Minutes(2)) return absl::StrCat(duration / absl::Seconds(1), " s");
  if (duration < absl::Hours(2)) return absl::StrCat(duration / absl::Minutes(1), " min");
  if (duration < absl::Hours(48)) return absl::StrCat(duration / absl::Hours(1), " h");
  return absl::StrCat(duration / absl::Hours(24), " days");
}

}  // namespace

std::string NotReadyReason(const ClockHold& hold) {
  if (hold.lasted <= kClockHoldReadyMax) return {};
  return absl::StrCat("clock: held for ", InWords(hold.lasted), ", wall clock ",
                      InWords(absl::AbsDuration(hold.disagreement)),
                      hold.disagreement < absl::ZeroDuration() ? " behind" : " ahead");
}

}  // namespace escapement::kv
