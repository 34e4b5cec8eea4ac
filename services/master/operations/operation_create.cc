#include "services/master/operations/operation_create.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/kv/group_parts.h"
#include "common/storage/operation_table.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {

void BeginOperation(MasterContext& context, const OperationLoop& loop, OperationRequest request,
                    RecordChanged done) {
  const std::string tenant = request.operation.tenant;
  const std::string id = NewOperationId(request.operation.time, context.runtime.random().Next());
  RecordChange change{.key = {kv::ColumnFamily::kOperations, OperationKey(tenant, id)},
                      .resource = OperationName{tenant, id}.ToString(),
                      .mark = std::move(request.mark)};
  change.response = std::move(request.response);
  change.validate_only = request.validate_only;
  change.decide =
      [&loop, tenant, key = change.key.key, record = OperationRecordOf(request.operation, id),
       respond = std::move(request.respond)](const std::optional<std::string>&,
                                             absl::Time) -> absl::StatusOr<RecordDecision> {
    if (loop.RunningOf(tenant) >= kOperationsRunningMax)
      return TooManyOperations(absl::StrCat("tenants/", tenant));
    RecordDecision decision;
    decision.group.conditions.push_back(kv::Absent(kv::ColumnFamily::kOperations, key));
    decision.group.mutations.push_back(
        kv::Put(kv::ColumnFamily::kOperations, key, record.SerializeAsString()));
    decision.response = respond(ShowOperation(record));
    return decision;
  };
  ChangeRecord(context, std::move(change), std::move(done));
}

}  // namespace escapement::master
