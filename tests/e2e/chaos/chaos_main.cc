// Makes runs of chaos with real processes, each with a seed of its own, until there were enough
// kills or the time is over. Then prints the tally. With --order: one run of order_run.h.

#include <stdlib.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/e2e/chaos/chaos_run.h"
#include "tests/e2e/chaos/order_run.h"

ABSL_FLAG(std::string, bin, "bazel-bin", "folder with services/… and tests/e2e/chaos");
ABSL_FLAG(uint64_t, seed, 1, "of the first run; those after it count up");
ABSL_FLAG(int, kills, 25, "runs are made until so many processes were killed");
ABSL_FLAG(int, kills_of_run, 25, "with SIGKILL, beside pauses, orderly ends and cuts");
ABSL_FLAG(bool, replicated, false, "three stores that share a log in PostgreSQL, with its standby");
ABSL_FLAG(int, faults, 30, "with --replicated: runs are made until there were so many faults");
ABSL_FLAG(int, faults_of_run, 30, "with --replicated");
ABSL_FLAG(int, event_users, 2, "who create, replace, move and cancel one-off events");
ABSL_FLAG(bool, order, false, "one run with events that keep their order, and --kills kills");
ABSL_FLAG(size_t, keys, 1000, "with --order");
ABSL_FLAG(size_t, events_of_key, 100, "with --order");
ABSL_FLAG(absl::Duration, length, absl::Seconds(90), "of the faults of one run");
ABSL_FLAG(double, minutes, 0, "no run begins later than this; 0: no bound");
ABSL_FLAG(bool, keep, false, "keep data and logs also of runs without a violation");
ABSL_FLAG(std::string, folder, "", "for data and logs; empty: a temporary one");

namespace escapement::chaos {
namespace {

struct Tally {
  int runs = 0, failed = 0, kills = 0, pauses = 0, terminations = 0, cuts = 0, promotions = 0;
  uint64_t terms = 0, probes_answered = 0, probes_refused = 0;
  int restores = 0;
  absl::Duration silence;
  uint64_t calls = 0, receipts = 0, again = 0, outcomes = 0, commits = 0, undone = 0;
  std::map<std::string, int> faults;
  std::map<std::string, uint64_t> repeats;
  std::map<std::string, int> violations;  // by rule
  absl::Duration took;

  void Add(const ChaosResult& result) {
    ++runs;
    failed += result.violations.empty() ? 0 : 1;
    kills += result.kills;
    pauses += result.pauses;
    terminations += result.terminations;
    cuts += result.cuts;
    promotions += result.promotions;
    terms += result.terms;
    probes_answered += result.probes_answered;
    probes_refused += result.probes_refused;
    restores += result.restores;
    silence = std::max(silence, result.silence);
    calls += result.calls;
    receipts += result.history.receipts.size();
    again += result.again;
    outcomes += result.history.done.size();
    commits += result.history.commits.size();
    undone += result.undone;
    took += result.took;
    for (const auto& [fault, count] : result.faults) faults[fault] += count;
    for (const auto& [cause, count] : result.repeats) repeats[cause] += count;
    for (const auto& violation : result.violations) ++violations[violation.rule];
  }

  int all() const { return kills + pauses + terminations + cuts + promotions; }
  bool Enough() const {
    return absl::GetFlag(FLAGS_replicated) ? all() >= absl::GetFlag(FLAGS_faults)
                                           : kills >= absl::GetFlag(FLAGS_kills);
  }

  void Print() const {
    std::printf("runs %d in %s, of which failed %d\n", runs,
                absl::FormatDuration(absl::Trunc(took, absl::Seconds(1))).c_str(), failed);
    std::printf("kills %d, pauses %d, orderly ends %d, cuts %d, promotions %d: %d faults\n", kills,
                pauses, terminations, cuts, promotions, all());
    if (absl::GetFlag(FLAGS_replicated)) {
      std::printf("no store answered for %s at most\n",
                  absl::FormatDuration(absl::Trunc(silence, absl::Milliseconds(100))).c_str());
      std::printf("terms %llu, restores %d, calls of single stores: %llu answered, %llu refused\n",
                  static_cast<unsigned long long>(terms), restores,
                  static_cast<unsigned long long>(probes_answered),
                  static_cast<unsigned long long>(probes_refused));
    }
    for (const auto& [fault, count] : faults) std::printf("  %5d  %s\n", count, fault.c_str());
    std::printf("users' calls %llu, receipts %llu, of them again %llu, rows of outcomes %llu\n",
                static_cast<unsigned long long>(calls), static_cast<unsigned long long>(receipts),
                static_cast<unsigned long long>(again), static_cast<unsigned long long>(outcomes));
    for (const auto& [cause, count] : repeats)
      std::printf("  %5llu  %s\n", static_cast<unsigned long long>(count), cause.c_str());
    std::printf("commits %llu, and %llu that were decided and never durable\n",
                static_cast<unsigned long long>(commits), static_cast<unsigned long long>(undone));
    for (const char* rule :
         {"lost",        "early",         "delivered", "doubled", "cap",      "sink",
          "token_end",   "stale_epoch",   "clock",     "times",   "overlap",  "checkpoint",
          "claimed",     "final",         "overdue",   "paused",  "requests", "answer",
          "process",     "rest",          "receipts",  "log",     "copy",     "answer_stale",
          "answer_lost", "answer_phantom"}) {
      const auto count = violations.find(rule);
      std::printf("%s %d  ", rule, count == violations.end() ? 0 : count->second);
    }
    std::printf("\n");
  }
};

int OrderMain(const std::string& folder) {
  const OrderOptions options{.bin = absl::GetFlag(FLAGS_bin),
                             .folder = folder,
                             .keys = absl::GetFlag(FLAGS_keys),
                             .events_of_key = absl::GetFlag(FLAGS_events_of_key),
                             .kills = static_cast<size_t>(absl::GetFlag(FLAGS_kills))};
  const auto result = RunOrder(options);
  if (!result.ok()) {
    std::printf("%s; logs in %s\n", result.status().ToString().c_str(), folder.c_str());
    return 1;
  }
  std::printf("%s", Report(options, *result).c_str());
  if (!result->verdict.violations.empty()) return 1;
  if (!absl::GetFlag(FLAGS_keep)) std::filesystem::remove_all(folder);
  return 0;
}

int Main() {
  std::string folder = absl::GetFlag(FLAGS_folder);
  if (folder.empty()) {
    folder = std::filesystem::temp_directory_path() / "chaos-XXXXXX";
    if (mkdtemp(folder.data()) == nullptr) return 2;
  }
  if (absl::GetFlag(FLAGS_order)) return OrderMain(folder);
  Tally tally;
  const absl::Time begin = absl::Now();
  const double minutes = absl::GetFlag(FLAGS_minutes);
  for (uint64_t seed = absl::GetFlag(FLAGS_seed); !tally.Enough(); ++seed) {
    if (minutes > 0 && absl::Now() - begin > absl::Minutes(minutes)) break;
    ChaosOptions options;
    options.bin = absl::GetFlag(FLAGS_bin);
    options.folder = absl::StrCat(folder, "/", seed);
    std::filesystem::create_directories(options.folder);
    options.plan.seed = seed;
    options.plan.end = absl::GetFlag(FLAGS_length);
    options.plan.kills = absl::GetFlag(FLAGS_kills_of_run);
    options.event_users = absl::GetFlag(FLAGS_event_users);
    options.replica_faults =
        absl::GetFlag(FLAGS_replicated) ? absl::GetFlag(FLAGS_faults_of_run) : 0;
    const auto result = RunChaos(options);
    if (!result.ok()) {
      std::printf("seed %llu: %s; logs in %s\n", static_cast<unsigned long long>(seed),
                  result.status().ToString().c_str(), options.folder.c_str());
      return 1;
    }
    tally.Add(*result);
    std::printf("%s", Report(options, *result).c_str());
    std::fflush(stdout);
    if (result->violations.empty() && !absl::GetFlag(FLAGS_keep))
      std::filesystem::remove_all(options.folder);
  }
  tally.Print();
  std::error_code ignored;
  std::filesystem::remove(folder, ignored);  // succeeds only if the folder is empty
  return tally.failed == 0 && tally.runs > 0 ? 0 : 1;
}

}  // namespace
}  // namespace escapement::chaos

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return escapement::chaos::Main();
}
