// ReadDescending: the order_by of lists that have one order and its reverse. Pure.

#ifndef SERVICES_MASTER_REQUESTS_LIST_ORDER_H_
#define SERVICES_MASTER_REQUESTS_LIST_ORDER_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace escapement::master {

// True for "FIELD desc", false for "FIELD" and "FIELD asc", `unset` for no words.
// INVALID_ARGUMENT (order_by) for all else.
absl::StatusOr<bool> ReadDescending(absl::string_view order_by, absl::string_view field,
                                    bool unset);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_REQUESTS_LIST_ORDER_H_
