#include "services/master/operations/dead_letter_filter.h"

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "services/master/requests/filter_values.h"

namespace escapement::master {
namespace {

constexpr absl::string_view kCreateTime = "create_time";

using TextMaker = std::string (*)(const StoredDeadLetter& letter);

// Null: no such text.
TextMaker TextOf(absl::string_view field) {
  if (field == "schedule") return &ScheduleNameOf;
  if (field == "policy") return &PolicyNameOf;
  if (field == "event") return &EventNameOf;
  if (field == "event_id")
    return [](const StoredDeadLetter& letter) { return letter.name.event_id; };
  if (field == "reason")
    return [](const StoredDeadLetter& letter) { return letter.record.reason(); };
  return nullptr;
}

absl::Status Bind(FilterComparison& comparison, absl::string_view tenant) {
  if (comparison.field == kCreateTime) return BindTime(comparison);
  if (TextOf(comparison.field) == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown field ", comparison.field,
                     "; use schedule, policy, event, event_id, reason or create_time"));
  }
  if (comparison.field == "reason" && comparison.op == FilterOperator::kHas)
    return absl::OkStatus();
  // An empty value stays: it means none.
  if (!comparison.value.empty() && comparison.field == "schedule")
    comparison.value = FullNameOf(tenant, "schedules", comparison.value);
  if (!comparison.value.empty() && comparison.field == "policy")
    comparison.value = FullNameOf(tenant, "policies", comparison.value);
  return RequireEquality(comparison);
}

bool Holds(const StoredDeadLetter& letter, const FilterComparison& comparison) {
  if (comparison.field == kCreateTime)
    return Compares(OrderOf(letter.name.time, comparison.time), comparison.op);
  const std::string text = TextOf(comparison.field)(letter);
  if (comparison.op == FilterOperator::kHas) return absl::StrContains(text, comparison.value);
  return NameMatches(text, comparison.value) == (comparison.op != FilterOperator::kNotEqual);
}

}  // namespace

absl::StatusOr<DeadLetterFilter> DeadLetterFilter::Read(absl::string_view text,
                                                        absl::string_view tenant) {
  absl::StatusOr<Filter> filter =
      ReadFilter(text, [&](FilterComparison& comparison) { return Bind(comparison, tenant); });
  if (!filter.ok()) return filter.status();
  DeadLetterFilter read;
  read.times_ = FilterTimesOf(*filter, kCreateTime);
  read.filter_ = *std::move(filter);
  return read;
}

bool DeadLetterFilter::Matches(const StoredDeadLetter& letter) const {
  return FilterHolds(filter_,
                     [&](const FilterComparison& comparison) { return Holds(letter, comparison); });
}

}  // namespace escapement::master
