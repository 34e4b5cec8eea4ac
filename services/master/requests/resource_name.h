// Resource names: tenants/{tenant}, …/schedules/{schedule}, …/runs/{occurrence}, …/events/{event or
// index}, …/policies/{policy}, …/deadLetters/{time and event}, …/operations/{operation}.
//
// Parsers answer INVALID_ARGUMENT for `field` if the text has another form. The gate has checked
// before that the tenant exists (tenant_rules.h). Pure.

#ifndef SERVICES_MASTER_REQUESTS_RESOURCE_NAME_H_
#define SERVICES_MASTER_REQUESTS_RESOURCE_NAME_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/uid.h"
#include "common/storage/dead_letter_table.h"

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
// tenants/{tenant} or tenants/-: the tenant's id, or kAllTenants.
absl::StatusOr<std::string> ParseTenantOrAll(absl::string_view name, absl::string_view field);
absl::StatusOr<KeyName> ParseKeyName(absl::string_view name, absl::string_view field);
absl::StatusOr<TargetName> ParseTargetName(absl::string_view name, absl::string_view field);
absl::StatusOr<DeadLetterName> ParseDeadLetterName(absl::string_view name, absl::string_view field);
absl::StatusOr<OperationName> ParseOperationName(absl::string_view name, absl::string_view field);

// 1–63 of a–z, 0–9, '-', '_', '.', beginning with a letter or digit.
bool IsScheduleId(absl::string_view id);
bool IsPolicyId(absl::string_view id);  // the same form
// 1–63 of a–z, A–Z, 0–9, '-', '_', and not of the form that the server makes.
bool IsClientEventId(absl::string_view id);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_REQUESTS_RESOURCE_NAME_H_
