// Filters of lists, a part of https://google.aip.dev/160: comparisons of a field with a value, AND,
// OR (which binds tighter than AND, as in the AIP), NOT and parentheses.
//
//   state = FAILED AND (nominal_time >= "2026-11-25T00:00:00Z" OR NOT complete_time < "…")
//
// Not supported: the `-` of NOT, values without a field, terms side by side without AND, functions.
// The caller defines the fields and the meaning of their values. Pure.

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
#include "absl/time/time.h"

namespace escapement {

inline constexpr size_t kFilterBytesMax = 2000;
inline constexpr size_t kFilterComparisonsMax = 100;
inline constexpr size_t kFilterDepthMax = 20;  // depth of parentheses and NOT

enum class FilterOperator : uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,
  kHas,  // ':'
};

struct FilterComparison {
  // Letters, digits, '_', '-', '.'; begins with a lower-case letter. After a '.' a quoted part may
  // hold anything: labels."a b" gives "labels.a b".
  std::string field;
  FilterOperator op = FilterOperator::kEqual;
  std::string value;  // without its quotes
  // The value as the function given to BindComparisons understands it.
  int64_t number = 0;
  absl::Time time = {};
};

// A tree of conditions.
struct Filter {
  enum class Kind : uint8_t { kComparison, kAnd, kOr, kNot };
  Kind kind = Kind::kAnd;
  FilterComparison comparison = {};   // only for kComparison
  std::vector<Filter> operands = {};  // for the other kinds; one for kNot. A kAnd without operands
                                      // always holds

  bool always() const { return kind == Kind::kAnd && operands.empty(); }
};

// The empty text always holds. INVALID_ARGUMENT if the text is malformed or exceeds the bounds
// above; its message is for users and has no details.
absl::StatusOr<Filter> ParseFilter(absl::string_view text);

// Runs `bind`, which may set `number` and `time`, on the comparisons from left to right and returns
// the first error.
absl::Status BindComparisons(Filter& filter,
                             absl::FunctionRef<absl::Status(FilterComparison&)> bind);

// For BindComparisons. Reads a value as a time (RFC 3339). Refuses other values and ':'.
absl::Status BindTime(FilterComparison& comparison);
// OK if the operator is = or !=.
absl::Status RequireEquality(const FilterComparison& comparison);

// Evaluates the filter; `holds` evaluates one comparison.
bool FilterHolds(const Filter& filter, absl::FunctionRef<bool(const FilterComparison&)> holds);

// -1, 0 or 1: `a` is less than, equal to or greater than `b`.
template <typename T>
int OrderOf(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

// True if `order` (-1 less, 0 equal, 1 greater) satisfies the operator. kHas counts as kEqual.
bool Compares(int order, FilterOperator op);

// Times [begin, end); none if begin >= end.
struct FilterTimes {
  absl::Time begin = absl::InfinitePast();
  absl::Time end = absl::InfiniteFuture();
};
// Everything that satisfies the filter has the time `field`, bound by BindTime, in this range.
// Times are whole microseconds.
FilterTimes FilterTimesOf(const Filter& filter, absl::string_view field);

// Calls `visit` for each comparison that must hold for the filter to hold.
void ForEachNeeded(const Filter& filter, absl::FunctionRef<void(const FilterComparison&)> visit);

}  // namespace escapement

#endif  // COMMON_FILTER_FILTER_H_
