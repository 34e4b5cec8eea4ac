// Schedules: public messages ↔ records, with full validation. A Definition is one version of a
// schedule; a ScheduleDraft is a client's schedule after validation.

#ifndef SERVICES_MASTER_CODEC_SCHEDULE_CODEC_H_
#define SERVICES_MASTER_CODEC_SCHEDULE_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/status/errors.h"
#include "common/storage/children_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/resources.pb.h"
#include "escapement/v1/schedule_service.pb.h"
#include "escapement/v1/tenant_service.pb.h"
#include "google/protobuf/field_mask.pb.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "services/master/base/target_secrets.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {

// Definition: one version of a schedule with what is derived from it. Pure.
//
// How a definition comes to be: DraftOf → FillThrottle, once its policies have been read →
// FillAnchor, for each version with the time of the schedule's creation → SetCalendarDays, once its
// calendar has been read → CheckFires → stored. A new schedule also needs CheckFiresAfter its
// creation. LoadDefinition is the way back; it needs none of these steps.
struct Definition {
  storage::v1::DefinitionRecord record;
  cron::Timetable timetable = cron::Timetable(cron::TimetableSpec());
  // An interval whose anchor_time was not given: FillAnchor sets it. Until then the anchor is 1970.
  bool anchor_missing = false;
  // A schedule with a policy that does not say its completion: FillThrottle sets it. Until then
  // it is ON_RELEASE.
  bool completion_missing = false;
  // The request names its policies in `limits`: errors then name these fields.
  bool limits_listed = false;
};

// The names of a request's fields in errors.
struct TimingFields {
  std::string prefix = "schedule.";
  std::string start_time = "start_time";
  std::string end_time = "end_time";

  std::string Of(absl::string_view name) const { return absl::StrCat(prefix, name); }
};

// Sets the anchor of an interval that was given without one, and its timetable. It changes nothing
// else, so it may be called for any definition, and again.
void FillAnchor(Definition& definition, absl::Time schedule_create_time);

// INVALID_ARGUMENT, reason IMPOSSIBLE_EXPRESSION, if the definition has no occurrence at all. The
// error names the field that leaves none ("schedule.cron", "schedule.calendar"). DraftOf has
// checked this already, except for an interval whose anchor is missing.
absl::Status CheckFires(const Definition& definition, const TimingFields& fields = {});

// INVALID_ARGUMENT (INVALID_FIELD) if every occurrence is at or before `now`: a schedule that would
// never fire is not made. An update may end a schedule that way: then the schedule is FINISHED.
absl::Status CheckFiresAfter(const Definition& definition, absl::Time now,
                             const TimingFields& fields = {});

// DATA_LOSS if a stored definition cannot be read any more.
absl::StatusOr<Definition> LoadDefinition(storage::v1::DefinitionRecord record);

// When a schedule fires, and what becomes of occurrences that are late or meet a run: public
// messages ↔ records, with full validation. Pure.

// Fills cron, time_zone, timing, misfire, run_overlap and the timetable. Adds every wrong field to
// `violations` ("schedule.interval.every", "schedule.times[3]"), and makes the timetable only if
// none is wrong. Times are kept in ascending order. Values that equal the defaults are not kept, so
// that equal schedules have equal records.
void ReadTiming(const v1::Schedule& schedule, Definition& definition, FieldViolations& violations);
// The same for a preview, which has its own names for the fields, and its calendar without the days
// (ReadCalendarUse). `tenant`: the calendar's.
void ReadTiming(const v1::PreviewScheduleRequest& request, absl::string_view tenant,
                Definition& definition, FieldViolations& violations);
TimingFields PreviewFields();

// The reverse. Policies are shown with their defaults filled in, and dst_policy only for cron
// expressions.
void WriteTiming(const storage::v1::DefinitionRecord& definition, v1::Schedule& schedule);

// True if the field of Schedule with this name says when the schedule fires. Exactly one such field
// may be set.
bool IsWhenField(const std::string& name);

// How the events of a schedule are throttled: policy, window and completion ↔ ThrottleRecord, with
// validation. Pure.

// The id of the policy that a schedule or event names in `field`, by its full name or its id. Empty
// if there is none, or a wrong one, which adds an error.
std::string ReadPolicyId(const std::string& policy, absl::string_view tenant,
                         absl::string_view field, FieldViolations& violations);

// The policy_key in `field`. Adds an error if it is none.
const std::string& ReadPolicyKey(const std::string& key, absl::string_view field,
                                 FieldViolations& violations);

// The limits of a Schedule or Event: `policy` and `policy_key`, or `limits`. The message outlives
// it.
struct NamedLimits {
  template <typename Message>
  explicit NamedLimits(const Message& message)
      : policy(message.policy()), policy_key(message.policy_key()), limits(message.limits()) {}
  bool any() const { return !policy.empty() || listed(); }
  bool listed() const { return !limits.empty(); }

  const std::string& policy;
  const std::string& policy_key;
  const google::protobuf::RepeatedPtrField<v1::Limit>& limits;
};
// If the patch of a Schedule or Event sets `policy` or `limits`, clears the other one.
template <typename Message>
void ForgetFormerLimits(const Message& patch, const google::protobuf::FieldMask& mask,
                        Message& message) {
  const NamedLimits next(patch);
  if (HasPath(mask, "limits") && next.listed()) {
    message.clear_policy();
    message.clear_policy_key();
  }
  if (HasPath(mask, "policy") && !next.policy.empty()) message.clear_limits();
}
// Fills what a Schedule or Event leaves unset. With a `mask` only fields that it names; limits only
// if it replaces all, since one that names them may take them away.
template <typename Message>
void ApplyDefaults(const v1::TenantDefaults& defaults, const google::protobuf::FieldMask* mask,
                   Message& message) {
  const bool whole = mask == nullptr || ReplacesAll(*mask);
  if (defaults.has_retry_policy() && !message.has_retry_policy() &&
      (whole || HasPath(*mask, "retry_policy")))
    *message.mutable_retry_policy() = defaults.retry_policy();
  if (defaults.has_delivery_timeout() && !message.has_delivery_timeout() &&
      (whole || HasPath(*mask, "delivery_timeout")))
    *message.mutable_delivery_timeout() = defaults.delivery_timeout();
  if constexpr (std::is_same_v<Message, v1::Event>) {
    if (defaults.has_max_lateness() && !message.has_max_lateness() &&
        (whole || HasPath(*mask, "max_lateness")))
      *message.mutable_max_lateness() = defaults.max_lateness();
  }
  if (!whole || defaults.limits().empty() || NamedLimits(message).any()) return;
  *message.mutable_limits() = defaults.limits();
  if (message.completion() == v1::COMPLETION_UNSPECIFIED)
    message.set_completion(defaults.completion());
}

// The field below `prefix` ("schedule") that names the policy of this limit.
std::string PolicyField(absl::string_view prefix, bool listed, size_t index);

// Sets policy_id, policy_key, weight and more. Adds each error to `violations`, with its field
// below `prefix`. The policies must belong to `tenant`; whether they exist is not checked.
void ReadLimits(const NamedLimits& named, absl::string_view prefix, absl::string_view tenant,
                storage::v1::ThrottleRecord& throttle, FieldViolations& violations);
// All limits, each with its weight. Empty: there is no policy.
std::vector<storage::v1::LimitRecord> LimitsOf(const storage::v1::ThrottleRecord& throttle);
std::set<std::string> PolicyIdsOf(const storage::v1::ThrottleRecord& throttle);
// Sets `policy` and `policy_key` for one limit of weight 1, else `limits`.
void WriteLimits(const storage::v1::ThrottleRecord& throttle, absl::string_view tenant,
                 v1::Schedule& schedule);
void WriteLimits(const storage::v1::ThrottleRecord& throttle, absl::string_view tenant,
                 v1::Event& event);

// Policies of a tenant by id, as they were read; nullopt: there is none.
using Policies = std::map<std::string, std::optional<storage::v1::PolicyRecord>>;

// Sets by_tenant and, if it is missing, the completion: ON_DELIVERY if no policy of the limits
// needs to know when the consumer is done, because they limit only rates; else ON_RELEASE. Adds a
// violation of a weight that is more than its policy can give. All policies are there.
void FillLimits(const Policies& policies, bool completion_missing, absl::string_view prefix,
                storage::v1::ThrottleRecord& throttle, FieldViolations& violations);
// FAILED_PRECONDITION (POLICIES_APART, with `field`) if tokens of the policies are counted in
// different policy shards. All policies are there.
absl::Status CheckTogether(const storage::v1::ThrottleRecord& throttle, const Policies& policies,
                           uint32_t policy_shards, absl::string_view field);

// Reads the limits, window and completion. Unset if events go out as they fall due: no policy, no
// window, and complete on delivery. Adds each error to `violations` ("schedule.window.duration").
std::optional<storage::v1::ThrottleRecord> ReadThrottle(const v1::Schedule& schedule,
                                                        absl::string_view tenant,
                                                        FieldViolations& violations);

// Writes the limits, window and completion (which is always shown).
void WriteThrottle(const storage::v1::DefinitionRecord& definition, v1::Schedule& schedule);

// FillLimits and CheckTogether for a definition with a policy, whose policies are all there.
// INVALID_ARGUMENT or FAILED_PRECONDITION.
absl::Status FillThrottle(const Policies& policies, uint32_t policy_shards, Definition& definition);

// Clears the completion of a shown schedule if it is the default with or without a policy,
// whichever the schedule has. For an update that adds or removes the policy: the new default then
// applies.
void ForgetDefaultCompletion(v1::Schedule& schedule);

// Schedules: public messages ↔ records, with full validation. Pure.

// A client's schedule after validation: everything except name, uid, version and times.
struct ScheduleDraft {
  storage::v1::ScheduleRecord record;  // display_name and labels
  Definition definition;
};

// INVALID_ARGUMENT with every field that is wrong ("schedule.cron"). If only the times are wrong,
// because they never fire, the reason is IMPOSSIBLE_EXPRESSION. `tenant` is the schedule's. It does
// not check whether policy and calendar exist, nor whether the times have passed. The days of the
// calendar are not known yet. An interval may still
// lack its anchor.
absl::StatusOr<ScheduleDraft> DraftOf(const v1::Schedule& schedule, absl::string_view tenant);

// Seals the secrets of its targets (TargetSecrets::Seal). `before`: the present definition, null
// for a new schedule. INVALID_ARGUMENT with the secrets that cannot be stored.
absl::Status SealSecrets(const TargetSecrets& secrets, absl::string_view tenant,
                         const storage::v1::DefinitionRecord* before,
                         storage::v1::DefinitionRecord& definition);

// `current` with the fields of `patch` that the mask names; without a mask, with all that are set
// in `patch`; "*" replaces all. Output-only fields and the name stay. A patch that says in a new
// way when the schedule fires (cron, cron_fields, interval or times) replaces the former way, and
// the dst_policy that went with it. So do `policy` and `limits`: each replaces the other. A patch
// that takes the calendar away also takes its on_excluded away.
// INVALID_ARGUMENT (update_mask) for a path that is no field.
absl::StatusOr<v1::Schedule> ApplyMask(const v1::Schedule& current, const v1::Schedule& patch,
                                       const google::protobuf::FieldMask& mask);

struct ShownSchedule {
  const storage::v1::ScheduleRecord& record;
  const storage::v1::StateRecord& state;
  const storage::v1::DefinitionRecord& definition;
};
// `next` is NextTime: an enabled schedule without one is shown as FINISHED.
v1::Schedule ShowSchedule(const ShownSchedule& shown, std::optional<absl::Time> next);

// Sets the counts of all its runs.
void ShowCounts(const storage::v1::RunPartRecord& counts, v1::Schedule& schedule);

// The next occurrence after `now` of an enabled schedule, as far as its max_runs reach.
std::optional<absl::Time> NextTime(const storage::v1::StateRecord& state,
                                   const Definition& definition, absl::Time now);

// Adds a violation if the text is longer than `chars_max` characters or holds control characters.
void CheckShownText(absl::string_view field, absl::string_view text, size_t chars_max,
                    FieldViolations& violations);

// Quoted: version, change count and the incarnation, which follows from the uid.
std::string Etag(absl::string_view uid, const storage::v1::StateRecord& state);

absl::string_view StateName(storage::v1::ScheduleStateKind kind);  // "ENABLED", …

}  // namespace escapement::master

#endif  // SERVICES_MASTER_CODEC_SCHEDULE_CODEC_H_
