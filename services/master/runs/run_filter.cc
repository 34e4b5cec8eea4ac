#include "services/master/runs/run_filter.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/micros.h"
#include "common/base/proto_time.h"
#include "services/master/requests/filter_values.h"

namespace escapement::master {
namespace {

constexpr absl::string_view kState = "state";
constexpr absl::string_view kNominalTime = "nominal_time";
constexpr absl::string_view kCompleteTime = "complete_time";

absl::Status Bind(FilterComparison& comparison) {
  if (comparison.field == kState) {
    v1::Run::State state;
    if (!v1::Run::State_Parse(comparison.value, &state) || state == v1::Run::STATE_UNSPECIFIED) {
      return absl::InvalidArgumentError("state must be ACTIVE, COMPLETED, SKIPPED or CANCELLED");
    }
    comparison.number = state;
    return RequireEquality(comparison);
  }
  if (comparison.field == kNominalTime || comparison.field == kCompleteTime)
    return BindTime(comparison);
  return absl::InvalidArgumentError(absl::StrCat("unknown field ", comparison.field, "; use ",
                                                 kState, ", ", kNominalTime, " or ",
                                                 kCompleteTime));
}

bool Holds(const v1::Run& run, const FilterComparison& comparison) {
  if (comparison.field == kState) {
    return Compares(OrderOf<int64_t>(run.state(), comparison.number), comparison.op);
  }
  const bool nominal = comparison.field == kNominalTime;
  if (!nominal && !run.has_complete_time()) return false;
  const auto& time = nominal ? run.nominal_time() : run.complete_time();
  // Times of runs are whole microseconds.
  return Compares(OrderOf(FromMicros(*TimestampMicros(time)), comparison.time), comparison.op);
}

}  // namespace

absl::StatusOr<RunFilter> RunFilter::Read(absl::string_view text) {
  absl::StatusOr<Filter> filter = ReadFilter(text, &Bind);
  if (!filter.ok()) return filter.status();
  RunFilter read;
  const FilterTimes range = FilterTimesOf(*filter, kNominalTime);
  read.filter_ = *std::move(filter);
  read.begin_ = range.begin;
  read.end_ = range.end;
  return read;
}

bool RunFilter::Matches(const v1::Run& run) const {
  return FilterHolds(filter_,
                     [&](const FilterComparison& comparison) { return Holds(run, comparison); });
}

}  // namespace escapement::master
