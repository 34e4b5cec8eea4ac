#include <string>

#include "absl/strings/str_cat.h"
#include "tests/simulation/checkers/commits/commit_checks.h"

namespace escapement::simulation {

std::vector<Violation> CheckLog(const History& history) {
  std::vector<Violation> violations;
  auto report = [&](const LoggedRow& row, const std::string& why) {
    violations.push_back(
        {"log", absl::StrCat("row ", row.seq, " of epoch ", row.epoch, " at ",
                             absl::FormatTime(row.time, absl::UTCTimeZone()), ": ", why)});
  };
  LoggedRow before;
  for (const LoggedRow& row : history.log) {
    if (row.seq != before.seq + 1) report(row, absl::StrCat("it follows row ", before.seq));
    if (row.epoch < before.epoch) report(row, absl::StrCat("it follows epoch ", before.epoch));
    if (row.epoch != before.epoch && row.kind != LoggedRow::Kind::kLeader)
      report(row, "its term does not begin with the leader's row");
    // A proof of the handover itself may follow.
    if (row.epoch == before.epoch && before.kind == LoggedRow::Kind::kHandover &&
        row.kind != LoggedRow::Kind::kProof)
      report(row, "its leader has handed over before");
    before = row;
  }
  for (const std::string& what : history.copies) violations.push_back({"copy", what});
  return violations;
}

}  // namespace escapement::simulation
