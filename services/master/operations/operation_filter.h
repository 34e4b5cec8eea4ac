// The `filter` of ListOperations: conditions on state and kind.
//
// Pure.

#ifndef SERVICES_MASTER_OPERATIONS_OPERATION_FILTER_H_
#define SERVICES_MASTER_OPERATIONS_OPERATION_FILTER_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/filter/filter.h"
#include "escapement/v1/operation_service.pb.h"

namespace escapement::master {

class OperationFilter {
 public:
  // Every operation.
  OperationFilter() = default;
  // INVALID_ARGUMENT (filter).
  static absl::StatusOr<OperationFilter> Read(absl::string_view text);

  bool Matches(const v1::Operation& operation) const;

 private:
  Filter filter_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_OPERATIONS_OPERATION_FILTER_H_
