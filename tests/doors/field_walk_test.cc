// Every field of every request of the public API: a value in it takes effect, or is refused by
// name. The descriptors name the fields, so a field that is added and ignored fails here.

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/rest/json_bytes.h"
#include "google/api/field_behavior.pb.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/doors/access_fixture.h"
#include "tests/doors/access_requests.h"

namespace escapement::doors {
namespace field_walk_test {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MethodDescriptor;
using google::protobuf::Reflection;
using nlohmann::json;

// The tenant of the walk, with the things of AccessTest.
constexpr char kTenant[] = "w";

const std::vector<std::string>& Targets() {
  static const auto* const targets = new std::vector<std::string>{
      R"(http { uri: "http://127.0.0.1:9/" tls { } })",
      R"(grpc { uri: "127.0.0.1:9" tls { } })",
      R"(sqs { queue_url: "https://sqs.eu-west-1.amazonaws.com/1/q" })",
      R"(kafka { brokers: "127.0.0.1:9" topic: "t" tls { }
         sasl { mechanism: "PLAIN" username: "u" password: "p" } })",
      R"(slack { webhook_url: "https://hooks.slack.com/services/T/B/x" })",
      R"(email { smtp_uri: "smtp://127.0.0.1:9" from: "a@example.com"
         to: "b@example.com" tls { } })",
      R"(ping { uri: "http://127.0.0.1:9/" })"};
  return *targets;
}

// The probe of one of the two delays, 42 s, contradicts the other one.
const std::vector<std::string>& Debounces() {
  static const auto* const debounces =
      new std::vector<std::string>{"debounce { delay { seconds: 5 } max_delay { seconds: 9 } }",
                                   "debounce { delay { seconds: 50 } max_delay { seconds: 60 } }"};
  return *debounces;
}

// Requests of the method in whose place fields are set. Between them they have a member of each
// oneof, and each message that has required fields. UNIQUE differs in each call.
std::vector<std::string> BasesOf(const std::string& method) {
  static const auto* const own = new std::map<std::string, std::string>{
      {"PreviewSchedule", R"(cron: "30 2 * * *" time_zone: "Europe/Berlin" count: 366 dst_policy { }
          from_time { seconds: 1767225600 } parent: "tenants/w" calendar: "k")"},
      {"PauseSchedule", R"(name: "tenants/w/schedules/s2" validate_only: true)"},
      {"ResumeSchedule", R"(name: "tenants/w/schedules/s2" validate_only: true)"},
      {"TriggerSchedule", R"(name: "tenants/w/schedules/s2" validate_only: true)"},
      {"BackfillSchedule", R"(name: "tenants/w/schedules/s2" validate_only: true
          start_time { seconds: 1577836800 } end_time { seconds: 1704067200 })"},
      {"DeleteSchedule", R"(name: "tenants/w/schedules/s2" validate_only: true)"},
      {"BatchDeleteSchedules", R"(parent: "tenants/w" validate_only: true
          requests { name: "tenants/w/schedules/s2" })"},
      {"PausePolicy", R"(name: "tenants/w/policies/p" validate_only: true)"},
      {"ResumePolicy", R"(name: "tenants/w/policies/p" validate_only: true)"},
      {"OverridePolicy", absl::StrCat(R"(name: "tenants/w/policies/p" validate_only: true override {
          max_concurrent: 1 max_per_second: 1 burst: 1 reason: "R" expire_time { seconds: )",
                                      SoonSeconds(), "} }")},
      {"ClearOverride", R"(name: "tenants/w/policies/p" validate_only: true)"},
      {"ListPolicyKeys", R"(name: "tenants/w/policies/p")"},
      {"DeletePolicy", R"(name: "tenants/w/policies/p" validate_only: true)"},
      {"CreatePolicy", R"(parent: "tenants/w" policy_id: "v" validate_only: true
          policy { max_concurrent: 1 per_key { max_concurrent: 1 } })"},
      {"UpdatePolicy", R"(policy { name: "tenants/w/policies/p" max_concurrent: 2
          per_key { max_concurrent: 1 } } validate_only: true)"},
      {"UpsertEvent", R"(event { name: "tenants/w/events/e" payload: "p"
          due_time { seconds: 4000000000 } target { http { uri: "http://127.0.0.1:9/" } } }
          validate_only: true)"},
      {"UpdateEvent", R"(event { name: "tenants/w/events/e" priority: 2 } validate_only: true)"},
      {"CancelEvent", R"(name: "tenants/w/events/e" validate_only: true)"},
      {"CancelRun", R"(name: "tenants/w/schedules/s/runs/RUN" validate_only: true)"},
      {"RedriveDeadLetter", R"(name: "LETTER" validate_only: true)"},
      {"RedriveRun", R"(name: "tenants/w/schedules/once/runs/RUN" validate_only: true)"},
      {"CancelOperation", R"(name: "OPERATION" validate_only: true)"},
      {"CreateTenant", R"(tenant_id: "v" validate_only: true tenant { quotas { }
          defaults { retry_policy { } limits { policy: "p" } } })"},
      {"UpdateTenant", R"(tenant { name: "tenants/w" quotas { }
          defaults { retry_policy { } limits { policy: "p" } } } validate_only: true)"},
      {"DeleteTenant", R"(name: "tenants/w-gone" validate_only: true)"},
      {"GetSchedule", R"(name: "tenants/w/schedules/s2")"},
      {"GetPolicy", R"(name: "tenants/w/policies/p")"},
      {"GetPolicyUsage", R"(name: "tenants/w/policies/p")"},
      {"GetCalendar", R"(name: "tenants/w/calendars/k")"},
      {"CreateCalendar", R"(parent: "tenants/w" calendar_id: "v" validate_only: true
          calendar { dates: "2027-01-01" })"},
      {"UpdateCalendar", R"(calendar { name: "tenants/w/calendars/k" display_name: "D" }
          validate_only: true)"},
      {"DeleteCalendar", R"(name: "tenants/w/calendars/k" validate_only: true)"},
      {"GetSubscription", R"(name: "tenants/w/subscriptions/k")"},
      {"DeleteSubscription", R"(name: "tenants/w/subscriptions/k" validate_only: true)"},
      {"TestSubscription", R"(name: "tenants/w/subscriptions/k" validate_only: true)"},
      {"ListRuns", R"(parent: "tenants/w/schedules/s")"},
      {"ListOccurrences", R"(parent: "tenants/w/schedules/-"
          start_time { seconds: 4102444800 } end_time { seconds: 4102531200 })"},
      {"ListRunEvents", R"(parent: "tenants/w/schedules/once/runs/RUN")"},
      {"ListScheduleVersions", R"(parent: "tenants/w/schedules/s2")"},
      {"ListDeadLetterGroups", R"(parent: "tenants/w"
          start_time { seconds: 1790000000 } end_time { seconds: 4102444800 })"},
      {"GetEvent", R"(name: "tenants/w/events/e")"},
      {"ExplainEvent", R"(name: "tenants/w/events/e")"},
      {"ExplainSchedule", R"(name: "tenants/w/schedules/s2")"},
      {"CompleteTokens", R"(completions { token: "forged" outcome: SUCCEEDED })"}};
  std::vector<std::string> bases;
  const auto each_target = [&bases](const std::string& head, const std::string& tail) {
    for (const std::string& target : Targets())
      bases.push_back(absl::StrCat(head, absl::StrReplaceAll(tail, {{"TARGET", target}})));
  };
  const std::string schedule = R"( cron: "0 3 1 1 *" event_count: 2 target { TARGET }
      on_complete { TARGET } retry_policy { } dst_policy { } misfire_policy { }
      window { duration { seconds: 60 } })";
  const std::string event =
      R"( target { TARGET } due_time { seconds: 4000000000 } retry_policy { })";
  // The requests that have a schedule: what comes before its fields, and after them.
  static const auto* const around_schedules =
      new std::map<std::string, std::pair<std::string, std::string>>{
          {"CreateSchedule",
           {R"(parent: "tenants/w" schedule_id: "v" validate_only: true schedule { )", "}"}},
          {"UpdateSchedule",
           {R"(validate_only: true schedule { name: "tenants/w/schedules/s2" )", "}"}},
          {"BatchCreateSchedules",
           {R"(parent: "tenants/w" validate_only: true
               requests { schedule_id: "v" schedule { )",
            "} }"}},
          {"BatchUpdateSchedules",
           {R"(parent: "tenants/w" validate_only: true
               requests { schedule { name: "tenants/w/schedules/s2" )",
            "} }"}}};
  if (const auto around = around_schedules->find(method); around != around_schedules->end()) {
    const auto& [head, tail] = around->second;
    each_target(head, schedule + tail);
    for (const char* when :
         {R"(cron_fields { hour: "3" minute: "0" })",
          R"(interval { every { seconds: 3600 } anchor_time { seconds: 1767225601 } })",
          R"(cron: "0 3 1 1 *" limits { policy: "p" })"}) {
      bases.push_back(absl::StrCat(
          head,
          absl::StrReplaceAll(schedule, {{"TARGET", Targets()[0]}, {R"(cron: "0 3 1 1 *")", when}}),
          tail));
    }
  } else if (method == "CreateSubscription") {
    each_target(R"(parent: "tenants/w" subscription_id: "v" validate_only: true subscription { )",
                "target { TARGET } }");
  } else if (method == "UpdateSubscription") {
    each_target(R"(validate_only: true subscription { name: "tenants/w/subscriptions/k" )",
                "target { TARGET } }");
  } else if (method == "CreateEvent") {
    each_target(R"(parent: "tenants/w" event_id: "UNIQUE" validate_only: true event { )",
                event + "}");
    bases.push_back(R"(parent: "tenants/w" event_id: "UNIQUE" validate_only: true event {
        target { ping { uri: "http://127.0.0.1:9/" } } limits { policy: "p" } })");
  } else if (method == "UpsertEvent" || method == "UpdateEvent") {
    const std::string head = R"(validate_only: true event { name: "tenants/w/events/e" )";
    each_target(head, event + "}");
    bases.push_back(absl::StrCat(
        head, R"(target { ping { uri: "http://127.0.0.1:9/" } } limits { policy: "p" } })"));
    for (const std::string& debounce : Debounces()) {
      if (method == "UpdateEvent") break;
      bases.push_back(
          absl::StrCat(head, R"(target { ping { uri: "http://127.0.0.1:9/" } } )", debounce, " }"));
    }
  } else if (method == "BatchCreateEvents") {
    each_target(R"(parent: "tenants/w" requests { event_id: "UNIQUE" event { )", event + "} }");
    bases.push_back(R"(parent: "tenants/w" requests { event_id: "UNIQUE" event {
        due_time { seconds: 4000000000 } target { ping { uri: "http://127.0.0.1:9/" } }
        limits { policy: "p" } } })");
  } else if (method == "Ingest") {
    each_target(R"(parent: "tenants/w" )",
                R"(defaults { target { TARGET } retry_policy { } } events { event_id: "UNIQUE"
                   due_time_micros: 4000000000000000
                   overrides { target { TARGET } retry_policy { } } })");
    each_target(R"(parent: "tenants/w" )",
                R"(defaults { target { TARGET } retry_policy { } } events { event_id: "UNIQUE"
                   due_time_micros: 4000000000000000 })");
    for (const char* base : {R"(defaults { target { ping { uri: "http://127.0.0.1:9/" } }
                                limits { policy: "p" } } events { event_id: "UNIQUE"
                                due_time_micros: 4000000000000000 })",
                             R"(events { event_id: "UNIQUE" due_time_micros: 4000000000000000
                                overrides { target { ping { uri: "http://127.0.0.1:9/" } }
                                limits { policy: "p" } } })"})
      bases.push_back(absl::StrCat(R"(parent: "tenants/w" )", base));
    for (const std::string& debounce : Debounces()) {
      bases.push_back(absl::StrCat(
          R"(parent: "tenants/w" defaults { target { ping { uri: "http://127.0.0.1:9/" } } )",
          debounce, R"( } events { event_id: "UNIQUE" mode: UPSERT overrides { )", debounce,
          " } }"));
      bases.push_back(absl::StrCat(
          R"(parent: "tenants/w" defaults { target { ping { uri: "http://127.0.0.1:9/" } } )",
          debounce, R"( } events { event_id: "UNIQUE" mode: UPSERT })"));
    }
  } else if (method == "PreviewSchedule") {
    bases.push_back(own->at(method));
    for (const char* when :
         {R"(cron_fields { hour: "3" minute: "0" })",
          R"(interval { every { seconds: 3600 } anchor_time { seconds: 1767225601 } })"})
      bases.push_back(absl::StrCat(when, " from_time { seconds: 1767225600 } count: 366"));
  } else if (method == "StreamTokens") {
    for (const char* kind :
         {R"(complete { completions { token: "forged" outcome: SUCCEEDED } })",
          R"(release { tokens: "forged" })", R"(extend { tokens: "forged" hold { seconds: 5 } })"})
      bases.push_back(kind);
    bases.push_back(absl::StrCat("override { ", own->at("OverridePolicy"), "}"));
  } else {
    bases.push_back(own->contains(method) ? own->at(method) : Probes().at(method).request);
  }
  return bases;
}

// Why a field may be without effect here. The key ends the field's path; "Method:" may go before.
const std::map<std::string, std::string>& Exceptions() {
  static const auto* const exceptions = new std::map<std::string, std::string>{
      {"validate_only", "the walk's own requests would not change anything without it"},
      {"CreateSchedule:schedule.name", "documented as ignored: it is made of parent and id"},
      {"BatchCreateSchedules:requests.schedule.name", "as CreateSchedule"},
      {"CreatePolicy:policy.name", "as CreateSchedule"},
      {"CreateEvent:event.name", "as CreateSchedule"},
      {"BatchCreateEvents:requests.event.name", "as CreateSchedule"},
      {"CreateCalendar:calendar.name", "as CreateSchedule"},
      {"CreateSubscription:subscription.name", "as CreateSchedule"},
      {"CreateTenant:tenant.name", "as CreateSchedule"},
      {"CreateCell:cell", "it needs a store; services/master/service tests it"},
      {"CreateKey:key.name", "as CreateSchedule"},
      {"CreateSchedule:schedule.etag", "it guards updates; a new resource has none to compare"},
      {"BatchCreateSchedules:requests.schedule.etag", "as CreateSchedule"},
      {"CreatePolicy:policy.etag", "as CreateSchedule"},
      {"CreateCalendar:calendar.etag", "as CreateSchedule"},
      {"CreateSubscription:subscription.etag", "as CreateSchedule"},
      {"CreateTenant:tenant.etag", "as CreateSchedule"},
      {"CreateEvent:event.etag", "as CreateSchedule"},
      {"BatchCreateEvents:requests.event.etag", "as CreateSchedule"},
      {"BatchCreateSchedules:requests.schedule.payload", "the answer leaves payloads out"},
      {"BatchUpdateSchedules:requests.schedule.payload", "the answer leaves payloads out"},
      {"UpsertEvent:replace_ended", "the event has not ended; services/master/testing tests it"},
      {"CreateEvent:event.debounce", "refused; services/master/testing tests it"},
      {"BatchCreateEvents:requests.event.debounce", "as CreateEvent"},
      {"UpdateEvent:event.debounce", "as CreateEvent"},
      {"BatchCreateEvents:requests.request_id", "documented as ignored: the batch has one"},
      // A token that counts needs a delivery under way; common/tokens tests it.
      {"CompleteTokens:completions", "a forged token is answered the same whatever is said of it"},
      {"StreamTokens:complete", "as CompleteTokens"},
      {"StreamTokens:override", "as OverridePolicy, whose answer shows what it has done"},
      {"ListPolicyKeys:prefix", "no event waits under a key; services/master/policies tests it"},
  };
  return *exceptions;
}

bool IsExcepted(const std::string& method, const std::string& path) {
  for (const auto& [key, reason] : Exceptions()) {
    const size_t colon = key.find(':');
    if (colon != key.npos && key.substr(0, colon) != method) continue;
    if (absl::EndsWith("." + path, "." + key.substr(colon == key.npos ? 0 : colon + 1)))
      return true;
  }
  return false;
}

bool IsOutput(const FieldDescriptor& field) {
  for (int i = 0; i < field.options().ExtensionSize(google::api::field_behavior); ++i) {
    if (field.options().GetExtension(google::api::field_behavior, i) == google::api::OUTPUT_ONLY)
      return true;
  }
  return false;
}

// Sets another value than the one that is there.
void SetProbe(Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  static const auto* const texts = new std::map<std::string, std::string>{
      {"request_id", std::string(65, 'r')},
      {"payload", "another"},
  };
  const auto text = texts->find(field.name());
  const std::string word = text == texts->end() ? "probe" : text->second;
  if (field.is_map()) {
    Message* entry = reflection.AddMessage(&message, &field);
    for (const char* part : {"key", "value"}) {
      entry->GetReflection()->SetString(entry, entry->GetDescriptor()->FindFieldByName(part), word);
    }
    return;
  }
  if (field.is_repeated() && field.cpp_type() == FieldDescriptor::CPPTYPE_STRING)
    return reflection.AddString(&message, &field, word);
  // No event holds a token here or waits for one, so these have no page that could be smaller.
  static const auto* const no_pages =
      new std::set<std::string>{"escapement.v1.GetPolicyUsageRequest.page_size",
                                "escapement.v1.ListPolicyKeysRequest.page_size"};
  const int pages = no_pages->contains(field.full_name()) ? -1
                    : field.name() == "page_size"         ? 1
                                                          : 3;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.SetString(&message, &field, word);
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection.SetInt32(&message, &field, pages);
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection.SetInt64(&message, &field, 3);
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection.SetUInt32(&message, &field, 3);
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection.SetUInt64(&message, &field, 3);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.SetDouble(&message, &field, 2.5);
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.SetBool(&message, &field, !reflection.GetBool(message, &field));
    case FieldDescriptor::CPPTYPE_ENUM: {
      const auto* type = field.enum_type();
      const int last = type->value_count() - 1;
      if (field.is_repeated()) return reflection.AddEnum(&message, &field, type->value(last));
      const bool same = reflection.GetEnumValue(message, &field) == type->value(last)->number();
      return reflection.SetEnum(&message, &field, type->value(same ? last - 1 : last));
    }
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      Message* inner = field.is_repeated() ? reflection.AddMessage(&message, &field)
                                           : reflection.MutableMessage(&message, &field);
      const std::string& type = field.message_type()->full_name();
      if (type == "google.protobuf.FieldMask") {
        return inner->GetReflection()->AddString(
            inner, inner->GetDescriptor()->FindFieldByName("paths"), "probe");
      }
      const bool time = type == "google.protobuf.Timestamp";
      ASSERT_TRUE(time || type == "google.protobuf.Duration") << field.full_name();
      return inner->GetReflection()->SetInt64(inner,
                                              inner->GetDescriptor()->FindFieldByName("seconds"),
                                              time                     ? 1793836807
                                              : field.name() == "hold" ? -5
                                                                       : 42);
    }
    default:
      FAIL() << "no probe for " << field.full_name();
  }
}

bool IsLeaf(const FieldDescriptor& field) {
  return field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field.is_map() ||
         absl::StartsWith(field.message_type()->full_name(), "google.protobuf.");
}

class FieldWalk : public AccessTest {
 protected:
  static void SetUpTestSuite() {
    standalone_ = new SecuredStandalone("fields");
    const absl::Status status = standalone_->Start();
    ASSERT_TRUE(status.ok()) << status;
    MakeTenant(kTenant);
    MakeThings(kTenant);
    // For ClearOverride.
    Do<v1::ThrottlePolicy>("OverridePolicy", kTenant,
                           absl::StrCat(R"(name: "tenants/TENANT/policies/p" override {
                               max_concurrent: 2 reason: "R" expire_time { seconds: )",
                                        SoonSeconds(), "} }"));
    for (int i = 0; i < 2; ++i) standalone_->NewKey("tenants/w", v1::Access::VIEWER);
    MakeTenant("w-gone");
    Do<v1::Tenant>("UpdateTenant", "w-gone",
                   R"(tenant { name: "tenants/TENANT" state: SUSPENDED })");
  }

  // The result of a call: its error, or the answer and the events that it has made, field by field.
  using Outcome = std::map<std::string, std::string>;

  static Outcome OutcomeOf(const MethodDescriptor& method, const Message& request) {
    const std::string unique = absl::StrCat("unique-", ++calls_);
    const auto sent = SecuredStandalone::NewMessage(method.input_type());
    sent->CopyFrom(request);
    ReplaceUnique(*sent, unique);
    const fixtures::RawAnswer answer =
        standalone_->Grpc(GrpcPath(method), {sent->SerializeAsString()}, standalone_->admin());
    if (!answer.status.ok())
      return {{"error", absl::StrCat(answer.status.error_code(), answer.status.error_message())}};
    json all = json::array();
    for (const std::string& message : answer.messages)
      all.push_back(json::parse(*rest::BytesToJson(*method.output_type(), message)));
    if (method.name() == "Ingest" || method.name() == "BatchCreateEvents") {
      v1::GetEventRequest get;
      get.set_name(absl::StrCat("tenants/w/events/", unique));
      auto event = standalone_->Call<v1::Event>("GetEvent", get);
      if (event.ok()) event->clear_etag();  // it follows from the id
      all.push_back(event.ok() ? event->DebugString() : event.status().ToString());
    }
    Outcome outcome;
    const json flat = all.flatten();
    for (const auto& [place, value] : flat.items())
      outcome[place] = absl::StrReplaceAll(value.dump(), {{unique, "UNIQUE"}});
    return outcome;
  }

  static void ReplaceUnique(Message& message, const std::string& unique) {
    std::vector<const FieldDescriptor*> fields;
    const Reflection& reflection = *message.GetReflection();
    reflection.ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        const int size = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
        for (int i = 0; i < size; ++i) {
          ReplaceUnique(
              *(field->is_repeated() ? reflection.MutableRepeatedMessage(&message, field, i)
                                     : reflection.MutableMessage(&message, field)),
              unique);
        }
      } else if (field->name() == "event_id" && reflection.GetString(message, field) == "UNIQUE") {
        reflection.SetString(&message, field, unique);
      }
    }
  }

  // Walks the fields of `message`, which is a part of `request`.
  void Walk(const MethodDescriptor& method, const Message& request, Message& message,
            const std::string& prefix) {
    const Descriptor& type = *message.GetDescriptor();
    const Reflection& reflection = *message.GetReflection();
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor& field = *type.field(i);
      const std::string path = prefix + field.name();
      if (IsOutput(field) || IsExcepted(method.name(), path)) continue;
      fields_.insert(path);
      const auto* choice = field.real_containing_oneof();
      if (IsLeaf(field)) {
        if (choice != nullptr && !reflection.HasField(message, &field)) continue;
        const std::unique_ptr<Message> before(message.New());
        before->CopyFrom(message);
        SetProbe(message, field);
        Outcome outcome = OutcomeOf(method, request);
        for (const std::string& place : volatile_) outcome.erase(place);
        if (outcome != base_) reached_.insert(path);
        message.CopyFrom(*before);
      } else if (field.is_repeated()) {
        for (int k = 0; k < reflection.FieldSize(message, &field); ++k)
          Walk(method, request, *reflection.MutableRepeatedMessage(&message, &field, k),
               path + ".");
      } else if (reflection.HasField(message, &field)) {
        Walk(method, request, *reflection.MutableMessage(&message, &field), path + ".");
      }
    }
  }

  // The paths of fields that no request of the walk has had an effect with.
  std::vector<std::string> IgnoredFields(const MethodDescriptor& method) {
    fields_.clear();
    reached_.clear();
    for (const std::string& text : BasesOf(method.name())) {
      const auto request = ReadRequestText(
          method, kTenant,
          absl::StrReplaceAll(text, {{"schedules/once/runs/RUN", (*ended_runs_)[kTenant]},
                                     {"RUN", (*runs_)[kTenant]},
                                     {"LETTER", (*letters_)[kTenant]},
                                     {"OPERATION", (*operations_)[kTenant]}}));
      base_ = OutcomeOf(method, *request);
      const Outcome again = OutcomeOf(method, *request);
      volatile_.clear();
      for (const Outcome* one : {&std::as_const(base_), &again}) {
        for (const auto& [place, value] : *one) {
          const auto a = base_.find(place);
          const auto b = again.find(place);
          if (a == base_.end() || b == again.end() || a->second != b->second)
            volatile_.insert(place);
        }
      }
      for (const std::string& place : volatile_) base_.erase(place);
      if (base_.contains("error") && Probes().at(method.name()).code == absl::StatusCode::kOk)
        ADD_FAILURE() << method.name() << " " << text << ": " << base_["error"];
      Walk(method, *request, *request, "");
    }
    std::vector<std::string> ignored;
    for (const std::string& path : fields_) {
      bool effect = reached_.contains(path);
      for (const std::string& other : reached_) effect |= absl::StartsWith(other, path + ".");
      if (!effect) ignored.push_back(path);
    }
    return ignored;
  }

  static inline int calls_ = 0;
  Outcome base_;
  std::set<std::string> volatile_;  // places that differ from call to call
  std::set<std::string> fields_;    // all of the method
  std::set<std::string> reached_;   // those of them that have had an effect
};

TEST_F(FieldWalk, EachFieldOfEachRequestHasAnEffectOrIsRefused) {
  for (const MethodDescriptor* method : PublicMethods()) {
    const std::vector<std::string> ignored = IgnoredFields(*method);
    EXPECT_TRUE(ignored.empty()) << method->name() << " ignores " << absl::StrJoin(ignored, ", ");
  }
}

}  // namespace field_walk_test
}  // namespace escapement::doors
