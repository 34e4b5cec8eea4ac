// Filters of lists, as in https://google.aip.dev/160, in part: comparisons of a field with a value,
// AND, OR (which binds more than AND, as the AIP has it), NOT and parentheses.
//
//   state = FAILED AND (nominal_time >= "2026-11-25T00:00:00Z" OR NOT complete_time < "…")
//
// Not taken: the `-` of NOT, values without a field, terms side by side without AND, `:`,
// functions. What fields there are and what their values mean says the caller. Pure.

#ifndef COMMON_FILTER_FILTER_H_
#define COMMON_FILTER_FILTER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace escapement {

inline constexpr size_t kFilterBytesMax = 2000;
inline constexpr size_t kFilterComparisonsMax = 100;
inline constexpr size_t kFilterDepthMax = 20;  // of parentheses and NOT

enum class FilterOperator : uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,
};

struct FilterComparison {
  std::string field;  // a-z, 0-9, '_', '.'; not empty
  FilterOperator op = FilterOperator::kEqual;
  std::string value;  // without its quotes
};

// A tree of conditions.
struct Filter {
  enum class Kind : uint8_t { kComparison, kAnd, kOr, kNot };
  Kind kind = Kind::kAnd;
  FilterComparison comparison = {};   // of kComparison
  std::vector<Filter> operands = {};  // of the others; of kNot one. An empty kAnd always holds

  bool always() const { return kind == Kind::kAnd && operands.empty(); }
};

// The empty text always holds. INVALID_ARGUMENT with a message for users, without details, if the
// text is malformed or more than the bounds above.
absl::StatusOr<Filter> ParseFilter(absl::string_view text);

// The first error of `check` on the comparisons, from left to right.
absl::Status CheckComparisons(const Filter& filter,
                              absl::FunctionRef<absl::Status(const FilterComparison&)> check);

// `holds` says whether one comparison does.
bool FilterHolds(const Filter& filter, absl::FunctionRef<bool(const FilterComparison&)> holds);

// Whether `order` stands to zero as the operator says: -1 for less, 0 for equal, 1 for greater.
bool Compares(int order, FilterOperator op);

}  // namespace escapement

#endif  // COMMON_FILTER_FILTER_H_
