#include "tests/simulation/coverage.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tests/simulation/checkers/checkers.h"

namespace escapement::simulation {

namespace {

// These are not required, since the platform never does them:
// - redrives (W4): a backfill fires only occurrences that have no outcome or were skipped
// - the reasons "quota", "deadline" and "tz_change"
constexpr const char* kRequired[] = {
    "window W1: sent, its end not committed",
    "window W2: the lease was lost between check and arrival",
    "window W3: the commit of its end was of unknown result",
    "repeat: after a failure",
    "repeat: after no answer",
    "repeat: the work had failed",
    "repeat: the hold time ran out",
    "skipped: misfire",
    "skipped: misfire, a summary",
    "skipped: overlap",
    "skipped: paused",
    "skipped: paused, a summary",
    "skipped: deleted",
    "skipped: superseded",
    "skipped: a row",
    "skipped: a whole occurrence",
    "cancelled: overlap",
    "cancelled: by CancelRun",
    "cancelled: by CancelEvent",
    "expired: window_closed",
    "failed: refused by the consumer, or out of attempts",
    "failed: not tried again past the next occurrence",
    "failed: hold_expired",
    "failed: quarantined",
    "succeeded",
    "ended: a one-off event",
    "taken back by a backfill",
    "retry: by a handler",
    "retry: of a throttled event",
    "parked: a row",
    "token: granted",
    "token: granted again after its handler was lost (RESEND)",
    "token: held after delivery (DELIVERED)",
    "token: free after delivery (SUCCEEDED)",
    "token: free after a failure (RETRY)",
    "token: free after a last failure (FAILED)",
    "token: given back unsent (RETURNED)",
    "token: the target could not be reached",
    "token: hold time over",
    "token: completed",
    "token: completed as failed",
    "token: completed as failed for good",
    "token: a completion that was stored for the owner, or came too late",
    "token: a report by another owner than the policy's",
    "policy: a limit changed",
    "policy: paused",
    "unknown commit: it had been applied",
    "unknown commit: it was applied by a later try",
    "unknown commit: it did not apply at all",
    "takeover: partition",
    "takeover: policy_shard",
    "takeover: queue_shard",
    "schedule: created",
    "schedule: updated",
    "schedule: updated while paused",
    "schedule: paused",
    "schedule: resumed",
    "schedule: deleted",
    "schedule: deleted while paused",
    "schedule: triggered",
    "schedule: backfilled",
    "schedule: made anew under its name",
    "one-off event: created",
    "one-off event: cancelled",
    "one-off event: cancelled in vain",
    "one-off event: replaced",
    "one-off event: of a later generation",
    "checkpoint: emitted late",
    "delivered: http",
    "delivered: grpc",
    "delivered: sqs",
    "delivered: kafka",
    "delivered: email",
    "delivered: ping",
    "batch: one entry failed, another did not",
    "batch: an entry is missing in the answer",
    "batch: no answer at all",
    "an answer after the attempt was given up",
};

class Counter {
 public:
  explicit Counter(const History& history) : history_(history) {}

  Coverage Run() {
    for (const Repeat& repeat : ExplainRepeats(history_)) Count(repeat.cause);
    for (const Commit& commit : history_.commits) CountCommit(commit);
    for (const Acknowledged& told : history_.acknowledged) CountTold(told);
    for (const Work& work : history_.works) CountWork(work);
    for (const DoneRow& row : history_.done) {
      if (!row.uid.empty()) continue;
      Add("ended: a one-off event");
      CountEnd(row.outcome, row.reason, false);
    }
    for (const ScheduleLife& life : history_.schedules) CountLife(life);
    CountReceipts();
    for (const OneOff& one_off : history_.one_offs) {
      Add("one-off event: created", one_off.created);
      Add("one-off event: cancelled", one_off.cancelled);
      Add("one-off event: cancelled in vain", one_off.cancel_called && !one_off.cancelled);
      Add("one-off event: replaced", one_off.revision > 0);
      Add("one-off event: of a later generation", one_off.generation > 0);
    }
    return std::move(coverage_);
  }

 private:
  void Add(const char* name, bool happened = true) {
    if (happened) coverage_.Add(name);
  }

  void Count(RepeatCause cause) {
    switch (cause) {
      case RepeatCause::kFailed:
        return Add("repeat: after a failure");
      case RepeatCause::kNoAnswer:
        return Add("repeat: after no answer");
      case RepeatCause::kWorkFailed:
        return Add("repeat: the work had failed");
      case RepeatCause::kHoldExpired:
        return Add("repeat: the hold time ran out");
      case RepeatCause::kEndNotCommitted:
        return Add("window W1: sent, its end not committed");
      case RepeatCause::kLeaseLost:
        return Add("window W2: the lease was lost between check and arrival");
      case RepeatCause::kEndUnknown:
        return Add("window W3: the commit of its end was of unknown result");
    }
  }

  void CountCommit(const Commit& commit) {
    for (const TimesWrite& write : commit.times) {
      if (const auto* outcome = std::get_if<OutcomeWrite>(&write)) CountOutcome(*outcome);
      const auto* emission = std::get_if<EmissionWrite>(&write);
      Add("checkpoint: emitted late",
          emission != nullptr && !emission->triggered &&
              emission->nominal + absl::Seconds(5) < commit.store_time && !commit.fence.empty());
    }
    for (const QueueWrite& write : commit.queue) {
      const auto* row = std::get_if<QueuePut>(&write);
      if (row == nullptr) continue;
      Add("retry: by a handler", row->table == RowWrite::Table::kEvents && row->attempts > 0);
      Add("retry: of a throttled event",
          row->table == RowWrite::Table::kWaiting && row->attempts > 0);
      Add("parked: a row", row->table == RowWrite::Table::kParked);
    }
    for (const ThrottleWrite& write : commit.throttle)
      std::visit([this](const auto& one) { Take(one); }, write);
    for (const LeaseWrite& lease : commit.leases) CountLease(lease);
    seqs_[commit.seq] = &commit;
  }

  void CountOutcome(const OutcomeWrite& outcome) {
    if (outcome.deleted) return Add("taken back by a backfill");
    Add("skipped: a whole occurrence", outcome.run_skipped && outcome.occurrences == 1);
    Add("skipped: a row", outcome.outcome == Outcome::kSkipped && !outcome.run_skipped);
    CountEnd(outcome.outcome, outcome.reason, outcome.occurrences > 1);
  }

  void CountEnd(Outcome outcome, const std::string& reason, bool summary) {
    switch (outcome) {
      case Outcome::kNone:
        return;
      case Outcome::kSucceeded:
        return Add("succeeded");
      case Outcome::kSkipped:
        return coverage_.Add(absl::StrCat("skipped: ", reason, summary ? ", a summary" : ""));
      case Outcome::kExpired:
        return coverage_.Add(absl::StrCat("expired: ", reason));
      case Outcome::kCancelled:
        return coverage_.Add(absl::StrCat("cancelled: ", reason.empty()          ? "by CancelEvent"
                                                         : reason == "cancelled" ? "by CancelRun"
                                                                                 : reason));
      case Outcome::kFailed:
        if (absl::StrContains(reason, "past the next occurrence"))
          return Add("failed: not tried again past the next occurrence");
        if (absl::StrContains(reason, "hold_expired")) return Add("failed: hold_expired");
        if (absl::StrContains(reason, "quarantined")) return Add("failed: quarantined");
        return Add("failed: refused by the consumer, or out of attempts");
    }
  }

  void CountLease(const LeaseWrite& lease) {
    uint64_t& epoch = epochs_[lease.lease];
    if (epoch > 0 && lease.epoch > epoch)
      coverage_.Add(absl::StrCat("takeover: ", lease.lease.substr(0, lease.lease.find('/'))));
    epoch = std::max(epoch, lease.epoch);
  }

  void Take(const CountsWrite&) {}
  void Take(const PolicyWrite& policy) {
    if (policy.deleted) return;
    const auto former = policies_.find(policy.policy);
    if (former != policies_.end()) {
      Add("policy: a limit changed", former->second.max_concurrent != policy.max_concurrent ||
                                         former->second.max_per_second != policy.max_per_second);
      Add("policy: paused", policy.paused && !former->second.paused);
    }
    policies_[policy.policy] = policy;
  }
  void Take(const ScheduleStateWrite&) {}
  void Take(const GrantWrite& grant) {
    Add("token: granted",
        !grant.deleted && grants_
                              .insert(absl::StrCat(grant.name.policy, " ", grant.name.epoch, ".",
                                                   grant.name.number))
                              .second);
  }
  void Take(const RowWrite& row) {
    Add("token: hold time over", !row.deleted && absl::StrContains(row.last_error, "hold_expired"));
  }
  void Take(const ClaimWrite&) {}
  void Take(const EndWrite& end) {
    Add("token: hold time over", absl::StrContains(end.reason, "hold_expired"));
  }
  void Take(const ReportWrite& report) {
    Add("token: the target could not be reached", report.unreachable);
    static constexpr std::pair<const char*, const char*> kKinds[] = {
        {"DELIVERED", "token: held after delivery (DELIVERED)"},
        {"SUCCEEDED", "token: free after delivery (SUCCEEDED)"},
        {"FAILED", "token: free after a last failure (FAILED)"},
        {"RETRY", "token: free after a failure (RETRY)"},
        {"RETURNED", "token: given back unsent (RETURNED)"},
        {"RESEND", "token: granted again after its handler was lost (RESEND)"}};
    for (const auto& [kind, name] : kKinds) {
      if (report.kind == kind) return Add(name);
    }
    Add("token: a report by another owner than the policy's");
  }

  void CountTold(const Acknowledged& told) {
    if (told.tries < 2) return;
    if (!told.applied) return Add("unknown commit: it did not apply at all");
    const auto commit = seqs_.find(told.seq);
    if (commit == seqs_.end()) return;
    Add(commit->second->time < told.last_called ? "unknown commit: it had been applied"
                                                : "unknown commit: it was applied by a later try");
  }

  void CountWork(const Work& work) {
    if (!work.on_release || work.word == WorkWord::kNone) return;
    if (!work.took_effect)
      return Add("token: a completion that was stored for the owner, or came too late");
    Add(work.word == WorkWord::kSucceeded ? "token: completed"
        : work.word == WorkWord::kFailed  ? "token: completed as failed"
                                          : "token: completed as failed for good");
  }

  void CountReceipts() {
    std::map<uint64_t, std::set<SendResult>> batches;  // by number
    for (const Receipt& receipt : history_.receipts) {
      if (receipt.result == SendResult::kAccepted)
        coverage_.Add(absl::StrCat("delivered: ", receipt.kind));
      Add("an answer after the attempt was given up", receipt.late);
      if (receipt.batch > 0) batches[receipt.batch].insert(receipt.result);
    }
    for (const auto& [number, results] : batches) {
      const bool accepted = results.contains(SendResult::kAccepted);
      const bool unknown = results.contains(SendResult::kUnknown);
      const bool failed =
          results.contains(SendResult::kFailed) || results.contains(SendResult::kRejected);
      Add("batch: one entry failed, another did not", accepted && failed);
      Add("batch: an entry is missing in the answer", unknown && (accepted || failed));
      Add("batch: no answer at all", unknown && results.size() == 1);
    }
  }

  void CountLife(const ScheduleLife& life) {
    using Kind = ScheduleChange::Kind;
    bool paused = false;
    for (const ScheduleChange& change : life.changes) {
      switch (change.kind) {
        case Kind::kCreate:
          Add("schedule: created");
          Add("schedule: made anew under its name", !names_.insert(life.id).second);
          break;
        case Kind::kUpdate:
          Add(paused ? "schedule: updated while paused" : "schedule: updated");
          break;
        case Kind::kPause:
          Add("schedule: paused");
          paused = true;
          break;
        case Kind::kResume:
          Add("schedule: resumed");
          paused = false;
          break;
        case Kind::kDelete:
          Add(paused ? "schedule: deleted while paused" : "schedule: deleted");
          break;
      }
    }
    coverage_.counts["schedule: triggered"] += life.triggered.size();
    coverage_.counts["schedule: backfilled"] += life.backfills.size();
  }

  const History& history_;
  Coverage coverage_;
  std::unordered_map<std::string, uint64_t> epochs_;  // by lease
  std::unordered_map<std::string, PolicyWrite> policies_;
  std::unordered_set<std::string> grants_;
  std::unordered_set<std::string> names_;
  std::unordered_map<uint64_t, const Commit*> seqs_;
};

}  // namespace

Coverage CoverageOf(const History& history) { return Counter(history).Run(); }

void Merge(const Coverage& from, Coverage* into) {
  for (const auto& [name, count] : from.counts) into->counts[name] += count;
}

void AddFaults(const std::map<std::string, uint64_t>& faults, Coverage* into) {
  for (const auto& [kind, count] : faults) into->counts[absl::StrCat("fault: ", kind)] += count;
}

std::vector<std::string> Missing(const Coverage& coverage) {
  std::vector<std::string> missing;
  for (const char* name : kRequired) {
    const auto count = coverage.counts.find(name);
    if (count == coverage.counts.end() || count->second == 0) missing.emplace_back(name);
  }
  return missing;
}

std::string Text(const Coverage& coverage) {
  std::string text;
  for (const auto& [name, count] : coverage.counts)
    absl::StrAppend(&text, "  ", name, ": ", count, "\n");
  return text;
}

void Tally::Add(const ScenarioOptions& options, const ScenarioResult& result) {
  ++seeds_;
  if (!result.violations.empty()) failed_.push_back(options.seed);
  simulated_ += result.simulated;
  receipts_ += result.history.receipts.size();
  outcomes_ += result.history.done.size();
  commits_ += result.history.commits.size();
  steps_ += result.events_run;
  killed_ += static_cast<uint64_t>(result.killed);
  Merge(CoverageOf(result.history), &coverage_);
  AddFaults(result.faults, &coverage_);
  for (size_t i = 0; i < kSiteCount; ++i) {
    hits_[i] += result.site_hits[i];
    passages_[i] += result.site_passages[i];
  }
}

std::string Tally::Text(absl::Duration took) const {
  std::string text = absl::StrCat(
      seeds_, " seeds, ", absl::FormatDuration(absl::Trunc(simulated_, absl::Seconds(1))),
      " of simulated time in ", absl::FormatDuration(absl::Trunc(took, absl::Milliseconds(100))),
      " of a core: ", static_cast<int64_t>(absl::FDivDuration(simulated_, took)),
      " times real time\n", receipts_, " receipts, ", outcomes_, " outcomes, ", commits_,
      " commits, ", steps_, " steps, ", killed_, " kills\nwhat has happened:\n",
      simulation::Text(coverage_));
  absl::StrAppend(&text, "perturbation points (hit of passed):");
  for (size_t i = 0; i < kSiteCount; ++i)
    absl::StrAppend(&text, "\n  ", kSites[i].name, ": ", hits_[i], " of ", passages_[i]);
  absl::StrAppend(&text, "\n", failed_.size(), " failed");
  std::vector<uint64_t> failed = failed_;
  std::sort(failed.begin(), failed.end());
  for (uint64_t seed : failed) absl::StrAppend(&text, " ", seed);
  return text + "\n";
}

}  // namespace escapement::simulation
