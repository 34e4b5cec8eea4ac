// Resource names: tenants/{tenant}, …/schedules/{schedule}, …/runs/{occurrence}, …/events/{event or
// index}, …/policies/{policy}, …/calendars/{calendar},
// …/subscriptions/{subscription}, …/deadLetters/{time and event}, …/operations/{operation}.
//
// Parsers answer INVALID_ARGUMENT for `field` if the text has another form. The gate has checked
// before that the tenant exists (tenant_rules.h). Pure.

#ifndef SERVICES_MASTER_REQUESTS_RESOURCE_NAME_H_
#define SERVICES_MASTER_REQUESTS_RESOURCE_NAME_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/uid.h"
#include "common/status/errors.h"
#include "common/storage/name_tables.h"
#include "google/protobuf/field_mask.pb.h"
#include "google/protobuf/message.h"

namespace escapement::master {

struct ScheduleName {
  std::string tenant, schedule;
  std::string ToString() const;
};

struct RunName {
  ScheduleName schedule;
  std::string occurrence;
  std::string ToString() const;
};

struct EventName {  // the name of a one-off event
  std::string tenant, event;
  std::string ToString() const;
};

struct PolicyName {
  std::string tenant, policy;
  std::string ToString() const;
};

struct CalendarName {
  std::string tenant, calendar;
  std::string ToString() const;
};

struct SubscriptionName {
  std::string tenant, subscription;
  std::string ToString() const;
};

struct KeyName {  // names an API key; the tenant may be kAllTenants
  std::string tenant, key;
  std::string ToString() const;
};

struct TargetName {  // names an endpoint, by the hash of its key
  std::string tenant;
  Uid target;
};

struct OperationName {
  std::string tenant, operation;
  std::string ToString() const;
};

// tenants/{tenant}/deadLetters/{16 hex digits of the microseconds}-{event id}.
std::string ToString(const DeadLetterName& name);

absl::StatusOr<std::string> ParseTenantName(absl::string_view name, absl::string_view field);
absl::StatusOr<ScheduleName> ParseScheduleName(absl::string_view name, absl::string_view field);
absl::StatusOr<RunName> ParseRunName(absl::string_view name, absl::string_view field);
absl::StatusOr<EventName> ParseEventName(absl::string_view name, absl::string_view field);
absl::StatusOr<PolicyName> ParsePolicyName(absl::string_view name, absl::string_view field);
absl::StatusOr<CalendarName> ParseCalendarName(absl::string_view name, absl::string_view field);
absl::StatusOr<SubscriptionName> ParseSubscriptionName(absl::string_view name,
                                                       absl::string_view field);
// tenants/{tenant} or tenants/-: the tenant's id, or kAllTenants.
absl::StatusOr<std::string> ParseTenantOrAll(absl::string_view name, absl::string_view field);
absl::StatusOr<KeyName> ParseKeyName(absl::string_view name, absl::string_view field);
absl::StatusOr<TargetName> ParseTargetName(absl::string_view name, absl::string_view field);
absl::StatusOr<DeadLetterName> ParseDeadLetterName(absl::string_view name, absl::string_view field);
absl::StatusOr<OperationName> ParseOperationName(absl::string_view name, absl::string_view field);

// The form of the ids of schedules, policies, calendars and subscriptions: 1–63 of a–z, 0–9, '-',
// '_', '.', beginning with a letter or digit.
bool IsResourceId(absl::string_view id);
// Adds an error if the client has chosen an id for a new resource that does not have this form.
void CheckNewId(absl::string_view field, absl::string_view id, FieldViolations& violations);
// 1–63 of a–z, A–Z, 0–9, '-', '_', and not of the form that the server makes.
bool IsClientEventId(absl::string_view id);

// The update_mask of Update methods (https://google.aip.dev/134): which fields of a patch replace
// those of the current resource. Pure.

// The fields to replace: those of the mask or, if it is empty, all that are set in `patch`.
// INVALID_ARGUMENT (update_mask) for a path that is no field of the patch's type and not "*".
absl::StatusOr<google::protobuf::FieldMask> ReadUpdateMask(const google::protobuf::Message& patch,
                                                           const google::protobuf::FieldMask& mask);

// All fields that are set in `message`.
google::protobuf::FieldMask SetFields(const google::protobuf::Message& message);

// True if the mask has "*": the patch replaces the whole resource.
bool ReplacesAll(const google::protobuf::FieldMask& mask);
// True if the mask has exactly this path.
bool HasPath(const google::protobuf::FieldMask& mask, absl::string_view path);

// Replaces in `result`, of the patch's type, the fields that the mask names. `mask` is from
// ReadUpdateMask and does not replace all.
void ReplaceFields(const google::protobuf::Message& patch, const google::protobuf::FieldMask& mask,
                   google::protobuf::Message& result);

// `current` with the fields of `patch` that the mask names; without a mask, with all that are set
// in `patch`; "*" replaces all. INVALID_ARGUMENT (update_mask) for a path that is no field.
template <typename Resource>
absl::StatusOr<Resource> ApplyUpdateMask(const Resource& current, const Resource& patch,
                                         const google::protobuf::FieldMask& mask) {
  const absl::StatusOr<google::protobuf::FieldMask> fields = ReadUpdateMask(patch, mask);
  if (!fields.ok()) return fields.status();
  if (ReplacesAll(*fields)) return patch;
  Resource result = current;
  ReplaceFields(patch, *fields, result);
  return result;
}

}  // namespace escapement::master

#endif  // SERVICES_MASTER_REQUESTS_RESOURCE_NAME_H_
