// ShowTarget: the status of one target, from the rows of the handlers that use it.
//
// Pure.

#ifndef SERVICES_MASTER_TARGET_STATES_TARGET_STATUS_H_
#define SERVICES_MASTER_TARGET_STATES_TARGET_STATUS_H_

#include <string>
#include <vector>

#include "common/base/uid.h"
#include "escapement/storage/v1/target_records.pb.h"
#include "escapement/v1/target_service.pb.h"

namespace escapement::master {

struct HandlerRow {
  std::string handler;
  storage::v1::TargetRowRecord record;
};

// `rows` is not empty, and in the order of the handlers.
v1::TargetStatus ShowTarget(const std::string& tenant, const Uid& target,
                            const std::vector<HandlerRow>& rows);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_TARGET_STATES_TARGET_STATUS_H_
