#include "tests/e2e/chaos/chaos_run.h"

#include <poll.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/kv/wire/grpc_kv_store.h"
#include "common/rpc/channel.h"
#include "tests/e2e/chaos/commit_file.h"
#include "tests/e2e/chaos/end_state.h"
#include "tests/e2e/chaos/judge_chaos.h"
#include "tests/e2e/chaos/live_cast.h"
#include "tests/e2e/chaos/live_world.h"
#include "tests/e2e/chaos/shaken_platform.h"
#include "tests/e2e/chaos/true_receipts.h"
#include "tests/simulation/record/commit_log.h"
#include "tests/simulation/record/times_log.h"

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

class Run {
 public:
  explicit Run(const ChaosOptions& options)
      : options_(options), live_(options.plan.seed), cast_(live_, CastOptions(options)) {}

  absl::StatusOr<ChaosResult> Do() {
    const absl::Time begin = absl::Now();
    if (absl::Status status = cast_.Receive(); !status.ok()) return status;
    platform_ = std::make_unique<ShakenPlatform>(
        ShakenPlatform::Options{options_.bin, options_.folder, cast_.port().address()});
    if (absl::Status status = platform_->Start(); !status.ok()) return status;
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
    if (absl::Status status = Judge(fates); !status.ok()) return status;
    result_.took = absl::Now() - begin;
    return std::move(result_);
  }

 private:
  static LiveCast::Options CastOptions(const ChaosOptions& options) {
    LiveCast::Options cast;
    // About two calls of each user in three seconds, until the calm is over.
    cast.event_calls = static_cast<int>((options.plan.end + options.calm) / absl::Seconds(3));
    return cast;
  }

  void Complain(const std::string& rule, const std::string& what) {
    result_.violations.push_back({rule, what});
  }

  void Count(const Fault& fault) {
    switch (fault.kind) {
      case Fault::Kind::kKill:
        ++result_.kills;
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

  // Makes the faults of the plan happen. A fault that has begun is ended even if another step
  // fails.
  absl::Status Shake() {
    PlanOptions plan = options_.plan;
    plan.processes = platform_->processes();
    plan.links = platform_->links();
    struct Step {
      absl::Duration at;
      bool begins = false;
      const Fault* fault = nullptr;
    };
    const std::vector<Fault> faults = PlanChaos(plan);
    std::vector<Step> steps;
    for (const Fault& fault : faults) {
      steps.push_back({fault.begin, true, &fault});
      steps.push_back({fault.end, false, &fault});
    }
    std::stable_sort(steps.begin(), steps.end(),
                     [](const Step& a, const Step& b) { return a.at < b.at; });
    absl::Status first;
    std::set<const Fault*> begun;
    const absl::Time start = absl::Now();
    for (const Step& step : steps) {
      if (step.begins && !first.ok()) continue;
      if (!step.begins && begun.count(step.fault) == 0) continue;
      WaitUntil(start + step.at);
      absl::Status status =
          step.begins ? platform_->Begin(*step.fault) : platform_->End(*step.fault);
      if (step.begins && status.ok()) {
        begun.insert(step.fault);
        Count(*step.fault);
      }
      first.Update(status);
    }
    return first;
  }

  void Settle() {
    live_.Call([&] {
      cast_.Calm();
      result_.history.calm = live_.world().Now() + kAftermath;
    });
    WaitUntil(absl::Now() + options_.calm);
    live_.Call([&] { cast_.Finish(); });
    kv::GrpcKvStore store(NewChannel(platform_->address("store")));
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

  absl::Status Judge(const std::vector<Fate>& fates) {
    simulation::History& history = result_.history;
    history.seed = options_.plan.seed;
    history.calendar = true;
    cast_.Tell(&history, &result_.violations);
    auto state = ReadEndState(platform_->data());
    if (!state.ok()) return state.status();
    auto files = ReadCommitFiles(platform_->commits(), state->seq);
    if (!files.ok()) return files.status();
    for (const LoggedCommit& commit : files->commits)
      history.commits.push_back(simulation::ReadCommit(commit.record, commit.time));
    history.done = simulation::ReadDone(state->disk);
    history.leftover = simulation::ReadLeftover(state->disk);
    for (std::string& row : simulation::ReadTimesLeftover(state->disk))
      history.leftover.push_back(std::move(row));
    const auto add = [&](std::vector<simulation::Violation> violations) {
      for (simulation::Violation& violation : violations)
        result_.violations.push_back(std::move(violation));
    };
    add(TellTrueReceipts(cast_.attempts(), fates, &history));
    add(JudgeChaos(history));
    result_.repeats = CountRepeats(history);
    result_.calls = cast_.calls();
    result_.undone = files->undone;
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
  constexpr size_t kShownMax = 40;
  std::string report = absl::StrCat(
      "seed ", options.plan.seed, ": ", result.kills, " kills, ", result.pauses, " pauses, ",
      result.terminations, " orderly ends, ", result.cuts, " cuts, ", result.calls, " calls, ",
      result.history.receipts.size(), " receipts (", result.again, " again), ",
      result.history.works.size(), " of them work, ", result.history.commits.size(), " commits (",
      result.undone, " undone), ", absl::FormatDuration(absl::Trunc(result.took, absl::Seconds(1))),
      ", ", result.violations.size(), " violations\n");
  if (result.violations.empty()) return report;
  for (size_t i = 0; i < std::min(kShownMax, result.violations.size()); ++i)
    absl::StrAppend(&report, "  ", result.violations[i].rule, ": ", result.violations[i].what,
                    "\n");
  absl::StrAppend(&report, "logs and data: ", options.folder,
                  "\nthe same plan again: tools/dev chaos --seed=", options.plan.seed,
                  " --kills_of_run=", options.plan.kills,
                  " --length=", absl::FormatDuration(options.plan.end), "\n");
  return report;
}

}  // namespace escapement::chaos
