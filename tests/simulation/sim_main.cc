// Runs the simulation for seeds and says which of them fail.
//
//   sim_main --seeds=1000 --first=1       many seeds
//   sim_main --cast=batches --seeds=40    20,000 events and some 35 kills each
//   sim_main --cast=mixed --minutes=60 --seeds=5000 --jobs=2    a night
//   sim_main --seed=17 --trace            one, with everything that happened in it on stdout

#include <time.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/match.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "tests/simulation/coverage.h"
#include "tests/simulation/scenario.h"

ABSL_FLAG(uint64_t, seeds, 50, "how many seeds to run");
ABSL_FLAG(int, jobs, 1, "how many seeds run at the same time, each in a thread");
ABSL_FLAG(uint64_t, first, 1, "the first of them");
ABSL_FLAG(int64_t, seed, -1, "run this seed alone");
ABSL_FLAG(
    std::string, cast, "plain",
    "who takes part: plain, throttled, batches, clocks, times, whole, mixed, replicated or cells");
ABSL_FLAG(int, minutes, 10,
          "how long a run of the casts `whole`, `mixed`, `replicated` and `cells` lasts, in its "
          "own time");
ABSL_FLAG(bool, faults, true, "plan faults (else a run in which nothing goes wrong)");
ABSL_FLAG(bool, log_set_back, false,
          "replicated: the log is once set back to a backup, and repaired later");
ABSL_FLAG(bool, perturb, true, "with the perturbation points that the seed switches on");
ABSL_FLAG(bool, accounts, false, "a user asks for accounts of all schedules");
ABSL_FLAG(bool, covers, false, "fail if something that is named in coverage.h never happens");
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

// The seeds that are left to run, and the results so far.
struct Runs {
  absl::Mutex mu;
  uint64_t next ABSL_GUARDED_BY(mu) = 0;
  uint64_t end ABSL_GUARDED_BY(mu) = 0;
  Tally tally ABSL_GUARDED_BY(mu);
  absl::Duration took ABSL_GUARDED_BY(mu);
};

absl::Duration ThreadTime() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return absl::DurationFromTimespec(time);
}

ScenarioOptions OptionsOf(uint64_t seed) {
  ScenarioOptions options;
  options.seed = seed;
  options.faults = absl::GetFlag(FLAGS_faults);
  options.cast = *CastNamed(absl::GetFlag(FLAGS_cast));
  options.length = absl::Minutes(absl::GetFlag(FLAGS_minutes));
  options.perturb = absl::GetFlag(FLAGS_perturb);
  options.log_set_back = absl::GetFlag(FLAGS_log_set_back);
  options.accounts = absl::GetFlag(FLAGS_accounts);
  if (absl::GetFlag(FLAGS_trace)) options.tracer = PrintTrace;
  return options;
}

void RunSeed(uint64_t seed, Runs& runs) {
  const ScenarioOptions options = OptionsOf(seed);
  const absl::Duration begun = ThreadTime();
  const ScenarioResult result = RunScenario(options);
  const absl::Duration took = ThreadTime() - begun;
  const std::string report = Report(options, result);
  absl::MutexLock lock(&runs.mu);
  runs.tally.Add(options, result);
  runs.took += took;
  std::printf(
      "seed %llu %s: %zu receipts, %zu outcomes, %zu commits, %d kills, %llu steps, %s, trace "
      "%016llx\n%s",
      static_cast<unsigned long long>(seed), report.empty() ? "passed" : "FAILED",
      result.history.receipts.size(), result.history.done.size(), result.history.commits.size(),
      result.killed, static_cast<unsigned long long>(result.events_run),
      absl::FormatDuration(absl::Trunc(took, absl::Milliseconds(1))).c_str(),
      static_cast<unsigned long long>(result.trace_hash), report.c_str());
  std::fflush(stdout);
}

void RunAll(Runs& runs) {
  for (;;) {
    uint64_t seed;
    {
      absl::MutexLock lock(&runs.mu);
      if (runs.next >= runs.end) return;
      seed = runs.next++;
    }
    RunSeed(seed, runs);
  }
}

int Main() {
  if (!CastNamed(absl::GetFlag(FLAGS_cast)).has_value()) {
    std::fprintf(stderr, "there is no cast %s\n", absl::GetFlag(FLAGS_cast).c_str());
    return 2;
  }
  Runs runs;
  {
    absl::MutexLock lock(&runs.mu);
    const int64_t one = absl::GetFlag(FLAGS_seed);
    runs.next = one >= 0 ? static_cast<uint64_t>(one) : absl::GetFlag(FLAGS_first);
    runs.end = runs.next + (one >= 0 ? 1 : absl::GetFlag(FLAGS_seeds));
  }
  std::vector<std::thread> others;
  for (int i = 1; i < absl::GetFlag(FLAGS_jobs); ++i) others.emplace_back([&] { RunAll(runs); });
  RunAll(runs);
  for (std::thread& other : others) other.join();
  absl::MutexLock lock(&runs.mu);
  std::printf("%s", runs.tally.Text(runs.took).c_str());
  bool covered = true;
  if (absl::GetFlag(FLAGS_covers)) {
    for (const std::string& missing : runs.tally.Uncovered()) {
      std::printf("never happened: %s\n", missing.c_str());
      covered = false;
    }
  }
  return covered && runs.tally.failed() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace escapement::simulation

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return escapement::simulation::Main();
}
