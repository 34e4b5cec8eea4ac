// Operations as rows of a table.

#ifndef TOOLS_ESCCTL_BASE_OPERATION_TEXT_H_
#define TOOLS_ESCCTL_BASE_OPERATION_TEXT_H_

#include "escapement/v1/operation_service.pb.h"
#include "tools/escctl/base/output.h"
#include "tools/escctl/base/session.h"

namespace escapement::escctl {

const Row& OperationHeader();
Row OperationRow(const v1::Operation& operation);
// In the session's format.
void PrintOperation(Session& session, const v1::Operation& operation);

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_BASE_OPERATION_TEXT_H_
