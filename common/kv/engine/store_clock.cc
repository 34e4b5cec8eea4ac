#include "common/kv/engine/store_clock.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/kv/store_pace.h"

namespace escapement::kv {

void HostClocks::Note(const HostClock& host, absl::Duration boottime) {
  if (host.boot_id.empty() || host.boot_id == own_boot_id_) return;
  if (!reports_.contains(host.boot_id)) {
    std::erase_if(reports_, [&](const auto& report) {
      return boottime - report.second.boottime > kConnectedFor;
    });
    if (reports_.size() >= kHostsMax) return;
  }
  reports_[host.boot_id] = {host.wall, boottime};
}

HostClocks::Count HostClocks::CountAt(absl::Duration boottime, absl::Time time) const {
  Count count;
  for (const auto& [boot_id, report] : reports_) {
    const absl::Duration since = boottime - report.boottime;
    if (since > kConnectedFor) continue;
    ++count.connected;
    if (absl::AbsDuration(report.wall + since - time) > kAgreeMax) ++count.disagree;
  }
  return count;
}

namespace {

constexpr char kHoldFlag = 1;
constexpr char kSlowedFlag = 2;

}  // namespace

std::string EncodeClockRecord(const ClockRecord& record) {
  std::string out;
  AppendBigEndian<uint64_t>(&out, static_cast<uint64_t>(ToMicros(record.store_time)));
  AppendBigEndian<uint64_t>(&out,
                            static_cast<uint64_t>(absl::ToInt64Microseconds(record.boottime)));
  const bool slowed = record.slowed > absl::ZeroDuration();
  out.push_back(static_cast<char>((record.hold ? kHoldFlag : 0) | (slowed ? kSlowedFlag : 0)));
  if (slowed)
    AppendBigEndian<uint64_t>(&out,
                              static_cast<uint64_t>(absl::ToInt64Microseconds(record.slowed)));
  out += record.boot_id;
  return out;
}

absl::StatusOr<ClockRecord> DecodeClockRecord(absl::string_view bytes) {
  if (bytes.size() < 17) return absl::DataLossError("the store's clock record is too short");
  ClockRecord record;
  record.store_time = FromMicros(static_cast<int64_t>(ReadBigEndian<uint64_t>(bytes)));
  record.boottime =
      absl::Microseconds(static_cast<int64_t>(ReadBigEndian<uint64_t>(bytes.substr(8))));
  record.hold = (bytes[16] & kHoldFlag) != 0;
  const bool slowed = (bytes[16] & kSlowedFlag) != 0;
  bytes.remove_prefix(17);
  if (slowed) {
    if (bytes.size() < 8) return absl::DataLossError("the store's clock record is too short");
    record.slowed = absl::Microseconds(static_cast<int64_t>(ReadBigEndian<uint64_t>(bytes)));
    bytes.remove_prefix(8);
  }
  record.boot_id = std::string(bytes);
  return record;
}

StoreClock::StoreClock(std::optional<ClockRecord> record, std::string boot_id,
                       const ClockReading& now, absl::Duration slow_lead,
                       std::optional<absl::Duration> age)
    : boot_id_(boot_id),
      slow_lead_(std::max(slow_lead, kSlowLeadMin)),
      hosts_(std::move(boot_id)),
      last_(now),
      anchor_(now),
      stable_since_(now.boottime) {
  if (!record.has_value()) {
    store_time_ = now.wall;
  } else if (record->boot_id == boot_id_ && now.boottime >= record->boottime) {
    // Continue as if the process had not stopped. Slewing forward never passes the wall clock, so
    // the last process gave out no later time than this. Do not go further, or events would fire
    // early. (The record is cut to microseconds.)
    const absl::Duration elapsed = now.boottime - record->boottime;
    const absl::Time plain = record->store_time + elapsed;
    const absl::Duration forward = elapsed * kSlewMax + absl::Microseconds(1);
    const absl::Duration behind = now.wall - plain;
    store_time_ = plain;
    if (behind <= kFollowMax) store_time_ += std::clamp(behind, absl::ZeroDuration(), forward);
  } else if (age.has_value()) {
    store_time_ = record->store_time + *age;
    const absl::Duration behind = now.wall - store_time_;
    if (behind > absl::ZeroDuration() && behind <= kFollowMax) store_time_ = now.wall;
  } else {
    // The last process may have given out times for one more interval after its last record.
    store_time_ = record->store_time + kRecordInterval;
  }
  const bool age_known =
      !record.has_value() || (record->boot_id == boot_id_ && now.boottime >= record->boottime);
  if (!age_known) {
    clients_count_until_ = now.boottime + kClientsCountFor;
    clients_count_to_ = store_time_ + kStepMax;
  }
  if (record.has_value()) {
    hold_ = record->hold;
    slowed_ = record->slowed;
  }
  hold_since_ = now.boottime;
  Now(now);
}

absl::Time StoreClock::Now(const ClockReading& now) {
  const absl::Duration elapsed = std::max(now.boottime - last_.boottime, absl::ZeroDuration());
  NoteStability(now);
  Advance(elapsed, now.wall);
  last_ = {std::max(last_.boottime, now.boottime), now.wall, now.synchronised};
  disagreement_ = now.wall - store_time_;
  const absl::Duration away = absl::AbsDuration(disagreement_);
  const bool slow = slow_from_ != absl::InfiniteFuture();
  if (away <= kFollowMax && (!slow || disagreement_ >= absl::ZeroDuration())) {
    EndStep();
    const absl::Duration slew_max = elapsed * kSlewMax;
    store_time_ += std::clamp(disagreement_, -slew_max, slew_max);
    disagreement_ = now.wall - store_time_;
    return absl::FromUnixMicros(absl::ToUnixMicros(store_time_));
  }
  if (!away_since_.has_value()) away_since_ = last_.boottime;
  denied_ = denied_ || Denied(now);
  const bool believed = Believed(now);
  if (disagreement_ > absl::ZeroDuration() && believed) {
    StepTo(now.wall);
  } else {
    const bool behind = disagreement_ < absl::ZeroDuration();
    if (!behind || !believed) {
      slow_from_ = absl::InfiniteFuture();
    } else if (!slow) {
      accepted_ = true;
      slow_from_ = store_time_ + slow_lead_;
    }
    const bool held = !behind && !believed && !denied_;
    if (held && !hold_) hold_since_ = last_.boottime;
    hold_ = held;
  }
  return absl::FromUnixMicros(absl::ToUnixMicros(store_time_));
}

void StoreClock::Advance(absl::Duration elapsed, absl::Time wall) {
  // Store time slows down no more than needed to meet the wall clock.
  const absl::Time slow = AtSlowPace(store_time_, elapsed, slow_from_);
  const absl::Time full = store_time_ + elapsed;
  store_time_ = std::clamp(wall, slow, full);
  slowed_ += full - store_time_;
}

void StoreClock::NoteStability(const ClockReading& now) {
  const absl::Duration since = now.boottime - anchor_.boottime;
  const absl::Duration parted = absl::AbsDuration(now.wall - anchor_.wall - since);
  const bool stepped = parted > kStepJitter + since * kWallSlewMax;
  if (!stepped && now.boottime - last_.boottime <= kReadingGapMax) return;
  anchor_ = now;
  stable_since_ = now.boottime;
  if (stepped) accepted_ = false;
}

bool StoreClock::Believed(const ClockReading& now) const {
  if (accepted_) return true;
  const HostClocks::Count count = hosts_.CountAt(now.boottime, now.wall);
  if (denied_ && (Denied(now) || count.disagree == count.connected)) return false;
  if (now.boottime - std::max(stable_since_, *away_since_) < kStepStable) return false;
  if (absl::AbsDuration(disagreement_) <= kStepMax) return true;
  return now.synchronised && count.disagree == 0;
}

bool StoreClock::Denied(const ClockReading& now) const {
  const HostClocks::Count store = hosts_.CountAt(now.boottime, store_time_);
  const HostClocks::Count wall = hosts_.CountAt(now.boottime, now.wall);
  return store.connected >= 2 && 2 * store.disagree < store.connected &&
         2 * wall.disagree > wall.connected;
}

void StoreClock::StepTo(absl::Time wall) {
  store_time_ = wall;
  disagreement_ = absl::ZeroDuration();
  EndStep();
  ++steps_;
}

void StoreClock::EndStep() {
  hold_ = false;
  accepted_ = false;
  denied_ = false;
  slow_from_ = absl::InfiniteFuture();
  away_since_.reset();
}

bool StoreClock::AdvanceTo(absl::Time now_low, const ClockReading& now) {
  if (now_low <= Now(now) || now_low > clients_count_to_ || now.boottime > clients_count_until_)
    return false;
  store_time_ = now_low;
  Now(now);  // compares it with the wall clock
  return true;
}

void StoreClock::NoteHost(const HostClock& host, const ClockReading& now) {
  hosts_.Note(host, now.boottime);
}

ClockState StoreClock::State() const {
  const HostClocks::Count hosts = hosts_.CountAt(last_.boottime, last_.wall);
  return {.store_time = absl::FromUnixMicros(absl::ToUnixMicros(store_time_)),
          .pace = pace(),
          .disagreement = disagreement_,
          .held = hold_,
          .held_for = held_for(),
          .synchronised = last_.synchronised,
          .hosts = hosts.connected,
          .hosts_disagree = hosts.disagree};
}

ClockRecord StoreClock::Record(const ClockReading& now) {
  ClockRecord record;
  record.store_time = Now(now);
  record.boottime = last_.boottime;
  record.boot_id = boot_id_;
  record.hold = hold_;
  record.slowed = pace().slowed;
  return record;
}

void StoreClock::Confirm(const ClockReading& now) {
  Now(now);
  if (absl::AbsDuration(disagreement_) <= kFollowMax) return;
  if (disagreement_ > absl::ZeroDuration()) return StepTo(now.wall);
  accepted_ = true;
  Now(now);
}

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
