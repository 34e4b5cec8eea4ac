#include "tests/accounts/times.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"

namespace escapement::accounts {
namespace {

constexpr int64_t kMinute = 60;
constexpr int64_t kHour = 60 * kMinute;
constexpr int64_t kDay = 24 * kHour;

// From `from` on, in seconds since 1970, the zone's clock shows UTC + offset.
struct Offset {
  int64_t from, offset;
};

struct Zone {
  const char* name;
  std::vector<Offset> offsets;
};

const Zone& ZoneAt(int index) {
  static const auto* const zones = [] {
    const auto instant = [](int month, int day, int hour) {
      return absl::ToUnixSeconds(
          absl::FromCivil(absl::CivilHour(2026, month, day, hour), absl::UTCTimeZone()));
    };
    constexpr int64_t kAlways = std::numeric_limits<int64_t>::min();
    return new std::vector<Zone>{
        {"UTC", {{kAlways, 0}}},
        {"Asia/Kolkata", {{kAlways, 5 * kHour + 30 * kMinute}}},
        {"America/New_York",
         {{kAlways, -5 * kHour}, {instant(3, 8, 7), -4 * kHour}, {instant(11, 1, 6), -5 * kHour}}},
        {"Europe/Berlin",
         {{kAlways, 1 * kHour}, {instant(3, 29, 1), 2 * kHour}, {instant(10, 25, 1), 1 * kHour}}}};
  }();
  return (*zones)[static_cast<size_t>(index)];
}

int64_t OffsetAt(const Zone& zone, int64_t instant) {
  int64_t offset = 0;
  for (const Offset& each : zone.offsets) {
    if (each.from <= instant) offset = each.offset;
  }
  return offset;
}

// The first instant at which the zone's clock shows `local`, or the end of the gap that leaves it
// out.
int64_t FirstInstant(const Zone& zone, int64_t local) {
  int64_t before = zone.offsets[0].offset;
  for (const Offset& each : zone.offsets) {
    // The clock was at each.from + before when it jumped to each.from + each.offset.
    if (each.offset > before && each.from + before <= local && local < each.from + each.offset)
      return each.from;
    before = each.offset;
  }
  for (size_t i = 0; i < zone.offsets.size(); ++i) {
    const int64_t instant = local - zone.offsets[i].offset;
    if (instant >= zone.offsets[i].from &&
        (i + 1 == zone.offsets.size() || instant < zone.offsets[i + 1].from))
      return instant;
  }
  return std::numeric_limits<int64_t>::max();
}

// The least x + k × step that is not less than `low`.
int64_t FirstFrom(int64_t low, int64_t x, int64_t step) {
  const int64_t behind = (low - x) % step;
  return behind == 0 ? low : behind > 0 ? low + step - behind : low - behind;
}

}  // namespace

void Times::Write(v1::Schedule& schedule) const {
  switch (kind) {
    case Kind::kDaily:
      schedule.set_cron(absl::StrCat(second, " ", minute, " ", hour, " * * *"));
      break;
    case Kind::kHourly:
      schedule.set_cron(absl::StrCat(second, " ", minute, " * * * *"));
      break;
    case Kind::kMinutes:
      schedule.set_cron(absl::StrCat(second, " */", every, " * * * *"));
      break;
    case Kind::kInterval:
      schedule.mutable_interval()->mutable_every()->set_seconds(every);
      schedule.mutable_interval()->mutable_anchor_time()->set_seconds(absl::ToUnixSeconds(anchor));
      return;
    case Kind::kList:
      for (const absl::Time time : list)
        schedule.add_times()->set_seconds(absl::ToUnixSeconds(time));
      return;
  }
  schedule.set_time_zone(ZoneAt(zone).name);
}

std::vector<absl::Time> Times::Between(absl::Time begin, absl::Time end) const {
  std::vector<absl::Time> found;
  if (begin >= end) return found;
  // All occurrences are at whole seconds.
  const int64_t low = absl::ToUnixSeconds(begin + absl::Seconds(1) - absl::Nanoseconds(1));
  const int64_t high = absl::ToUnixSeconds(end + absl::Seconds(1) - absl::Nanoseconds(1));
  const auto add = [&](int64_t instant) {
    if (instant >= low && instant < high) found.push_back(absl::FromUnixSeconds(instant));
  };
  const Zone& there = ZoneAt(zone);
  switch (kind) {
    case Kind::kDaily:
      for (int64_t day = low / kDay - 1; day <= high / kDay + 1; ++day)
        add(FirstInstant(there, day * kDay + hour * kHour + minute * kMinute + second));
      break;
    case Kind::kHourly:
    case Kind::kMinutes:
      for (int64_t instant = low / kMinute * kMinute + second; instant < high; instant += kMinute) {
        const int64_t of_hour = (instant + OffsetAt(there, instant)) / kMinute % 60;
        if (kind == Kind::kHourly ? of_hour == minute : of_hour % every == 0) add(instant);
      }
      break;
    case Kind::kInterval:
      for (int64_t at = FirstFrom(low, absl::ToUnixSeconds(anchor), every); at < high; at += every)
        add(at);
      break;
    case Kind::kList:
      for (const absl::Time time : list) add(absl::ToUnixSeconds(time));
      break;
  }
  return found;
}

}  // namespace escapement::accounts
