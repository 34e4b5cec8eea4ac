#include "tests/e2e/chaos/chaos_run.h"

#include <poll.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/kv/wire/leader_seeking_kv_store.h"
#include "common/rpc/channel.h"
#include "common/runtime/system_runtime.h"
#include "tests/e2e/chaos/base/commit_file.h"
#include "tests/e2e/chaos/judge_chaos.h"
#include "tests/e2e/chaos/live_cast.h"
#include "tests/e2e/chaos/live_world.h"
#include "tests/e2e/chaos/replicated/check_answers.h"
#include "tests/e2e/chaos/replicated/replica_plan.h"
#include "tests/e2e/chaos/replicated/replicated_log.h"
#include "tests/e2e/chaos/shaken_platform.h"
#include "tests/simulation/record/commit_log.h"

namespace escapement::chaos {
namespace {

// The only way in which a run waits for time: until a fault is due, or until the next poll.
void WaitUntil(absl::Time time) {
  while (true) {
    const absl::Duration left = time - absl::Now();
    if (left <= absl::ZeroDuration()) return;
    poll(nullptr, 0, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
  }
}
// How long processes may need after the last fault to start, and leases to find new owners.
constexpr absl::Duration kAftermath = absl::Seconds(15);
constexpr absl::Duration kAskAgain = absl::Milliseconds(200);
// How long a fault may wait until it is possible (a store leads, and the standby is synchronous)
// while no other fault begins or ends.
constexpr absl::Duration kPossibleWithin = absl::Seconds(60);

// The longest time in which no store answered anybody.
absl::Duration LongestSilence(const std::vector<ProbeAnswer>& answers) {
  std::vector<absl::Time> times;
  for (const ProbeAnswer& answer : answers) times.push_back(answer.answered);
  std::sort(times.begin(), times.end());
  absl::Duration longest;
  for (size_t i = 1; i < times.size(); ++i) longest = std::max(longest, times[i] - times[i - 1]);
  return longest;
}

int CountLines(const std::string& path, absl::string_view text) {
  std::ifstream in(path);
  int count = 0;
  for (std::string line; std::getline(in, line);) count += absl::StrContains(line, text) ? 1 : 0;
  return count;
}

class Run {
 public:
  explicit Run(const ChaosOptions& options)
      : options_(options), live_(options.plan.seed), cast_(live_, CastOptions(options)) {}

  absl::StatusOr<ChaosResult> Do() {
    const absl::Time begin = absl::Now();
    RETURN_IF_ERROR(cast_.Receive());
    platform_ = std::make_unique<ShakenPlatform>(ShakenPlatform::Options{
        options_.bin, options_.folder, cast_.port().address(), options_.replica_faults > 0});
    RETURN_IF_ERROR(platform_->Start());
    cast_.ConnectTo({{platform_->address("master"), platform_->address("master.2")},
                     {platform_->address("token_manager"), platform_->address("token_manager.2")},
                     platform_->consumers()});
    result_.history.begin = live_.world().Now();
    cast_.Start();
    live_.Start();
    if (absl::Status status = Shake(); !status.ok()) Complain("process", status.ToString());
    Settle();
    if (absl::Status status = platform_->Stop(); !status.ok())
      Complain("process", status.ToString());
    live_.Call([&] { result_.history.end = live_.world().Now(); });
    const std::vector<Fate> fates = cast_.port().Fates();
    live_.Stop();
    RETURN_IF_ERROR(Judge(fates));
    result_.took = absl::Now() - begin;
    return std::move(result_);
  }

 private:
  static LiveCast::Options CastOptions(const ChaosOptions& options) {
    LiveCast::Options cast;
    // About two calls of each user in three seconds, until the calm is over.
    cast.event_calls = static_cast<int>((options.plan.end + options.calm) / absl::Seconds(3));
    cast.event_users = options.event_users;
    cast.owners_begin = options.plan.end / 2;
    return cast;
  }

  void Complain(const std::string& rule, const std::string& what) {
    result_.violations.push_back({rule, what});
  }

  void Count(const Fault& fault) {
    switch (fault.kind) {
      case Fault::Kind::kKill:
      case Fault::Kind::kForget:
        ++result_.kills;
        break;
      case Fault::Kind::kPromote:
      case Fault::Kind::kSplit:
        ++result_.promotions;
        break;
      case Fault::Kind::kPause:
        ++result_.pauses;
        break;
      case Fault::Kind::kTerminate:
        ++result_.terminations;
        break;
      case Fault::Kind::kCut:
        ++result_.cuts;
    }
    const std::string text = Describe(fault);
    ++result_.faults[text.substr(0, text.find(" for "))];
  }

  std::vector<Fault> Plan() const {
    PlanOptions plan = options_.plan;
    if (options_.replica_faults > 0)
      return PlanReplicaChaos({plan.seed, options_.replica_faults, plan.begin, plan.end});
    plan.processes = platform_->processes();
    plan.links = platform_->links();
    return PlanChaos(plan);
  }

  // Makes the faults of the plan happen. A fault that is not possible yet is tried again, and then
  // ends as much later as it began. A fault that has begun is ended even if another step fails.
  absl::Status Shake() {
    struct Step {
      bool begins = false;
      const Fault* fault = nullptr;
    };
    const std::vector<Fault> faults = Plan();
    std::multimap<absl::Duration, Step> steps;
    for (const Fault& fault : faults) steps.insert({fault.begin, {true, &fault}});
    absl::Status first;
    // For those who look into a failed run.
    std::ofstream notes(absl::StrCat(options_.folder, "/faults.log"));
    const absl::Time start = absl::Now();
    absl::Time last_step = start;
    while (!steps.empty()) {
      const auto [at, step] = *steps.begin();
      steps.erase(steps.begin());
      if (step.begins && !first.ok()) continue;
      WaitUntil(start + at);
      const Fault& fault = *step.fault;
      absl::Status status = step.begins ? platform_->Begin(fault) : platform_->End(fault);
      if (step.begins && absl::IsUnavailable(status) && absl::Now() - last_step < kPossibleWithin) {
        steps.insert({std::max(absl::Now() - start, at) + kAskAgain, step});
        continue;
      }
      if (step.begins && status.ok()) {
        steps.insert({fault.end + (at - fault.begin), {false, &fault}});
        Count(fault);
      }
      last_step = absl::Now();
      notes << absl::FormatTime(absl::RFC3339_full, absl::Now(), absl::UTCTimeZone())
            << (step.begins ? " begins: " : " ended: ") << Describe(fault)
            << (status.ok() ? std::string() : " " + status.ToString()) << std::endl;
      if (!status.ok())
        status = absl::Status(status.code(), absl::StrCat(Describe(fault), ": ", status.message()));
      first.Update(status);
    }
    if (platform_->replicated() != nullptr) first.Update(platform_->replicated()->Calm());
    return first;
  }

  void Settle() {
    live_.Call([&] {
      cast_.Calm();
      result_.history.calm = live_.world().Now() + kAftermath;
    });
    WaitUntil(absl::Now() + options_.calm);
    live_.Call([&] { cast_.Finish(); });
    SystemRuntime runtime;
    kv::LeaderSeekingKvStore store(
        runtime, {.addresses = absl::StrSplit(platform_->stores(), ','),
                  .connect = [](const kv::StoreAddress& to) { return NewChannel(to.target); }});
    const absl::Time deadline = absl::Now() + options_.settle_max;
    while (absl::Now() < deadline) {
      bool finished = false;
      live_.Call([&] { finished = cast_.finished(); });
      if (finished && Empty(store)) return;
      WaitUntil(absl::Now() + kAskAgain);
    }
    Complain("rest", absl::StrCat("not everything has come to rest within ",
                                  absl::FormatDuration(options_.settle_max)));
  }

  static bool Empty(kv::KvStore& store) {
    kv::MemDisk disk;
    for (kv::ColumnFamily cf :
         {kv::ColumnFamily::kEvents, kv::ColumnFamily::kInflight, kv::ColumnFamily::kParked,
          kv::ColumnFamily::kWaiting, kv::ColumnFamily::kGrants, kv::ColumnFamily::kCheckpoints}) {
      if (!ReadFamily(store, cf, &disk).ok()) return false;
    }
    return simulation::ReadLeftover(disk).empty() && simulation::ReadTimesLeftover(disk).empty();
  }

  void Add(std::vector<simulation::Violation> violations) {
    for (simulation::Violation& violation : violations)
      result_.violations.push_back(std::move(violation));
  }

  // Reads the end state and the commits of one store.
  absl::Status ReadOneStore(EndState* end, CommitFiles* files) {
    ASSIGN_OR_RETURN(auto state, ReadEndState(platform_->data()));
    *end = std::move(state);
    ASSIGN_OR_RETURN(auto read, ReadCommitFiles(platform_->commits(), end->seq));
    *files = std::move(read);
    return absl::OkStatus();
  }

  // Reads the same from the log of a replicated store, and judges log, copies and probes.
  absl::Status ReadReplicas(const ShakenStores& stores, EndState* end, CommitFiles* files) {
    ASSIGN_OR_RETURN(const auto rows, ReadLogRows(stores.postgres_url()));
    Add(CheckLogRows(rows));
    ASSIGN_OR_RETURN(auto state, StateOf(rows));
    *end = std::move(state);
    auto commits = CommitsOf(rows, platform_->commits());
    if (!commits.ok()) Complain("log", commits.status().ToString());
    if (commits.ok()) *files = *std::move(commits);
    for (const std::string& store : stores.names()) {
      ASSIGN_OR_RETURN(auto found, CheckCopy(rows, stores.data(store)));
      Add(std::move(found));
    }
    const std::vector<ProbeAnswer> answers = stores.probes().answers();
    Add(CheckAnswers(answers, files->commits));
    std::set<uint64_t> terms;
    for (const kv::LogRow& row : rows) terms.insert(row.epoch);
    result_.terms = terms.size() - 1;  // row 0 belongs to none
    result_.probes_answered = answers.size();
    result_.silence = LongestSilence(answers);
    result_.probes_refused = stores.probes().refused();
    result_.probes_refused_late = stores.probes().refused_late();
    for (const std::string& store : stores.names())
      result_.restores +=
          CountLines(absl::StrCat(options_.folder, "/", store, ".log"), "restored from a snapshot");
    return absl::OkStatus();
  }

  absl::Status Judge(const std::vector<Fate>& fates) {
    simulation::History& history = result_.history;
    history.seed = options_.plan.seed;
    history.calendar = true;
    cast_.Tell(&history, &result_.violations);
    EndState end;
    CommitFiles files;
    const absl::Status read = platform_->replicated() == nullptr
                                  ? ReadOneStore(&end, &files)
                                  : ReadReplicas(*platform_->replicated(), &end, &files);
    if (!read.ok()) return read;
    for (const LoggedCommit& commit : files.commits)
      history.commits.push_back(simulation::ReadCommit(commit.record, commit.time));
    history.done = simulation::ReadDone(end.disk);
    history.leftover = simulation::ReadLeftover(end.disk);
    for (std::string& row : simulation::ReadTimesLeftover(end.disk))
      history.leftover.push_back(std::move(row));
    Add(TellTrueReceipts(cast_.attempts(), fates, &history));
    Add(JudgeChaos(history));
    result_.repeats = CountRepeats(history);
    result_.calls = cast_.calls();
    result_.undone = files.undone;
    std::set<std::string> arrived;
    for (const simulation::Receipt& receipt : history.receipts)
      result_.again += arrived.insert(receipt.event_id).second ? 0 : 1;
    return absl::OkStatus();
  }

  const ChaosOptions& options_;
  ChaosResult result_;
  LiveWorld live_;
  LiveCast cast_;
  std::unique_ptr<ShakenPlatform> platform_;
};

}  // namespace

absl::StatusOr<ChaosResult> RunChaos(const ChaosOptions& options) { return Run(options).Do(); }

std::string Report(const ChaosOptions& options, const ChaosResult& result) {
  constexpr int kShownMax = 8;  // violations of each rule
  std::string report = absl::StrCat(
      "seed ", options.plan.seed, ": ", result.kills, " kills, ", result.pauses, " pauses, ",
      result.terminations, " orderly ends, ", result.cuts, " cuts, ",
      options.replica_faults > 0
          ? absl::StrCat(result.promotions, " promotions, ", result.terms, " terms, ",
                         result.probes_answered, " probes answered and ", result.probes_refused,
                         " refused (", result.probes_refused_late, " late), ", result.restores,
                         " restores, silent for ",
                         absl::FormatDuration(absl::Trunc(result.silence, absl::Milliseconds(100))),
                         " at most, ")
          : "",
      result.calls, " calls, ", result.history.receipts.size(), " receipts (", result.again,
      " again), ", result.history.works.size(), " of them work, ", result.history.commits.size(),
      " commits (", result.undone, " undone), ",
      absl::FormatDuration(absl::Trunc(result.took, absl::Seconds(1))), ", ",
      result.violations.size(), " violations\n");
  if (result.violations.empty()) return report;
  std::map<std::string, int> shown;
  for (const simulation::Violation& violation : result.violations) {
    if (++shown[violation.rule] <= kShownMax)
      absl::StrAppend(&report, "  ", violation.rule, ": ", violation.what, "\n");
  }
  absl::StrAppend(&report, "logs and data: ", options.folder,
                  "\nthe same plan again: tools/dev chaos --seed=", options.plan.seed,
                  options.replica_faults > 0
                      ? absl::StrCat(" --replicated --faults_of_run=", options.replica_faults)
                      : absl::StrCat(" --kills_of_run=", options.plan.kills),
                  " --length=", absl::FormatDuration(options.plan.end), "\n");
  return report;
}

void KeepLogs(const std::string& folder) {
  const char* outputs = getenv("TEST_UNDECLARED_OUTPUTS_DIR");
  if (outputs == nullptr) return;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".log")
      std::filesystem::copy(entry.path(), outputs,
                            std::filesystem::copy_options::overwrite_existing);
  }
}

}  // namespace escapement::chaos
