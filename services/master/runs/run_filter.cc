#include "services/master/runs/run_filter.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/micros.h"
#include "common/base/proto_time.h"
#include "common/status/errors.h"

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

template <typename T>
int Order(T a, T b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

bool Holds(const v1::Run& run, const FilterComparison& comparison) {
  if (comparison.field == kState) {
    return Compares(Order<int64_t>(run.state(), comparison.number), comparison.op);
  }
  const bool nominal = comparison.field == kNominalTime;
  if (!nominal && !run.has_complete_time()) return false;
  const auto& time = nominal ? run.nominal_time() : run.complete_time();
  // Times of runs are whole microseconds.
  return Compares(Order(FromMicros(*TimestampMicros(time)), comparison.time), comparison.op);
}

// Nominal times [begin, end); none if begin >= end.
struct Range {
  absl::Time begin = absl::InfinitePast();
  absl::Time end = absl::InfiniteFuture();
};

Range RangeOf(const FilterComparison& comparison) {
  if (comparison.field != kNominalTime) return {};
  const absl::Time time = comparison.time;
  const absl::Time after = time + absl::Microseconds(1);
  switch (comparison.op) {
    case FilterOperator::kEqual:
    case FilterOperator::kHas:
      return {time, after};
    case FilterOperator::kLess:
    case FilterOperator::kLessOrEqual:
      return {absl::InfinitePast(), after};
    case FilterOperator::kGreater:
    case FilterOperator::kGreaterOrEqual:
      return {time, absl::InfiniteFuture()};
    case FilterOperator::kNotEqual:
      return {};
  }
  return {};
}

Range RangeOf(const Filter& filter) {
  if (filter.kind == Filter::Kind::kComparison) return RangeOf(filter.comparison);
  if (filter.kind == Filter::Kind::kNot || filter.operands.empty()) return {};
  Range range = RangeOf(filter.operands.front());
  for (const Filter& operand : filter.operands) {
    const Range other = RangeOf(operand);
    const bool both = filter.kind == Filter::Kind::kAnd;
    range.begin = both ? std::max(range.begin, other.begin) : std::min(range.begin, other.begin);
    range.end = both ? std::min(range.end, other.end) : std::max(range.end, other.end);
  }
  return range;
}

}  // namespace

absl::StatusOr<RunFilter> RunFilter::Read(absl::string_view text) {
  absl::StatusOr<Filter> filter = ParseFilter(text);
  if (!filter.ok()) return InvalidField("filter", filter.status().message());
  if (absl::Status status = BindComparisons(*filter, &Bind); !status.ok())
    return InvalidField("filter", status.message());
  RunFilter read;
  const Range range = RangeOf(*filter);
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
