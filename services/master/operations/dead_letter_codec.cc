#include "services/master/operations/dead_letter_codec.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/base/uid.h"
#include "services/master/base/errors.h"
#include "services/master/codec/outcome_codec.h"
#include "services/master/events/event_filter.h"

namespace escapement::master {

absl::StatusOr<StoredDeadLetter> ReadDeadLetter(std::string key, std::string bytes) {
  StoredDeadLetter letter;
  std::optional<DeadLetterName> name = DecodeDeadLetterKey(key);
  if (!name.has_value() || !letter.record.ParseFromString(bytes) ||
      letter.record.uid().size() != Uid::kBytes)
    return BrokenRecord("a dead letter");
  letter.key = std::move(key);
  letter.bytes = std::move(bytes);
  letter.name = *std::move(name);
  return letter;
}

RunName RunOf(const StoredDeadLetter& letter) {
  return {{letter.name.tenant, letter.record.schedule_id()}, letter.record.occurrence()};
}

std::string EventNameOf(const StoredDeadLetter& letter) {
  if (IsOneOff(letter.record))
    return EventName{letter.name.tenant, letter.name.event_id}.ToString();
  return absl::StrCat(RunOf(letter).ToString(), "/events/", letter.record.index());
}

std::string ScheduleNameOf(const StoredDeadLetter& letter) {
  return IsOneOff(letter.record) ? std::string() : RunOf(letter).schedule.ToString();
}

std::string PolicyNameOf(const StoredDeadLetter& letter) {
  const std::string& policy = letter.record.event().throttle().policy_id();
  return policy.empty() ? std::string() : PolicyName{letter.name.tenant, policy}.ToString();
}

v1::DeadLetter ShowDeadLetter(const StoredDeadLetter& letter, absl::Duration retention) {
  const storage::v1::EventRecord& event = letter.record.event();
  v1::DeadLetter shown;
  shown.set_name(ToString(letter.name));
  shown.set_event(EventNameOf(letter));
  shown.set_event_id(letter.name.event_id);
  shown.set_schedule(ScheduleNameOf(letter));
  shown.set_policy(PolicyNameOf(letter));
  SetTimestamp(event.nominal_time_micros(), *shown.mutable_due_time());
  SetTimestamp(ToMicros(letter.name.time), *shown.mutable_create_time());
  SetTimestamp(ToMicros(letter.name.time + retention), *shown.mutable_expire_time());
  shown.set_reason(letter.record.reason());
  shown.set_attempts(static_cast<int32_t>(event.attempts()));
  shown.set_redrive_count(static_cast<int32_t>(event.redrives()));
  for (const storage::v1::AttemptRecord& attempt : event.tried())
    *shown.add_recent_attempts() = ShowAttempt(attempt);
  return shown;
}

v1::Event ShowRedriven(const StoredDeadLetter& letter, const storage::v1::EventRecord& row) {
  v1::Event event = ShowWaitingEvent(EventNameOf(letter), row, v1::PENDING, nullptr);
  event.set_event_id(letter.name.event_id);
  event.clear_payload();
  return event;
}

}  // namespace escapement::master
