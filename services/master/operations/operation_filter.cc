#include "services/master/operations/operation_filter.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/master/requests/filter_values.h"

namespace escapement::master {
namespace {

absl::Status BindOperation(FilterComparison& comparison) {
  if (comparison.field == "state") {
    v1::Operation::State state;
    if (!v1::Operation::State_Parse(comparison.value, &state) ||
        state == v1::Operation::STATE_UNSPECIFIED) {
      return absl::InvalidArgumentError("state must be RUNNING, SUCCEEDED, FAILED or CANCELLED");
    }
    comparison.number = state;
    return RequireEquality(comparison);
  }
  if (comparison.field == "kind") {
    v1::Operation::Kind kind;
    if (!v1::Operation::Kind_Parse(comparison.value, &kind) ||
        kind == v1::Operation::KIND_UNSPECIFIED) {
      return absl::InvalidArgumentError("kind must be REDRIVE or PURGE");
    }
    comparison.number = kind;
    return RequireEquality(comparison);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown field ", comparison.field, "; use state or kind"));
}

}  // namespace

absl::StatusOr<OperationFilter> OperationFilter::Read(absl::string_view text) {
  absl::StatusOr<Filter> filter = ReadFilter(text, &BindOperation);
  if (!filter.ok()) return filter.status();
  OperationFilter read;
  read.filter_ = *std::move(filter);
  return read;
}

bool OperationFilter::Matches(const v1::Operation& operation) const {
  return FilterHolds(filter_, [&](const FilterComparison& comparison) {
    const int64_t value = comparison.field == "state" ? static_cast<int64_t>(operation.state())
                                                      : static_cast<int64_t>(operation.kind());
    return Compares(OrderOf(value, comparison.number), comparison.op);
  });
}

}  // namespace escapement::master
