// Runs the simulation for seeds and says which of them fail.
//
//   sim_main --seeds=1000 --first=1       many seeds
//   sim_main --cast=batches --seeds=40    20,000 events and some 35 kills each
//   sim_main --seed=17 --trace            one, with everything that happened in it on stdout

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/simulation/scenario.h"

ABSL_FLAG(uint64_t, seeds, 50, "how many seeds to run");
ABSL_FLAG(uint64_t, first, 1, "the first of them");
ABSL_FLAG(int64_t, seed, -1, "run this seed alone");
ABSL_FLAG(std::string, cast, "plain", "who takes part: plain, throttled, batches, clocks or times");
ABSL_FLAG(bool, faults, true, "plan faults (else a run in which nothing goes wrong)");
ABSL_FLAG(bool, trace, false, "print faults, receipts and other notes");
ABSL_FLAG(bool, trace_commits, false, "print what commits did to queues, claims and Done as well");
ABSL_FLAG(bool, trace_events, false, "print every event as well");

namespace escapement::simulation {
namespace {

void PrintTrace(absl::Time time, absl::string_view process, absl::string_view what) {
  const bool note = absl::StartsWith(what, "fault: ") || absl::StartsWith(what, "receipt ") ||
                    absl::StartsWith(what, "user: ");
  const bool commit = absl::StartsWith(what, "commit ");
  if (what.empty() || !(note || absl::GetFlag(commit ? FLAGS_trace_commits : FLAGS_trace_events)))
    return;
  std::printf("%s %s %s\n", absl::FormatTime("%H:%M:%E6S", time, absl::UTCTimeZone()).c_str(),
              std::string(process).c_str(), std::string(what).c_str());
}

Cast CastOf(absl::string_view name) {
  if (name == "throttled") return Cast::kThrottled;
  if (name == "clocks") return Cast::kClocks;
  if (name == "times") return Cast::kTimes;
  return name == "batches" ? Cast::kBatches : Cast::kPlain;
}

int killed = 0;  // in all seeds

// "misfire 12, overlap 3, 2 + 1 summaries of 9, 40 cancelled": summaries of downtimes and pauses.
std::string OutcomesOf(const History& history) {
  std::map<std::string, int> skipped;
  std::map<std::string, int> summaries;
  uint64_t summarised = 0;
  int cancelled = 0;
  for (const DoneRow& row : history.done) {
    if (row.outcome == Outcome::kCancelled && !row.uid.empty()) ++cancelled;
    if (row.outcome == Outcome::kSkipped) ++skipped[row.reason];
    if (row.occurrences <= 1) continue;
    ++summaries[row.reason];
    summarised += row.occurrences;
  }
  std::string text;
  for (const auto& [reason, count] : skipped) absl::StrAppend(&text, reason, " ", count, ", ");
  return absl::StrCat(text, summaries["misfire"], " + ", summaries["paused"], " summaries of ",
                      summarised, ", ", cancelled, " cancelled");
}

bool RunSeed(uint64_t seed) {
  ScenarioOptions options;
  options.seed = seed;
  options.faults = absl::GetFlag(FLAGS_faults);
  options.cast = CastOf(absl::GetFlag(FLAGS_cast));
  if (absl::GetFlag(FLAGS_trace)) options.tracer = PrintTrace;
  const ScenarioResult result = RunScenario(options);
  killed += result.killed;
  const std::string report = Report(options, result);
  std::printf(
      "seed %llu %s: %zu receipts, %zu outcomes, %zu commits, %d kills, %llu steps, trace "
      "%016llx\n%s",
      static_cast<unsigned long long>(seed), report.empty() ? "passed" : "FAILED",
      result.history.receipts.size(), result.history.done.size(), result.history.commits.size(),
      result.killed, static_cast<unsigned long long>(result.events_run),
      static_cast<unsigned long long>(result.trace_hash), report.c_str());
  if (options.cast == Cast::kTimes) std::printf("  %s\n", OutcomesOf(result.history).c_str());
  std::fflush(stdout);
  return report.empty();
}

int Main() {
  if (absl::GetFlag(FLAGS_seed) >= 0)
    return RunSeed(static_cast<uint64_t>(absl::GetFlag(FLAGS_seed))) ? 0 : 1;
  uint64_t failed = 0;
  const uint64_t first = absl::GetFlag(FLAGS_first);
  for (uint64_t seed = first; seed < first + absl::GetFlag(FLAGS_seeds); ++seed)
    failed += RunSeed(seed) ? 0 : 1;
  std::printf("%llu seeds, %d kills, %llu failed\n",
              static_cast<unsigned long long>(absl::GetFlag(FLAGS_seeds)), killed,
              static_cast<unsigned long long>(failed));
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace escapement::simulation

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return escapement::simulation::Main();
}
