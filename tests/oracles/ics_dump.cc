// The days of iCalendar files, as the master reads them. A line in is the number of today's day, a
// tab, and a file whose lines end with "\n" as two characters; a line out has its days as
// YYYY-MM-DD with commas between, or "error: " and why.

#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "services/master/calendars/ics_days.h"
#include "services/master/codec/calendar_codec.h"

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits('\t', 1));
    int64_t today = 0;
    if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &today)) return 1;
    const absl::StatusOr<std::set<int32_t>> days =
        escapement::master::IcsDays(absl::StrReplaceAll(parts[1], {{"\\n", "\r\n"}}), today);
    if (!days.ok()) {
      std::cout << "error: " << days.status().message() << "\n";
      continue;
    }
    std::vector<std::string> texts;
    for (const int32_t day : *days) texts.push_back(escapement::master::DayText(day));
    std::cout << absl::StrJoin(texts, ",") << "\n";
  }
  return 0;
}
