// Any bytes as the filter of a list.

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "common/filter/filter.h"
#include "common/status/errors.h"
#include "services/master/events/event_filter.h"
#include "services/master/policies/policy_codec.h"
#include "services/master/runs/run_listing.h"
#include "services/master/schedules/schedule_search.h"
#include "tests/fuzz/require.h"

namespace escapement::fuzz {
namespace {

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
}

// A text of the tree. Everything is quoted and within parentheses.
std::string TextOf(const Filter& filter) {
  static constexpr const char* kOperators[] = {"=", "!=", "<", "<=", ">", ">=", ":"};
  if (filter.kind == Filter::Kind::kComparison) {
    const FilterComparison& c = filter.comparison;
    const size_t dot = c.field.find('.');
    const std::string field =
        dot == std::string::npos
            ? c.field
            : absl::StrCat(c.field.substr(0, dot + 1), Quoted(c.field.substr(dot + 1)));
    return absl::StrCat(field, kOperators[static_cast<size_t>(c.op)], Quoted(c.value));
  }
  if (filter.kind == Filter::Kind::kNot) return absl::StrCat("NOT ", TextOf(filter.operands[0]));
  std::string text;
  for (const Filter& operand : filter.operands) {
    absl::StrAppend(&text,
                    text.empty()                        ? "("
                    : filter.kind == Filter::Kind::kAnd ? " AND "
                                                        : " OR ",
                    TextOf(operand));
  }
  return text.empty() ? text : absl::StrCat(text, ")");
}

size_t DepthOf(const Filter& filter) {
  size_t depth = 0;
  for (const Filter& operand : filter.operands) depth = std::max(depth, DepthOf(operand));
  return depth + 1;
}

void CheckFilter(absl::string_view input) {
  const absl::StatusOr<Filter> filter = ParseFilter(input);
  if (!filter.ok()) {
    Require(absl::IsInvalidArgument(filter.status()), "INVALID_ARGUMENT", input);
  } else if (const std::string text = TextOf(*filter);
             text.size() <= kFilterBytesMax && DepthOf(*filter) < kFilterDepthMax) {
    const absl::StatusOr<Filter> again = ParseFilter(text);
    Require(again.ok(), "its own text is read", input);
    Require(TextOf(*again) == text, "its own text is the same", input);
  }
  const auto of_schedules = master::ReadScheduleFilter(input, "t");
  const auto of_runs = master::ReadRunFilter(input);
  const auto of_events = master::ReadEventFilter(input, "t");
  const auto of_policies = master::ReadPolicyFilter(input, "t");
  Require(
      filter.ok() || (!of_schedules.ok() && !of_runs.ok() && !of_events.ok() && !of_policies.ok()),
      "no list reads more", input);
  v1::Schedule schedule;
  schedule.set_name("tenants/t/schedules/a");
  (*schedule.mutable_labels())["team"] = "x";
  if (of_schedules.ok()) {
    const bool matches = of_schedules->Matches(schedule);
    Require(!matches || absl::StartsWith("a", of_schedules->id_prefix()),
            "a match has the prefix that the index uses", input);
    const auto& label = of_schedules->label();
    Require(!matches || !label.has_value() || (label->first == "team" && label->second == "x"),
            "a match has the label that the index uses", input);
  } else {
    Require(!FieldViolationsOf(of_schedules.status()).empty(), "names the field", input);
  }
  if (of_runs.ok()) {
    v1::Run run;
    run.set_state(v1::Run::COMPLETED);
    run.mutable_nominal_time()->set_seconds(1'800'000'000);
    const absl::Time at = absl::FromUnixSeconds(1'800'000'000);
    Require(!of_runs->Matches(run) || (of_runs->TimesOf("nominal_time").begin <= at &&
                                       at < of_runs->TimesOf("nominal_time").end),
            "a match lies in the range that is read", input);
  }
  if (of_policies.ok()) {
    v1::ThrottlePolicy policy;
    policy.set_name("tenants/t/policies/a");
    policy.set_max_per_second(0.5);
    Require(!of_policies->Matches(policy) || absl::StartsWith("a", of_policies->id_prefix()),
            "a match has the prefix that the index uses", input);
  }
  if (of_events.ok()) {
    v1::Event event;
    event.set_name("tenants/t/events/a");
    event.set_state(v1::PENDING);
    event.mutable_due_time()->set_seconds(1'800'000'000);
    const absl::Time at = absl::FromUnixSeconds(1'800'000'000);
    const FilterTimes due = of_events->TimesOf("due_time");
    Require(!of_events->Matches(event) || (due.begin <= at && at < due.end),
            "a match lies in the range that is read", input);
    Require(!of_events->Matches(event) ||
                master::StateOfMatches(*of_events).value_or(v1::PENDING) == v1::PENDING,
            "a match has the state that chooses the list", input);
  }
}

}  // namespace
}  // namespace escapement::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  escapement::fuzz::CheckFilter({reinterpret_cast<const char*>(data), size});
  return 0;
}
