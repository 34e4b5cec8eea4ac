// Prints occurrences of cron expressions, to compare with other programs.
//
// Reads lines of "expression<TAB>zone<TAB>after<TAB>count", with `after` in Unix seconds. For each
// it writes a line of at most `count` occurrences strictly after `after`, as "unix/NOTE"
// (evaluator.h; the note may be empty) separated by spaces; or "refused<TAB>reason".

#include <charconv>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/cron/cron_expression.h"
#include "common/cron/evaluator.h"
#include "common/cron/timetable.h"
#include "common/cron/zone.h"

namespace escapement::cron {
namespace {

std::string Dump(const std::string& expression, const std::string& zone_name, int64_t after,
                 int count, bool fixed) {
  absl::StatusOr<CronExpression> cron = ParseCron(expression);
  if (!cron.ok()) return absl::StrCat("refused\t", cron.status().message());
  absl::StatusOr<Zone> zone = Zone::Load(zone_name);
  if (!zone.ok()) return absl::StrCat("refused\t", zone.status().message());
  TimetableSpec spec;
  spec.cron = *cron;
  spec.zone = *zone;
  if (fixed) spec.policy = {GapPolicy::kFireAfter, FoldPolicy::kFirst};
  const Timetable timetable(spec);
  std::string line;
  absl::Time at = absl::FromUnixSeconds(after);
  for (int i = 0; i < count; ++i) {
    const std::optional<Occurrence> next = timetable.FirstAfter(at);
    if (!next.has_value()) break;
    at = next->instant;
    absl::StrAppend(&line, i == 0 ? "" : " ", absl::ToUnixSeconds(at), "/", NoteName(next->note));
  }
  return line;
}

template <typename Number>
bool Parse(const std::string& text, Number* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size();
}

int Run() {
  std::ios::sync_with_stdio(false);
  for (std::string line; std::getline(std::cin, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, '\t');
    int64_t after = 0;
    int count = 0;
    const bool fixed = parts.size() == 5 && parts[4] == "fixed";
    if ((parts.size() != 4 && !fixed) || !Parse(parts[2], &after) || !Parse(parts[3], &count)) {
      std::cerr << "cron_dump: malformed line: " << line << "\n";
      return 1;
    }
    std::cout << Dump(parts[0], parts[1], after, count, fixed) << "\n";
  }
  return 0;
}

}  // namespace
}  // namespace escapement::cron

int main() { return escapement::cron::Run(); }
