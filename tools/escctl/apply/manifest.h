// The resources of a file for `escctl apply`. Pure.
//
// A resource is {kind, name, fields as in the API's JSON}. kind is Schedule, ThrottlePolicy,
// Calendar or Subscription; a full name (tenants/…) tells it, too. name is short, or full. A
// schedule's policy and calendar may be short too. payloadText is the payload as text; payload is
// base64. Fields that only the server sets are ignored.

#ifndef TOOLS_ESCCTL_APPLY_MANIFEST_H_
#define TOOLS_ESCCTL_APPLY_MANIFEST_H_

#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "escapement/v1/calendar_service.pb.h"
#include "escapement/v1/notification_service.pb.h"
#include "escapement/v1/resources.pb.h"
#include "tools/escctl/apply/message_reader.h"

namespace escapement::escctl {

struct Resource {
  std::string place;  // "document 2 (line 14)", "document 1, item 3"
  // With its full name and without fields that the server sets. monostate if the kind is unknown.
  std::variant<std::monostate, v1::Schedule, v1::ThrottlePolicy, v1::Calendar, v1::Subscription>
      message;
  std::string title;  // "schedule/nightly", or "" while kind or name is unknown
  std::vector<FieldError> errors;
  std::vector<FieldError> warnings;
};

struct Manifest {
  std::vector<Resource> resources;  // in the order of the file, also those with errors
};

// Never fails: errors are with their resources. `parent` is the tenant of short names.
Manifest ReadManifest(absl::string_view text, const std::string& parent);

// Clears the fields that only the server sets.
void ClearServerFields(v1::Schedule& schedule);
void ClearServerFields(v1::ThrottlePolicy& policy);
void ClearServerFields(v1::Calendar& calendar);
void ClearServerFields(v1::Subscription& subscription);

// The resource as it may stand in a file, in YAML.
std::string ManifestYaml(const v1::Schedule& schedule);
std::string ManifestYaml(const v1::ThrottlePolicy& policy);
std::string ManifestYaml(const v1::Calendar& calendar);
std::string ManifestYaml(const v1::Subscription& subscription);

// The last part of a full name.
std::string IdOf(absl::string_view full_name);

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_APPLY_MANIFEST_H_
