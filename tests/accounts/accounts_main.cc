// Lives a day of many schedules under faults and changes, judges their accounts, and then looks
// whether lost rows are found:
//
//   accounts_main --schedules=100000 --hours=24 --seed=1
//
// Exits with 1 if an account differs from what the history of the day allows.

#include <sys/resource.h>

#include <cstdint>
#include <cstdio>
#include <set>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "tests/accounts/day.h"

ABSL_FLAG(uint32_t, schedules, 100'000, "how many schedules there are");
ABSL_FLAG(int, hours, 24, "how long the day is, in its own time");
ABSL_FLAG(uint64_t, seed, 1, "decides everything");
ABSL_FLAG(
    std::string, start, "2026-03-08T00:00:00+00:00",
    "when it begins, in 2026. On 8 March New York's clocks go forward; on 25 October Berlin's "
    "go back");
ABSL_FLAG(int, accounts, 5, "accounts of the last two hours, before the last one of the whole day");
ABSL_FLAG(double, changes, 0.03, "pauses, updates and deletions of a schedule in an hour");
ABSL_FLAG(bool, trace, false, "print each fault");

namespace escapement::accounts {
namespace {

int64_t PeakMebibytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

void Print(const Account& account) {
  std::printf("%d schedules, %d occurrences, %d schedules not judged, %d breaches\n",
              static_cast<int>(account.schedules), static_cast<int>(account.occurrences),
              static_cast<int>(account.unjudged), static_cast<int>(account.breach_count));
  for (const auto& [result, count] : account.counts)
    std::printf("  %9d %s\n", static_cast<int>(count), result.c_str());
  std::printf("  %9d UNACCOUNTED\n", static_cast<int>(account.unaccounted.size()));
  for (const std::string& breach : account.breaches) std::printf("  %s\n", breach.c_str());
}

int Main() {
  const absl::Time began = absl::Now();
  DayOptions options;
  options.seed = absl::GetFlag(FLAGS_seed);
  options.schedules = absl::GetFlag(FLAGS_schedules);
  options.length = absl::Hours(absl::GetFlag(FLAGS_hours));
  options.accounts = absl::GetFlag(FLAGS_accounts);
  options.changes = absl::GetFlag(FLAGS_changes);
  std::string error;
  if (!absl::ParseTime(absl::RFC3339_full, absl::GetFlag(FLAGS_start), &options.start, &error)) {
    std::fprintf(stderr, "--start: %s\n", error.c_str());
    return 2;
  }
  options.say = [began](const std::string& text) {
    std::fprintf(stderr, "%s; %s, at most %d MiB\n", text.c_str(),
                 absl::FormatDuration(absl::Trunc(absl::Now() - began, absl::Seconds(1))).c_str(),
                 static_cast<int>(PeakMebibytes()));
  };
  if (absl::GetFlag(FLAGS_trace))
    options.trace = [](const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); };
  Day day(options);
  const Account account = day.Run();
  std::printf("%s\n", day.Summary().c_str());
  Print(account);

  const std::set<Place> lost = day.LoseRows();
  const Account after = day.Ask(day.start());
  const bool found = after.unaccounted == lost && !lost.empty() &&
                     after.breach_count == static_cast<int64_t>(lost.size());
  std::printf("%d rows deleted: %s\n", static_cast<int>(lost.size()),
              found ? "the account says UNACCOUNTED for exactly these occurrences"
                    : "the account is wrong");
  if (!found) Print(after);
  std::printf("%s, at most %d MiB\n",
              absl::FormatDuration(absl::Trunc(absl::Now() - began, absl::Seconds(1))).c_str(),
              static_cast<int>(PeakMebibytes()));
  return account.breach_count == 0 && account.unaccounted.empty() && found ? 0 : 1;
}

}  // namespace
}  // namespace escapement::accounts

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return escapement::accounts::Main();
}
