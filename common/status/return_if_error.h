// RETURN_IF_ERROR(expression): returns the expression's absl::Status from the enclosing function
// unless it is OK. The function returns absl::Status or absl::StatusOr.

#ifndef COMMON_STATUS_RETURN_IF_ERROR_H_
#define COMMON_STATUS_RETURN_IF_ERROR_H_

#include "absl/base/optimization.h"
#include "absl/status/status.h"

#define RETURN_IF_ERROR(expression)                       \
  do {                                                    \
    absl::Status status_of_expression = (expression);     \
    if (ABSL_PREDICT_FALSE(!status_of_expression.ok())) { \
      return status_of_expression;                        \
    }                                                     \
  } while (false)

#endif  // COMMON_STATUS_RETURN_IF_ERROR_H_
