#include "tests/e2e/chaos/check_delivered.h"

#include <set>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace escapement::chaos {

std::vector<simulation::Violation> CheckDelivered(const simulation::History& history) {
  using simulation::SendResult;
  // uid, occurrence or one-off event, index
  std::set<std::tuple<std::string, std::string, uint64_t>> arrived;
  for (const simulation::Receipt& receipt : history.receipts) {
    if (receipt.result != SendResult::kAccepted && receipt.result != SendResult::kUnknown) continue;
    arrived.insert(
        {receipt.uid, receipt.uid.empty() ? receipt.event_id : receipt.occurrence, receipt.index});
  }
  std::vector<simulation::Violation> violations;
  for (const simulation::DoneRow& row : history.done) {
    if (row.outcome != simulation::Outcome::kSucceeded) continue;
    const std::string& name = row.uid.empty() ? row.event_id : row.occurrence;
    for (uint64_t index = row.first; index < row.first + row.count; ++index) {
      if (arrived.count({row.uid, name, index}) > 0) continue;
      violations.push_back(
          {"delivered", absl::StrCat("event ", row.uid, " ", name, "[", index,
                                     "] has succeeded, and no accepted attempt arrived")});
    }
  }
  return violations;
}

}  // namespace escapement::chaos
