// RETURN_IF_ERROR(expression): returns the expression's absl::Status from the enclosing function
// unless it is OK. ASSIGN_OR_RETURN(variable, expression): declares or assigns `variable` with the
// value of the expression's absl::StatusOr, or returns its status from the enclosing function. It
// is several statements. The function returns absl::Status or absl::StatusOr.

#ifndef COMMON_BASE_STATUS_MACROS_H_
#define COMMON_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Expressions are variadic: templates and lists have commas.
#define RETURN_IF_ERROR(...)                              \
  do {                                                    \
    absl::Status status_of_expression = (__VA_ARGS__);    \
    if (ABSL_PREDICT_FALSE(!status_of_expression.ok())) { \
      return status_of_expression;                        \
    }                                                     \
  } while (false)

#define ASSIGN_OR_RETURN(variable, ...) \
  STATUS_MACROS_ASSIGN(STATUS_MACROS_NAME(value_or_status_, __LINE__), variable, (__VA_ARGS__))

#define STATUS_MACROS_ASSIGN(value_or_status, variable, expression)                          \
  auto value_or_status = expression;                                                         \
  if (ABSL_PREDICT_FALSE(!value_or_status.ok())) return std::move(value_or_status).status(); \
  variable = *std::move(value_or_status)

#define STATUS_MACROS_NAME(prefix, line) STATUS_MACROS_JOIN(prefix, line)
#define STATUS_MACROS_JOIN(prefix, line) prefix##line

#endif  // COMMON_BASE_STATUS_MACROS_H_
