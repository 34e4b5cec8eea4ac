#include "services/master/schedules/schedule_filter.h"

#include <array>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "services/master/requests/filter_values.h"

namespace escapement::master {
namespace {

constexpr absl::string_view kLabel = "labels.";

// A time that a schedule shows; null if it has none.
using TimeField = const google::protobuf::Timestamp* (*)(const v1::Schedule&);
struct TimeName {
  absl::string_view field;
  TimeField of;
};
constexpr std::array<TimeName, 3> kTimes = {{
    {"create_time", [](const v1::Schedule& s) { return &s.create_time(); }},
    {"update_time", [](const v1::Schedule& s) { return &s.update_time(); }},
    {"next_time",
     [](const v1::Schedule& s) { return s.has_next_time() ? &s.next_time() : nullptr; }},
}};

const TimeName* FindTime(absl::string_view field) {
  for (const TimeName& time : kTimes) {
    if (time.field == field) return &time;
  }
  return nullptr;
}

// Checks one comparison; makes ids full names.
class Binder {
 public:
  explicit Binder(absl::string_view tenant) : tenant_(tenant) {}

  absl::Status operator()(FilterComparison& comparison) const {
    const std::string& field = comparison.field;
    if (FindTime(field) != nullptr) return BindTime(comparison);
    if (field == "labels") {
      if (comparison.op == FilterOperator::kHas) return absl::OkStatus();
      return absl::InvalidArgumentError("labels takes only ':'; use labels.KEY = \"value\"");
    }
    if (field == "display_name" && comparison.op == FilterOperator::kHas) return absl::OkStatus();
    if (field == "name") {
      comparison.value = FullNameOf(tenant_, "schedules", comparison.value);
    } else if (field == "policy") {
      if (!comparison.value.empty())
        comparison.value = FullNameOf(tenant_, "policies", comparison.value);
    } else if (field == "state") {
      v1::Schedule::State state;
      if (!v1::Schedule::State_Parse(comparison.value, &state) ||
          state == v1::Schedule::STATE_UNSPECIFIED)
        return absl::InvalidArgumentError("state must be ENABLED, PAUSED or FINISHED");
      comparison.number = state;
    } else if (field == "target") {
      return BindTargetKind(comparison);
    } else if (field != "display_name" && field != "time_zone" &&
               !absl::StartsWith(field, kLabel)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "unknown field ", field,
          "; use name, display_name, labels.KEY, labels, state, time_zone, policy, target, "
          "create_time, update_time or next_time"));
    }
    return RequireEquality(comparison);
  }

 private:
  const absl::string_view tenant_;
};

bool Holds(const v1::Schedule& schedule, const FilterComparison& comparison) {
  const std::string& field = comparison.field;
  const bool has = comparison.op == FilterOperator::kHas;
  const auto equal = [&](bool same) {
    return same == (comparison.op != FilterOperator::kNotEqual);
  };
  if (const TimeName* time = FindTime(field); time != nullptr) {
    const auto* shown = time->of(schedule);
    if (shown == nullptr) return false;
    const absl::Time at = FromMicros(*TimestampMicros(*shown));
    return Compares(OrderOf(at, comparison.time), comparison.op);
  }
  if (field == "labels") return schedule.labels().contains(comparison.value);
  if (field == "display_name")
    return has ? absl::StrContains(schedule.display_name(), comparison.value)
               : equal(schedule.display_name() == comparison.value);
  if (field == "name") return equal(NameMatches(schedule.name(), comparison.value));
  if (field == "policy") return equal(schedule.policy() == comparison.value);
  if (field == "state") return equal(schedule.state() == comparison.number);
  if (field == "target") return equal(TargetKind(schedule.target()) == comparison.value);
  if (field == "time_zone") return equal(schedule.time_zone() == comparison.value);
  const auto label = schedule.labels().find(field.substr(kLabel.size()));
  return equal(label != schedule.labels().end() && label->second == comparison.value);
}

}  // namespace

absl::StatusOr<ScheduleFilter> ScheduleFilter::Read(absl::string_view text,
                                                    absl::string_view tenant) {
  absl::StatusOr<Filter> filter = ReadFilter(text, Binder(tenant));
  if (!filter.ok()) return filter.status();
  ScheduleFilter read;
  read.id_prefix_ = IdPrefixOf(*filter, tenant, "schedules");
  ForEachNeeded(*filter, [&](const FilterComparison& comparison) {
    if (comparison.op == FilterOperator::kEqual && absl::StartsWith(comparison.field, kLabel) &&
        !read.label_.has_value())
      read.label_.emplace(comparison.field.substr(kLabel.size()), comparison.value);
  });
  read.filter_ = *std::move(filter);
  return read;
}

bool ScheduleFilter::Matches(const v1::Schedule& schedule) const {
  return FilterHolds(
      filter_, [&](const FilterComparison& comparison) { return Holds(schedule, comparison); });
}

}  // namespace escapement::master
