#include "tools/escctl/base/flags.h"

#include <fstream>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"

namespace escapement::escctl {

namespace {

// Flags that are not named like the last part of their field.
struct FieldFlag {
  absl::string_view field;  // without the resource before it
  const char* flag;
};
constexpr FieldFlag kFieldFlags[] = {
    {"cron_fields", "--cron-field"},
    {"interval.every", "--every"},
    {"interval.anchor_time", "--anchor"},
    {"interval", "--every"},
    {"times", "--at"},
    {"dst_policy.gap", "--gap"},
    {"dst_policy.overlap", "--fold"},
    {"start_time", "--start"},
    {"end_time", "--end"},
    {"schedule_start_time", "--start"},
    {"schedule_end_time", "--end"},
    {"exclusions", "--exclude"},
    {"misfire_policy.action", "--misfire"},
    {"misfire_policy.threshold", "--misfire-threshold"},
    {"misfire_policy.max_age", "--misfire-max-age"},
    {"overlap_policy", "--overlap"},
    {"target.http.uri", "--http"},
    {"target.http.headers", "--header"},
    {"target.http.secret_headers", "--secret-header"},
    {"target.http.signing_secrets", "--signing-secret"},
    {"target.grpc.uri", "--grpc"},
    {"target.sqs.queue_url", "--sqs"},
    {"target.sqs.region", "--sqs-region"},
    {"target.sqs.credentials", "--sqs-credentials"},
    {"target.kafka", "--kafka"},
    {"target.slack.webhook_url", "--slack"},
    {"target.email.to", "--email"},
    {"target.email.smtp_uri", "--smtp"},
    {"target.ping.uri", "--ping"},
    {"target", "--target"},
    {"dates", "--date"},
    {"rules", "--rule"},
    {"filter", "--filter"},
    {"filter", "--schedule"},
    {"filter", "--label"},
    {"kinds", "--kind"},
    {"calendars", "--add"},
    {"except_dates", "--except-date"},
    {"window.duration", "--window"},
    {"on_complete.http.uri", "--on-complete-http"},
    {"on_complete.grpc.uri", "--on-complete-grpc"},
    {"on_complete_when", "--on-complete-when"},
    {"labels", "--label"},
    {"limits", "--limit"},
    {"due_time", "--due"},
    {"max_lateness", "--max-lateness"},
    {"from_time", "--from"},
    {"to_time", "--to"},
    {"page_size", "--limit"},
    {"per_key.max_concurrent", "--max-concurrent-per-key"},
    {"per_key.max_per_second", "--max-per-second-per-key"},
    {"per_key.burst", "--burst-per-key"},
    {"override.policy_key", "--key"},
    {"override.expire_time", "--for"},
    {"override.expire_time", "--until"},
    {"start_time", "--from"},
    {"duration", "--for"},
    {"near_time", "--near"},
    {"group_by", "--by"},
};

bool IsGiven(const CLI::App& command, const std::string& flag) {
  const CLI::Option* option = command.get_option_no_throw(flag);
  return option != nullptr && option->count() > 0;
}

}  // namespace

std::string FlagOfField(const CLI::App& command, absl::string_view field) {
  for (const absl::string_view resource :
       {"schedule.", "event.", "policy.", "tenant.", "key.", "calendar.", "subscription."})
    if (absl::ConsumePrefix(&field, resource)) break;
  absl::string_view path = field.substr(0, field.find('['));
  const absl::string_view element = field.substr(path.size());
  // The flag may set more than the field, and is then followed by the rest of the field's name.
  std::string rest;
  while (!path.empty()) {
    bool other_name = false;  // a flag of the command has the name of another field
    for (const FieldFlag& known : kFieldFlags) {
      if (known.field != path) continue;
      if (IsGiven(command, known.flag)) return absl::StrCat(known.flag, rest, element);
      other_name = other_name || command.get_option_no_throw(known.flag) != nullptr;
    }
    const size_t dot = path.rfind('.');
    const absl::string_view last = dot == path.npos ? path : path.substr(dot + 1);
    const std::string same_name = absl::StrCat("--", absl::StrReplaceAll(last, {{"_", "-"}}));
    if (!other_name && IsGiven(command, same_name)) return absl::StrCat(same_name, rest, element);
    rest = rest.empty() ? absl::StrCat(" ", last) : absl::StrCat(" ", last, ".", rest.substr(1));
    path = dot == path.npos ? absl::string_view() : path.substr(0, dot);
  }
  return "";
}

absl::StatusOr<google::protobuf::Duration> ParseDurationFlag(const std::string& name,
                                                             const std::string& text) {
  // As people write it: "1d", "5min", "1 h 30 min".
  std::string known = absl::StrReplaceAll(text, {{" ", ""},
                                                 {"minutes", "m"},
                                                 {"minute", "m"},
                                                 {"mins", "m"},
                                                 {"min", "m"},
                                                 {"seconds", "s"},
                                                 {"second", "s"},
                                                 {"secs", "s"},
                                                 {"sec", "s"},
                                                 {"hours", "h"},
                                                 {"hour", "h"},
                                                 {"days", "d"},
                                                 {"day", "d"}});
  absl::Duration duration;
  bool valid = true;
  if (const size_t day = known.find('d'); day != std::string::npos) {
    double days = 0;
    valid = absl::SimpleAtod(known.substr(0, day), &days) && days > 0;
    duration = days * absl::Hours(24);
    known.erase(0, day + 1);
  }
  absl::Duration rest;
  if (!known.empty() || duration == absl::ZeroDuration())
    valid = valid && absl::ParseDuration(known, &rest);
  if (!valid) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": '", text, "' is not a duration such as 90s, 1h30m or 2d"));
  }
  duration += rest;
  google::protobuf::Duration message;
  const int64_t seconds = absl::ToInt64Seconds(duration);
  message.set_seconds(seconds);
  message.set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(duration - absl::Seconds(seconds))));
  return message;
}

absl::StatusOr<std::string> TextOrFile(const std::string& text) {
  if (!absl::StartsWith(text, "@")) return text;
  std::ifstream in(text.substr(1), std::ios::binary);
  if (!in) return absl::InvalidArgumentError(absl::StrCat("cannot read ", text.substr(1)));
  return std::string(std::istreambuf_iterator<char>(in), {});
}

absl::StatusOr<std::vector<std::pair<std::string, std::string>>> ParsePairs(
    const std::string& flag, const std::vector<std::string>& pairs) {
  std::vector<std::pair<std::string, std::string>> parsed;
  for (const std::string& pair : pairs) {
    const size_t equals = pair.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat(flag, ": '", pair, "' is not name=value"));
    }
    parsed.emplace_back(pair.substr(0, equals), pair.substr(equals + 1));
  }
  return parsed;
}

namespace {

// A value, or a label's key, of a filter.
std::string InQuotes(absl::string_view text) {
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
}

}  // namespace

void ScheduleFilterFlags::Add(CLI::App& command) {
  auto* filter = command.add_option(
      "--filter", filter_,
      "which schedules, as in \"schedule list --filter\"; \"\" for all of the tenant");
  command
      .add_option(
          "--schedule", schedules_,
          "only the schedule with this id or full name, or nightly-* for all that begin so; "
          "may be repeated")
      ->allow_extra_args(false)
      ->excludes(filter);
  command
      .add_option("--label", labels_,
                  "only schedules with this label, key=value; may be repeated, then all must match")
      ->allow_extra_args(false)
      ->excludes(filter);
}

absl::StatusOr<std::optional<std::string>> ScheduleFilterFlags::Filter() const {
  if (filter_.has_value()) return filter_;
  std::vector<std::string> names;
  for (const std::string& schedule : schedules_) {
    if (schedule.empty()) return absl::InvalidArgumentError("--schedule: is empty");
    names.push_back(absl::StrCat("name = ", InQuotes(schedule)));
  }
  std::vector<std::string> conditions;
  if (!names.empty()) {
    conditions.push_back(names.size() == 1 ? names.front()
                                           : absl::StrCat("(", absl::StrJoin(names, " OR "), ")"));
  }
  ASSIGN_OR_RETURN(const auto labels, ParsePairs("--label", labels_));
  for (const auto& [key, value] : labels)
    conditions.push_back(absl::StrCat("labels.", InQuotes(key), " = ", InQuotes(value)));
  if (conditions.empty()) return std::optional<std::string>();
  return absl::StrJoin(conditions, " AND ");
}

absl::StatusOr<std::vector<v1::Limit>> PolicyFlags::ReadLimits(
    const std::function<std::string(const std::string&)>& policy_name) const {
  std::vector<v1::Limit> limits;
  if (limits_ == std::vector<std::string>{""}) return limits;
  for (const std::string& text : limits_) {
    absl::string_view rest = text;
    v1::Limit& limit = limits.emplace_back();
    // Only the last part is a weight: a key may have colons.
    int64_t weight = 0;
    const size_t colon = rest.rfind(':');
    if (colon != rest.npos && absl::SimpleAtoi(rest.substr(colon + 1), &weight)) {
      limit.set_weight(weight);
      rest = rest.substr(0, colon);
    }
    const size_t equals = rest.find('=');
    const std::string policy(rest.substr(0, equals));
    if (policy.empty() || absl::StrContains(policy, ':')) {
      return absl::InvalidArgumentError(
          absl::StrCat("--limit: '", text, "' is not POLICY[=KEY][:WEIGHT]"));
    }
    limit.set_policy(policy_name(policy));
    if (equals != rest.npos) limit.set_policy_key(std::string(rest.substr(equals + 1)));
  }
  return limits;
}

void PolicyFlags::Add(CLI::App& command) {
  auto* policy = command.add_option("--policy", policy_,
                                    "id or full name of a throttling policy; \"\" for none");
  auto* key =
      command.add_option("--policy-key", policy_key_,
                         "which key of the policy the events count under, such as a customer");
  command
      .add_option(
          "--limit", limits_,
          "POLICY[=KEY][:WEIGHT]: a policy of several that must have room for the event, and "
          "how many tokens of it the event holds; may be repeated, at most 4; \"\" for none")
      ->allow_extra_args(false)
      ->excludes(policy)
      ->excludes(key);
  command.add_option("--completion", completion_,
                     "when an event has ended: on-delivery, or on-release of its token, which the "
                     "consumer then must give back; without it the policy decides");
}

void ThrottleFlags::Add(CLI::App& command) {
  policy_.Add(command);
  command.add_option("--window", window_,
                     "time in which a run must be delivered, e.g. 1h; \"\" for none");
  command.add_option("--pacing", pacing_, "how events are spread over the window: soonest or even");
  command.add_option(
      "--on-close", on_close_,
      "rule for unsent events when the window closes: finish-late, drop or carry-over");
  auto* http = command.add_option("--on-complete-http", on_complete_http_,
                                  "report the end of each run by HTTP to this URI; \"\" for none");
  command
      .add_option("--on-complete-grpc", on_complete_grpc_,
                  "report it by gRPC to a TriggerReceiver at host:port")
      ->excludes(http);
  command.add_option("--on-complete-when", on_complete_when_,
                     "report the end of each run (always), or only if an event has failed or "
                     "expired (on-failure)");
}

absl::Status ThrottleFlags::ApplyWindow(v1::Schedule& schedule,
                                        std::vector<std::string>& fields) const {
  if (window_.has_value() && window_->empty()) {
    if (pacing_.has_value() || on_close_.has_value())
      return absl::InvalidArgumentError("--pacing and --on-close need a window");
    schedule.clear_window();
    fields.push_back("window");
    return absl::OkStatus();
  }
  if (window_.has_value()) {
    ASSIGN_OR_RETURN(auto duration, ParseDurationFlag("--window", *window_));
    *schedule.mutable_window()->mutable_duration() = duration;
    fields.push_back("window.duration");
  }
  if (pacing_.has_value()) {
    v1::Window::Pacing pacing;
    if (!v1::Window::Pacing_Parse(EnumName(*pacing_), &pacing))
      return NoSuchValue("--pacing", *pacing_, "soonest, even");
    schedule.mutable_window()->set_pacing(pacing);
    fields.push_back("window.pacing");
  }
  if (on_close_.has_value()) {
    v1::Window::OnClose on_close;
    if (!v1::Window::OnClose_Parse(EnumName(*on_close_), &on_close))
      return NoSuchValue("--on-close", *on_close_, "finish-late, drop, carry-over");
    schedule.mutable_window()->set_on_close(on_close);
    fields.push_back("window.on_close");
  }
  return absl::OkStatus();
}

absl::Status ThrottleFlags::Apply(const std::function<std::string(const std::string&)>& policy_name,
                                  v1::Schedule& schedule, std::vector<std::string>& fields) const {
  RETURN_IF_ERROR(policy_.Apply(policy_name, schedule, fields));
  RETURN_IF_ERROR(ApplyWindow(schedule, fields));
  return ApplyOnComplete(schedule, fields);
}

absl::Status ThrottleFlags::ApplyOnComplete(v1::Schedule& schedule,
                                            std::vector<std::string>& fields) const {
  if (on_complete_when_.has_value()) {
    v1::Schedule::OnCompleteWhen when;
    if (!v1::Schedule::OnCompleteWhen_Parse(EnumName(*on_complete_when_), &when))
      return NoSuchValue("--on-complete-when", *on_complete_when_, "always, on-failure");
    schedule.set_on_complete_when(when);
    fields.push_back("on_complete_when");
  }
  if (!on_complete_http_.has_value() && !on_complete_grpc_.has_value()) return absl::OkStatus();
  schedule.clear_on_complete();
  if (!on_complete_http_.value_or("").empty()) {
    schedule.mutable_on_complete()->mutable_http()->set_uri(*on_complete_http_);
  } else if (!on_complete_grpc_.value_or("").empty()) {
    schedule.mutable_on_complete()->mutable_grpc()->set_uri(*on_complete_grpc_);
  }
  fields.push_back("on_complete");
  return absl::OkStatus();
}

}  // namespace escapement::escctl
