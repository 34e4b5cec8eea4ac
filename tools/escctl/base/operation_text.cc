#include "tools/escctl/base/operation_text.h"

#include <google/protobuf/util/time_util.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace escapement::escctl {
namespace {

using google::protobuf::util::TimeUtil;

std::string SelectionOf(const v1::Operation& operation) {
  if (!operation.run().empty()) return operation.run();
  return operation.filter().empty() ? "all" : operation.filter();
}

std::string ErrorOf(const v1::Operation& operation) {
  if (!operation.error().empty()) return operation.error();
  return operation.last_failure().empty() ? "-" : operation.last_failure();
}

}  // namespace

const Row& OperationHeader() {
  static const Row header = {"OPERATION", "KIND",    "STATE", "DONE",         "FAILED", "TOTAL",
                             "RATE",      "CREATED", "ENDED", "DEAD LETTERS", "ERROR"};
  return header;
}

Row OperationRow(const v1::Operation& operation) {
  return {operation.name(),
          v1::Operation::Kind_Name(operation.kind()),
          v1::Operation::State_Name(operation.state()),
          absl::StrCat(operation.done_count()),
          absl::StrCat(operation.failed_count()),
          absl::StrCat(operation.total_count()),
          operation.max_per_second() == 0 ? "-" : absl::StrCat(operation.max_per_second(), "/s"),
          TimeUtil::ToString(operation.create_time()),
          operation.has_end_time() ? TimeUtil::ToString(operation.end_time()) : "-",
          SelectionOf(operation),
          ErrorOf(operation)};
}

void PrintOperation(Session& session, const v1::Operation& operation) {
  if (session.format() != OutputFormat::kTable)
    return session.Print(FormatMessage(operation, session.format()));
  session.Print(FormatTable(OperationHeader(), {OperationRow(operation)}));
}

}  // namespace escapement::escctl
