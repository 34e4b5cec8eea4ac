#include "tests/simulation/check_early.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/simulation/expectations.h"

namespace escapement::simulation {

std::vector<Violation> CheckEarly(const History& history) {
  const ExpectedRuns expected = ExpectRuns(history);
  std::map<std::string, absl::Time> one_off_due;
  for (const OneOff& one_off : history.one_offs) one_off_due[one_off.event_id] = one_off.due;

  std::vector<Violation> violations;
  auto report = [&](const Receipt& receipt, const std::string& why) {
    violations.push_back(
        {"early", absl::StrCat("event ", receipt.event_id, " ", receipt.occurrence, "[",
                               receipt.index, "] received at ",
                               absl::FormatTime(receipt.time, absl::UTCTimeZone()), ": ", why)});
  };
  for (const Receipt& receipt : history.receipts) {
    absl::Time due = receipt.launch;
    if (receipt.uid.empty()) {
      auto it = one_off_due.find(receipt.event_id);
      if (it == one_off_due.end()) {
        report(receipt, "nobody made it");
        continue;
      }
      due = it->second;
    } else {
      auto it = expected.find({receipt.uid, receipt.occurrence});
      if (it == expected.end()) {
        report(receipt, "it is no occurrence of its schedule");
        continue;
      }
      due = it->second.due;
    }
    if (receipt.time < due || receipt.time < receipt.nominal) {
      report(receipt, absl::StrCat("due ", absl::FormatTime(due, absl::UTCTimeZone())));
    }
  }
  return violations;
}

}  // namespace escapement::simulation
