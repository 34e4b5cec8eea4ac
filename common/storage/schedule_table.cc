#include "common/storage/schedule_table.h"

#include <algorithm>

#include "common/base/hash.h"
#include "common/base/key_codec.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement {

namespace {

constexpr uint8_t kPolicy = 0;
constexpr uint8_t kUser = 1;
constexpr uint8_t kCalendar = 2;
constexpr uint8_t kCalendarUser = 3;
constexpr uint8_t kCalendarMark = 4;
constexpr uint8_t kRetiming = 5;
constexpr uint8_t kSubscription = 7;
constexpr uint8_t kSubscriptionState = 8;

}  // namespace

std::string PolicyKey(absl::string_view tenant, absl::string_view policy_id) {
  return KeyWriter().U8(kPolicy).Text(tenant).Text(policy_id).Take();
}

std::string PolicyPrefix(absl::string_view tenant) {
  return KeyWriter().U8(kPolicy).Text(tenant).Take();
}

std::optional<PolicyName> DecodePolicyKey(absl::string_view key) {
  KeyReader reader(key);
  const bool of_policy = reader.U8() == kPolicy;
  PolicyName name;
  name.tenant = reader.Text();
  name.policy_id = reader.Text();
  if (!of_policy || !reader.done()) return std::nullopt;
  return name;
}

std::string PolicyUserKey(const Uid& policy, const Uid& schedule) {
  return KeyWriter(PolicyUserPrefix(policy)).Id(schedule).Take();
}

std::string PolicyUserPrefix(const Uid& policy) { return KeyWriter().U8(kUser).Id(policy).Take(); }

std::string CalendarKey(absl::string_view tenant, absl::string_view calendar_id) {
  return KeyWriter().U8(kCalendar).Text(tenant).Text(calendar_id).Take();
}

std::string CalendarPrefix(absl::string_view tenant) {
  return KeyWriter().U8(kCalendar).Text(tenant).Take();
}

Uid CalendarUid(absl::string_view tenant, absl::string_view calendar_id) {
  return StableHash128(CalendarKey(tenant, calendar_id));
}

std::string CalendarUserKey(const Uid& calendar, const Uid& schedule) {
  return KeyWriter(CalendarUserPrefix(calendar)).Id(schedule).Take();
}

std::string CalendarUserPrefix(const Uid& calendar) {
  return KeyWriter().U8(kCalendarUser).Id(calendar).Take();
}

std::optional<Uid> DecodeCalendarUserKey(absl::string_view key) {
  KeyReader reader(key);
  const bool of_user = reader.U8() == kCalendarUser;
  reader.Id();
  const Uid schedule = reader.Id();
  if (!of_user || !reader.done()) return std::nullopt;
  return schedule;
}

std::string CalendarMarkKey(absl::string_view tenant) {
  return KeyWriter().U8(kCalendarMark).Text(tenant).Take();
}

std::string RetimingKey(absl::string_view tenant, absl::string_view calendar_id) {
  return KeyWriter(RetimingPrefix()).Text(tenant).Text(calendar_id).Take();
}

std::string RetimingPrefix() { return KeyWriter().U8(kRetiming).Take(); }

std::optional<RetimingName> DecodeRetimingKey(absl::string_view key) {
  KeyReader reader(key);
  const bool of_retiming = reader.U8() == kRetiming;
  RetimingName name;
  name.tenant = reader.Text();
  name.calendar_id = reader.Text();
  if (!of_retiming || !reader.done()) return std::nullopt;
  return name;
}

namespace {

// Fields that a RetimingProgress has.
constexpr uint8_t kHasLast = 1;
constexpr uint8_t kHasRedoAfter = 2;
constexpr uint8_t kHasRetryTime = 4;

}  // namespace

std::string EncodeRetimingProgress(const RetimingProgress& progress) {
  const int fields = (progress.last.has_value() ? kHasLast : 0) |
                     (progress.redo_after.has_value() ? kHasRedoAfter : 0) |
                     (progress.retry_time.has_value() ? kHasRetryTime : 0);
  KeyWriter writer;
  writer.Id(progress.change).U8(static_cast<uint8_t>(fields)).U64(progress.steps);
  if (progress.last.has_value()) writer.Id(*progress.last);
  if (progress.redo_after.has_value()) writer.Id(*progress.redo_after);
  if (progress.retry_time.has_value()) writer.Time(*progress.retry_time);
  for (const Uid& schedule : progress.failed) writer.Id(schedule);
  return writer.Take();
}

std::optional<RetimingProgress> DecodeRetimingProgress(absl::string_view value) {
  KeyReader reader(value);
  RetimingProgress progress;
  progress.change = reader.Id();
  const uint8_t fields = reader.U8();
  if ((fields & ~(kHasLast | kHasRedoAfter | kHasRetryTime)) != 0) return std::nullopt;
  progress.steps = reader.U64();
  if ((fields & kHasLast) != 0) progress.last = reader.Id();
  if ((fields & kHasRedoAfter) != 0) progress.redo_after = reader.Id();
  if ((fields & kHasRetryTime) != 0) progress.retry_time = reader.Time();
  while (reader.ok() && !reader.done()) progress.failed.push_back(reader.Id());
  if (!reader.ok()) return std::nullopt;
  return progress;
}

std::string SubscriptionKey(absl::string_view tenant, absl::string_view subscription_id) {
  return KeyWriter(SubscriptionPrefix(tenant)).Text(subscription_id).Take();
}

std::string SubscriptionPrefix(absl::string_view tenant) {
  return KeyWriter(SubscriptionPrefix()).Text(tenant).Take();
}

std::string SubscriptionPrefix() { return KeyWriter().U8(kSubscription).Take(); }

std::string SubscriptionStateKey(absl::string_view tenant, absl::string_view subscription_id) {
  return KeyWriter().U8(kSubscriptionState).Text(tenant).Text(subscription_id).Take();
}

Uid PolicyUid(absl::string_view tenant, absl::string_view policy_id) {
  return StableHash128(PolicyKey(tenant, policy_id));
}

Uid WaitingUid(absl::string_view tenant, const storage::v1::ThrottleRecord& throttle,
               const Uid& schedule) {
  return throttle.policy_id().empty() ? schedule : PolicyUid(tenant, throttle.policy_id());
}

uint16_t PolicyShardOf(const Uid& policy, uint32_t policy_shards) {
  return static_cast<uint16_t>(StableHash64(policy.bytes()) % policy_shards);
}

namespace {

WaitingPlace PlaceOf(absl::string_view tenant, bool by_tenant, const Uid& policy,
                     uint32_t policy_shards) {
  const uint64_t hash = by_tenant ? StableHash64(tenant) : StableHash64(policy.bytes());
  return {.policy_shard = static_cast<uint16_t>(hash % policy_shards), .policy = policy};
}

}  // namespace

WaitingPlace WaitingPlaceOf(absl::string_view tenant, const storage::v1::ThrottleRecord& throttle,
                            const Uid& schedule, uint32_t policy_shards) {
  return PlaceOf(tenant, throttle.by_tenant(), WaitingUid(tenant, throttle, schedule),
                 policy_shards);
}

WaitingPlace WaitingPlaceOf(const storage::v1::PolicyRecord& policy, uint32_t policy_shards) {
  return PlaceOf(policy.tenant(), policy.by_tenant(),
                 PolicyUid(policy.tenant(), policy.policy_id()), policy_shards);
}

bool SameLimits(const storage::v1::ThrottleRecord& a, const storage::v1::ThrottleRecord& b) {
  const auto weight = [](uint64_t weight) { return std::max<uint64_t>(weight, 1); };
  return a.policy_id() == b.policy_id() && a.policy_key() == b.policy_key() &&
         a.by_tenant() == b.by_tenant() && weight(a.weight()) == weight(b.weight()) &&
         std::equal(a.more().begin(), a.more().end(), b.more().begin(), b.more().end(),
                    [&](const auto& x, const auto& y) {
                      return x.policy_id() == y.policy_id() && x.policy_key() == y.policy_key() &&
                             weight(x.weight()) == weight(y.weight());
                    });
}

std::string ScheduleKey(absl::string_view tenant, absl::string_view schedule_id) {
  return KeyWriter().Text(tenant).Text(schedule_id).Take();
}

std::string DeletedScheduleKey(absl::string_view tenant, absl::string_view schedule_id) {
  return KeyWriter().Text("").Text(tenant).Text(schedule_id).Take();
}

std::string SchedulePrefix(absl::string_view tenant) { return KeyWriter().Text(tenant).Take(); }

std::string LabelKey(absl::string_view tenant, absl::string_view key, absl::string_view value,
                     absl::string_view schedule_id) {
  return KeyWriter(LabelPrefix(tenant, key, value)).Text(schedule_id).Take();
}

std::string LabelPrefix(absl::string_view tenant, absl::string_view key, absl::string_view value) {
  return KeyWriter().Text(tenant).Text(key).Text(value).Take();
}

std::string StateKey(const Uid& uid) { return std::string(uid.bytes()); }

std::string DefinitionKey(const Uid& uid, uint64_t version) {
  return KeyWriter().Id(uid).U64(version).Take();
}

uint16_t PartitionOf(const Uid& uid, uint32_t partitions) {
  return static_cast<uint16_t>(StableHash64(uid.bytes()) % partitions);
}

}  // namespace escapement
