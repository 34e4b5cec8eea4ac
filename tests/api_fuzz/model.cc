#include "tests/api_fuzz/model.h"

#include <google/protobuf/util/message_differencer.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/api_fuzz/wire_api.h"

namespace escapement::api_fuzz {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::util::MessageDifferencer;

constexpr size_t kHandlesMax = 50;

std::string StateOf(const Message& message) {
  const auto* field = message.GetDescriptor()->FindFieldByName("state");
  if (field == nullptr || field->cpp_type() != FieldDescriptor::CPPTYPE_ENUM) return "";
  return message.GetReflection()->GetEnum(message, field)->name();
}

bool Attempted(const Message& event) {
  const auto* field = event.GetDescriptor()->FindFieldByName("attempts");
  return field != nullptr && event.GetReflection()->GetInt32(event, field) > 0;
}

// True if the platform does not change this field of `type` by itself.
bool Stays(const std::string& type, const std::string& field, bool ended) {
  static const auto* const moving =
      new std::set<std::string>{"state",           "version",         "etag",
                                "update_time",     "next_time",       "warnings",
                                "outcome",         "reason",          "attempts",
                                "dispatch_time",   "complete_time",   "output",
                                "status",          "recent_attempts", "redrive_count",
                                "succeeded_count", "failed_count",    "last_time",
                                "last_outcome",    "pause_reason",    "next_attempt_time",
                                "check_time",      "problem_count",   "problems",
                                "last_event",      "last_event_time"};
  if (type == "ThrottlePolicy") return field != "overrides";  // they end by themselves
  if (type == "Schedule" || type == "Subscription") return !moving->contains(field);
  if (type == "Event" && !ended) return !moving->contains(field);
  if (type == "Event") return field == "name" || field == "due_time" || field == "event_id";
  if (type == "Run") return field == "name" || field == "nominal_time" || field == "event_count";
  return field == "name";
}

void Keep(const std::string& handle, std::vector<std::string>* handles) {
  if (handle.empty()) return;
  if (handles->size() >= kHandlesMax) handles->erase(handles->begin());
  handles->push_back(handle);
}

}  // namespace

std::string StringOf(const Message& message, const std::string& name) {
  const auto* field = message.GetDescriptor()->FindFieldByName(name);
  if (field == nullptr || field->is_repeated() ||
      field->cpp_type() != FieldDescriptor::CPPTYPE_STRING)
    return "";
  return message.GetReflection()->GetString(message, field);
}

std::string Difference(const Message& acknowledged, const Message& read) {
  const auto* type = acknowledged.GetDescriptor();
  if (type != read.GetDescriptor()) return "another type";
  const bool ended = StateOf(read) == "ENDED";
  std::string words;
  MessageDifferencer differencer;
  differencer.ReportDifferencesToString(&words);
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    // Lists and batches leave payloads out.
    const bool left_out =
        field->name() == "payload" &&
        (StringOf(acknowledged, "payload").empty() || StringOf(read, "payload").empty());
    // The row of an event that waits for another attempt has no priority.
    const bool again = type->name() == "Event" && field->name() == "priority" &&
                       !read.GetReflection()->HasField(read, field) && Attempted(read);
    if (left_out || again || !Stays(type->name(), field->name(), ended))
      differencer.IgnoreField(field);
  }
  return differencer.Compare(acknowledged, read) ? "" : words;
}

void Model::Exists(std::unique_ptr<Message> resource) {
  const std::string name = StringOf(*resource, "name");
  gone_.erase(name);
  known_[name] = std::move(resource);
}

void Model::ExistsByName(const std::string& name) {
  gone_.erase(name);
  known_.try_emplace(name);
}

void Model::Deleted(const std::string& name) {
  Forget(name);
  gone_.insert(name);
}

void Model::Forget(const std::string& name) {
  gone_.erase(name);
  known_.erase(name);
  const std::string below = absl::StrCat(name, "/");
  std::erase_if(known_, [&](const auto& entry) { return absl::StartsWith(entry.first, below); });
}

const Message* Model::Find(const std::string& name) const {
  const auto found = known_.find(name);
  return found == known_.end() ? nullptr : found->second.get();
}

std::vector<std::string> Model::Names(absl::string_view pattern) const {
  std::vector<std::string> names;
  for (const auto& [name, resource] : known_) {
    if (pattern.empty() || Matches(name, pattern)) names.push_back(name);
  }
  return names;
}

void Model::KeepHandles(const Message& answer) {
  Keep(StringOf(answer, "token"), &tokens_);
  Keep(StringOf(answer, "next_page_token"), &page_tokens_);
  std::vector<const FieldDescriptor*> set;
  answer.GetReflection()->ListFields(answer, &set);
  for (const FieldDescriptor* field : set) {
    if (!field->is_repeated() || field->is_map() || field->message_type() == nullptr) continue;
    for (int i = 0; i < answer.GetReflection()->FieldSize(answer, field); ++i)
      KeepHandles(answer.GetReflection()->GetRepeatedMessage(answer, field, i));
  }
}

}  // namespace escapement::api_fuzz
