#include "tools/escctl/apply/manifest.h"

#include <google/protobuf/util/json_util.h>

#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/printable_text.h"
#include "tools/escctl/apply/message_reader.h"
#include "tools/escctl/base/output.h"

namespace escapement::escctl {
namespace {

constexpr char kKinds[] = "must be Schedule, ThrottlePolicy, Calendar or Subscription";
constexpr char kPayloadText[] = "payloadText";
constexpr char kPayloadJson[] = "payloadJson";

// Takes a key out of the object. Returns null without it.
ValueTree Take(ValueTree& values, const std::string& key) {
  const auto found = values.find(key);
  if (found == values.end()) return {};
  ValueTree value = *found;
  values.erase(found);
  return value;
}

// "tenants/{tenant}", or "" if `name` is not a full name of the collection.
std::string ParentOf(const std::string& name, absl::string_view collection) {
  const std::vector<std::string> parts = absl::StrSplit(name, '/');
  const bool full = parts.size() == 4 && parts[0] == "tenants" && parts[2] == collection &&
                    !parts[1].empty() && !parts[3].empty();
  return full ? absl::StrCat("tenants/", parts[1]) : "";
}

// The full name, or "" with an error.
std::string FullName(const std::string& name, const std::string& parent,
                     absl::string_view collection, const std::string& field,
                     std::vector<FieldError>& errors) {
  if (!absl::StrContains(name, '/')) return absl::StrCat(parent, "/", collection, "/", name);
  if (!ParentOf(name, collection).empty()) return name;
  errors.push_back({field, absl::StrCat("'", name, "' must be a short name or tenants/{tenant}/",
                                        collection, "/{name}")});
  return "";
}

// The payload as text or as JSON.
void ReadPayloadForms(ValueTree& values, std::vector<FieldError>& errors) {
  for (const char* form : {kPayloadText, kPayloadJson}) {
    const ValueTree given = Take(values, form);
    if (given.is_null()) continue;
    if (form == kPayloadText && !given.is_string()) {
      errors.push_back({form, "must be text"});
    } else if (values.contains("payload")) {
      errors.push_back({form, "set only one of payload, payloadText and payloadJson"});
    } else {
      values["payload"] = absl::Base64Escape(
          form == kPayloadText ? given.get<std::string>()
                               : given.dump(-1, ' ', false, ValueTree::error_handler_t::replace));
    }
  }
}

// The kind of the resource with this full name; null for other names.
ValueTree KindOf(absl::string_view name) {
  if (!absl::StartsWith(name, "tenants/")) return nullptr;
  if (absl::StrContains(name, "/schedules/")) return "Schedule";
  if (absl::StrContains(name, "/policies/")) return "ThrottlePolicy";
  if (absl::StrContains(name, "/calendars/")) return "Calendar";
  if (absl::StrContains(name, "/subscriptions/")) return "Subscription";
  return nullptr;
}

class ManifestReader {
 public:
  explicit ManifestReader(const std::string& parent) : parent_(parent) {}

  Manifest Read(absl::string_view text) {
    for (const DocumentText& document : SplitDocuments(text)) {
      const std::string place =
          absl::StrCat("document ", document.number, " (line ", document.line, ")");
      absl::StatusOr<ValueTree> tree = ParseDocument(document);
      if (!tree.ok()) {
        Resource& broken = manifest_.resources.emplace_back();
        broken.place = place;
        broken.errors.push_back({"", std::string(tree.status().message())});
        continue;
      }
      if (!tree->is_array()) {
        Add(place, *std::move(tree));
        continue;
      }
      int item = 0;
      for (ValueTree& value : *tree)
        Add(absl::StrCat("document ", document.number, ", item ", ++item), std::move(value));
    }
    return std::move(manifest_);
  }

 private:
  void Add(const std::string& place, ValueTree values) {
    Resource resource;
    resource.place = place;
    if (!values.is_object()) {
      resource.errors.push_back({"", "must hold fields, as in \"kind: Schedule\""});
    } else {
      ReadResource(std::move(values), resource);
    }
    manifest_.resources.push_back(std::move(resource));
  }

  void ReadResource(ValueTree values, Resource& resource) {
    ValueTree kind = Take(values, "kind");
    const ValueTree name = Take(values, "name");
    // The output of `get` has no kind, but the full name tells it.
    if (kind.is_null() && name.is_string()) kind = KindOf(name.get<std::string>());
    if (kind == "Schedule") {
      v1::Schedule& schedule = resource.message.emplace<v1::Schedule>();
      ReadName(name, "schedules", "schedule", resource, schedule);
      ReadPayloadForms(values, resource.errors);
      ReadMessage(values, schedule, resource.errors);
      if (schedule.state() == v1::Schedule::PAUSED)
        resource.warnings.push_back(
            {"state", "is ignored here; to pause it: escctl schedule pause"});
      const std::string parent = ParentOf(schedule.name(), "schedules");
      const auto full_name = [&](const std::string& given, absl::string_view collection,
                                 const std::string& field) {
        return given.empty() ? given
                             : FullName(given, parent.empty() ? parent_ : parent, collection, field,
                                        resource.errors);
      };
      const auto policy_name = [&](const std::string& policy, const std::string& field) {
        return full_name(policy, "policies", field);
      };
      schedule.set_calendar(full_name(schedule.calendar(), "calendars", "calendar"));
      schedule.set_policy(policy_name(schedule.policy(), "policy"));
      for (int i = 0; i < schedule.limits_size(); ++i) {
        v1::Limit& limit = *schedule.mutable_limits(i);
        limit.set_policy(policy_name(limit.policy(), absl::StrCat("limits[", i, "].policy")));
      }
      ClearServerFields(schedule);
    } else if (kind == "ThrottlePolicy") {
      v1::ThrottlePolicy& policy = resource.message.emplace<v1::ThrottlePolicy>();
      ReadName(name, "policies", "policy", resource, policy);
      ReadMessage(values, policy, resource.errors);
      if (policy.state() == v1::ThrottlePolicy::PAUSED)
        resource.warnings.push_back({"state", "is ignored here; to pause it: escctl policy pause"});
      if (policy.overrides_size() > 0) {
        resource.warnings.push_back(
            {"overrides", "are ignored here; to make one: escctl policy override"});
      }
      ClearServerFields(policy);
    } else if (kind == "Calendar") {
      v1::Calendar& calendar = resource.message.emplace<v1::Calendar>();
      ReadName(name, "calendars", "calendar", resource, calendar);
      ReadMessage(values, calendar, resource.errors);
      ClearServerFields(calendar);
    } else if (kind == "Subscription") {
      v1::Subscription& subscription = resource.message.emplace<v1::Subscription>();
      ReadName(name, "subscriptions", "subscription", resource, subscription);
      ReadMessage(values, subscription, resource.errors);
      ClearServerFields(subscription);
    } else {
      const std::string given = kind.is_string() ? kind.get<std::string>() : "";
      resource.errors.push_back({"kind", given.empty() ? absl::StrCat("is missing; it ", kKinds)
                                                       : absl::StrCat("'", given, "' ", kKinds)});
    }
  }

  template <typename Message>
  void ReadName(const ValueTree& name, absl::string_view collection, absl::string_view word,
                Resource& resource, Message& message) {
    if (!name.is_string() || name.get<std::string>().empty()) {
      resource.errors.push_back({"name", "is missing; every resource needs its own name"});
      return;
    }
    const std::string full =
        FullName(name.get<std::string>(), parent_, collection, "name", resource.errors);
    if (full.empty()) return;
    message.set_name(full);
    resource.title = absl::StrCat(word, "/", IdOf(full));
    if (!names_.insert(full).second)
      resource.errors.push_back({"name", "stands in this file twice"});
  }

  const std::string parent_;
  std::set<std::string> names_;
  Manifest manifest_;
};

template <typename Message>
std::string Yaml(absl::string_view kind, const Message& message) {
  std::string text;
  if (!google::protobuf::util::MessageToJsonString(message, &text).ok()) return "";
  ValueTree shown = {{"kind", kind}};
  shown.update(ValueTree::parse(text, nullptr, /*allow_exceptions=*/false));
  if constexpr (std::is_same_v<Message, v1::Schedule>) {
    // Text is easier to compare than base64.
    if (!message.payload().empty() && !HasControlCharacters(message.payload())) {
      shown.erase("payload");
      shown[kPayloadText] = message.payload();
    }
  }
  return FormatJsonText(shown.dump(-1, ' ', false, ValueTree::error_handler_t::replace),
                        OutputFormat::kYaml);
}

}  // namespace

Manifest ReadManifest(absl::string_view text, const std::string& parent) {
  return ManifestReader(parent).Read(text);
}

void ClearServerFields(v1::Schedule& schedule) {
  schedule.clear_state();
  schedule.clear_uid();
  schedule.clear_version();
  schedule.clear_etag();
  schedule.clear_create_time();
  schedule.clear_update_time();
  schedule.clear_next_time();
  schedule.clear_pause_reason();
  schedule.clear_warnings();
}

void ClearServerFields(v1::ThrottlePolicy& policy) {
  policy.clear_state();
  policy.clear_pause_reason();
  policy.clear_etag();
  policy.clear_version();
  policy.clear_create_time();
  policy.clear_update_time();
  policy.clear_overrides();
}

void ClearServerFields(v1::Calendar& calendar) {
  calendar.clear_version();
  calendar.clear_etag();
  calendar.clear_create_time();
  calendar.clear_update_time();
  calendar.clear_schedule_count();
  calendar.clear_outdated_schedule_count();
  calendar.clear_next_days();
}

void ClearServerFields(v1::Subscription& subscription) {
  subscription.clear_etag();
  subscription.clear_version();
  subscription.clear_create_time();
  subscription.clear_update_time();
  subscription.clear_check_time();
  subscription.clear_problem_count();
  subscription.clear_problems();
  subscription.clear_last_event();
  subscription.clear_last_event_time();
}

std::string ManifestYaml(const v1::Schedule& schedule) { return Yaml("Schedule", schedule); }

std::string ManifestYaml(const v1::ThrottlePolicy& policy) {
  return Yaml("ThrottlePolicy", policy);
}

std::string ManifestYaml(const v1::Calendar& calendar) { return Yaml("Calendar", calendar); }

std::string ManifestYaml(const v1::Subscription& subscription) {
  return Yaml("Subscription", subscription);
}

std::string IdOf(absl::string_view full_name) {
  return std::string(full_name.substr(full_name.rfind('/') + 1));
}

}  // namespace escapement::escctl
