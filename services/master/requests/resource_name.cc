#include "services/master/requests/resource_name.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/base/proto_time.h"
#include "common/cron/timetable.h"
#include "common/storage/event_id.h"
#include "common/storage/name_tables.h"
#include "google/protobuf/util/field_mask_util.h"
#include "services/master/base/limits.h"

namespace escapement::master {

namespace {

constexpr size_t kHexDigits = 16;  // the time in the id of a dead letter

bool IsLowerId(absl::string_view id) {
  if (id.empty() || id.size() > kResourceIdBytesMax) return false;
  const auto alnum = [](char c) { return absl::ascii_islower(c) || absl::ascii_isdigit(c); };
  return alnum(id[0]) && std::all_of(id.begin(), id.end(), [&](char c) {
           return alnum(c) || c == '-' || c == '_' || c == '.';
         });
}

// The variable parts of `name` if it has the form of `pattern` ("tenants/*/schedules/*"), else
// empty.
std::vector<absl::string_view> Match(absl::string_view name, absl::string_view pattern) {
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '/');
  const std::vector<absl::string_view> wanted = absl::StrSplit(pattern, '/');
  std::vector<absl::string_view> variables;
  if (parts.size() != wanted.size()) return {};
  for (size_t i = 0; i < parts.size(); ++i) {
    if (wanted[i] == "*") {
      if (parts[i].empty()) return {};
      variables.push_back(parts[i]);
    } else if (parts[i] != wanted[i]) {
      return {};
    }
  }
  return variables;
}

absl::Status WrongForm(absl::string_view name, absl::string_view field, absl::string_view form) {
  return InvalidField(field, name.empty() ? absl::StrCat("is required: ", form)
                                          : absl::StrCat("\"", name.substr(0, 100),
                                                         "\" is not of the form ", form));
}

}  // namespace

std::string ScheduleName::ToString() const {
  return absl::StrCat("tenants/", tenant, "/schedules/", schedule);
}
std::string RunName::ToString() const {
  return absl::StrCat(schedule.ToString(), "/runs/", occurrence);
}
std::string EventName::ToString() const {
  return absl::StrCat("tenants/", tenant, "/events/", event);
}
std::string PolicyName::ToString() const {
  return absl::StrCat("tenants/", tenant, "/policies/", policy);
}

std::string CalendarName::ToString() const {
  return absl::StrCat("tenants/", tenant, "/calendars/", calendar);
}

std::string SubscriptionName::ToString() const {
  return absl::StrCat("tenants/", tenant, "/subscriptions/", subscription);
}

std::string KeyName::ToString() const { return absl::StrCat("tenants/", tenant, "/keys/", key); }

std::string OperationName::ToString() const {
  return absl::StrCat("tenants/", tenant, "/operations/", operation);
}

std::string ToString(const DeadLetterName& name) {
  return absl::StrFormat("tenants/%s/deadLetters/%016x-%s", name.tenant,
                         static_cast<uint64_t>(ToMicros(name.time)), name.event_id);
}

absl::StatusOr<std::string> ParseTenantName(absl::string_view name, absl::string_view field) {
  const auto parts = Match(name, "tenants/*");
  if (parts.empty() || !IsLowerId(parts[0])) return WrongForm(name, field, "tenants/{tenant}");
  return std::string(parts[0]);
}

absl::StatusOr<ScheduleName> ParseScheduleName(absl::string_view name, absl::string_view field) {
  const auto parts = Match(name, "tenants/*/schedules/*");
  if (parts.empty() || !IsLowerId(parts[0]) || !IsResourceId(parts[1])) {
    return WrongForm(name, field, "tenants/{tenant}/schedules/{schedule}");
  }
  return ScheduleName{std::string(parts[0]), std::string(parts[1])};
}

absl::StatusOr<RunName> ParseRunName(absl::string_view name, absl::string_view field) {
  const auto parts = Match(name, "tenants/*/schedules/*/runs/*");
  if (parts.empty() || !IsLowerId(parts[0]) || !IsResourceId(parts[1]) ||
      !cron::ParseOccurrence(std::string(parts[2])).ok()) {
    return WrongForm(name, field, "tenants/{tenant}/schedules/{schedule}/runs/{occurrence}");
  }
  return RunName{ScheduleName{std::string(parts[0]), std::string(parts[1])}, std::string(parts[2])};
}

absl::StatusOr<EventName> ParseEventName(absl::string_view name, absl::string_view field) {
  const auto parts = Match(name, "tenants/*/events/*");
  if (parts.empty() || !IsLowerId(parts[0]) ||
      (!IsClientEventId(parts[1]) && !ParseServerMadeEventId(parts[1]).has_value())) {
    return WrongForm(name, field, "tenants/{tenant}/events/{event}");
  }
  return EventName{std::string(parts[0]), std::string(parts[1])};
}

absl::StatusOr<CalendarName> ParseCalendarName(absl::string_view name, absl::string_view field) {
  const auto parts = Match(name, "tenants/*/calendars/*");
  if (parts.empty() || !IsLowerId(parts[0]) || !IsResourceId(parts[1]))
    return WrongForm(name, field, "tenants/{tenant}/calendars/{calendar}");
  return CalendarName{std::string(parts[0]), std::string(parts[1])};
}

absl::StatusOr<SubscriptionName> ParseSubscriptionName(absl::string_view name,
                                                       absl::string_view field) {
  const auto parts = Match(name, "tenants/*/subscriptions/*");
  if (parts.empty() || !IsLowerId(parts[0]) || !IsResourceId(parts[1]))
    return WrongForm(name, field, "tenants/{tenant}/subscriptions/{subscription}");
  return SubscriptionName{std::string(parts[0]), std::string(parts[1])};
}

absl::StatusOr<std::string> ParseTenantOrAll(absl::string_view name, absl::string_view field) {
  const auto parts = Match(name, "tenants/*");
  if (parts.empty() || (parts[0] != kAllTenants && !IsLowerId(parts[0])))
    return WrongForm(name, field, "tenants/{tenant} or tenants/-");
  return std::string(parts[0]);
}

absl::StatusOr<KeyName> ParseKeyName(absl::string_view name, absl::string_view field) {
  const auto parts = Match(name, "tenants/*/keys/*");
  if (parts.empty() || (parts[0] != kAllTenants && !IsLowerId(parts[0])) || !IsLowerId(parts[1]))
    return WrongForm(name, field, "tenants/{tenant}/keys/{key}");
  return KeyName{std::string(parts[0]), std::string(parts[1])};
}

absl::StatusOr<TargetName> ParseTargetName(absl::string_view name, absl::string_view field) {
  const auto parts = Match(name, "tenants/*/targets/*");
  const auto is_hex = [](absl::string_view id) {
    return id.size() == 2 * Uid::kBytes && std::all_of(id.begin(), id.end(), [](char c) {
             return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f');
           });
  };
  if (parts.empty() || !IsLowerId(parts[0]) || !is_hex(parts[1]))
    return WrongForm(name, field, "tenants/{tenant}/targets/{target}");
  return TargetName{std::string(parts[0]), Uid::FromHex(parts[1])};
}

absl::StatusOr<PolicyName> ParsePolicyName(absl::string_view name, absl::string_view field) {
  const auto parts = Match(name, "tenants/*/policies/*");
  if (parts.empty() || !IsLowerId(parts[0]) || !IsResourceId(parts[1])) {
    return WrongForm(name, field, "tenants/{tenant}/policies/{policy}");
  }
  return PolicyName{std::string(parts[0]), std::string(parts[1])};
}

absl::StatusOr<DeadLetterName> ParseDeadLetterName(absl::string_view name,
                                                   absl::string_view field) {
  const auto parts = Match(name, "tenants/*/deadLetters/*");
  const auto wrong = [&] {
    return WrongForm(name, field, "tenants/{tenant}/deadLetters/{dead letter}");
  };
  if (parts.empty() || !IsLowerId(parts[0]) || parts[1].size() < kHexDigits + 2) return wrong();
  uint64_t micros = 0;
  if (!absl::SimpleHexAtoi(parts[1].substr(0, kHexDigits), &micros)) return wrong();
  DeadLetterName letter{std::string(parts[0]), FromMicros(static_cast<int64_t>(micros)),
                        std::string(parts[1].substr(kHexDigits + 1))};
  const bool is_id =
      IsClientEventId(letter.event_id) || ParseServerMadeEventId(letter.event_id).has_value();
  // Also refuses other spellings of the same number.
  if (!is_id || ToString(letter) != name) return wrong();
  return letter;
}

absl::StatusOr<OperationName> ParseOperationName(absl::string_view name, absl::string_view field) {
  const auto parts = Match(name, "tenants/*/operations/*");
  if (parts.empty() || !IsLowerId(parts[0]) || !IsLowerId(parts[1]))
    return WrongForm(name, field, "tenants/{tenant}/operations/{operation}");
  return OperationName{std::string(parts[0]), std::string(parts[1])};
}

bool IsResourceId(absl::string_view id) { return IsLowerId(id); }

void CheckNewId(absl::string_view field, absl::string_view id, FieldViolations& violations) {
  if (id.empty() || IsResourceId(id)) return;
  violations.Add(
      field,
      "must be 1-63 characters of a-z, 0-9, '-', '_', '.', beginning with a letter or digit");
}

bool IsClientEventId(absl::string_view id) {
  if (id.empty() || id.size() > kResourceIdBytesMax) return false;
  return std::all_of(id.begin(), id.end(),
                     [](char c) { return absl::ascii_isalnum(c) || c == '-' || c == '_'; }) &&
         !ParseServerMadeEventId(id).has_value();
}

using google::protobuf::FieldMask;
using google::protobuf::Message;
using google::protobuf::util::FieldMaskUtil;

absl::StatusOr<FieldMask> ReadUpdateMask(const Message& patch, const FieldMask& mask) {
  if (mask.paths().empty()) return SetFields(patch);
  const auto* type = patch.GetDescriptor();
  FieldViolations violations;
  for (const std::string& path : mask.paths()) {
    if (path == "*") continue;
    if (path.empty() || !FieldMaskUtil::GetFieldDescriptors(type, path, nullptr)) {
      violations.Add("update_mask", absl::StrCat("\"", path.substr(0, 100), "\" is not a field of ",
                                                 type->name()));
    }
  }
  if (!violations.empty()) return violations.ToStatus();
  return mask;
}

FieldMask SetFields(const Message& message) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  FieldMask mask;
  for (const auto* field : fields) mask.add_paths(field->name());
  return mask;
}

bool ReplacesAll(const FieldMask& mask) { return HasPath(mask, "*"); }

bool HasPath(const FieldMask& mask, absl::string_view path) {
  return absl::c_linear_search(mask.paths(), path);
}

void ReplaceFields(const Message& patch, const FieldMask& mask, Message& result) {
  FieldMaskUtil::MergeOptions replace;
  replace.set_replace_message_fields(true);
  replace.set_replace_repeated_fields(true);
  FieldMaskUtil::MergeMessageTo(patch, mask, replace, &result);
}

}  // namespace escapement::master
