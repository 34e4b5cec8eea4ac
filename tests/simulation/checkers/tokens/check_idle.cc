#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/simulation/checkers/tokens/token_checks.h"
#include "tests/simulation/record/token_replay.h"

namespace escapement::simulation {
namespace {

// A free token lies idle for at most a second, plus the way to the store.
constexpr absl::Duration kIdleMax = absl::Milliseconds(1050);
// A row that its schedule no longer wants is ended a second after its launch.
constexpr absl::Duration kSupersededAfter = absl::Seconds(1);
// The longest backoff for targets that cannot be reached, plus the time of a probe.
constexpr absl::Duration kPassedOverMax = absl::Seconds(65);

class IdleChecker {
 public:
  explicit IdleChecker(const History& history) : history_(history) {
    for (const ScheduleLife& life : history.schedules) targets_[life.uid] = life.target;
  }

  std::vector<Violation> Run() {
    for (const Commit& commit : history_.commits) {
      const std::set<std::string> touched = Touched(commit);
      if (commit.time > history_.calm) {
        for (const std::string& policy : touched) Check(policy, commit.time);
      }
      for (const LeaseWrite& lease : commit.leases) owners_[lease.lease] = lease.owner;
      Note(commit, replay_.Apply(commit));
      for (const std::string& policy : touched) changed_[policy] = commit.time;
    }
    for (const std::string& policy : known_) Check(policy, history_.end);
    return std::move(violations_);
  }

 private:
  // The policies whose waiting rows or free tokens the commit may change.
  std::set<std::string> Touched(const Commit& commit) {
    std::set<std::string> touched;
    for (const ThrottleWrite& write : commit.throttle) {
      if (const auto* policy = std::get_if<PolicyWrite>(&write)) touched.insert(policy->policy);
      if (const auto* grant = std::get_if<GrantWrite>(&write)) touched.insert(grant->name.policy);
      if (const auto* row = std::get_if<RowWrite>(&write); row != nullptr && !row->policy.empty())
        touched.insert(row->policy);
      if (std::holds_alternative<ScheduleStateWrite>(write) ||
          std::holds_alternative<ReportWrite>(write))
        touched.insert(known_.begin(), known_.end());
    }
    known_.insert(touched.begin(), touched.end());
    return touched;
  }

  void Note(const Commit& commit, const TokenReplay::Changes& changes) {
    for (const ThrottleWrite& write : commit.throttle) {
      if (const auto* report = std::get_if<ReportWrite>(&write)) NoteReport(commit, *report);
      if (const auto* policy = std::get_if<PolicyWrite>(&write)) conforms_.erase(policy->policy);
    }
    for (const FenceSeen& fence : commit.fence) {
      if (!absl::StartsWith(fence.lease, "policy_shard/")) continue;
      for (const TokenReplay::HolderChange& added : changes.added)
        shard_of_[added.grant.policy] = fence.lease;
    }
    for (const TokenReplay::HolderChange& added : changes.added) {
      const std::string& target = target_of_[added.grant] = targets_[added.run.first];
      Outage& outage = OutageOf(added.grant.policy, target);
      if (outage.on) outage.until = std::max(outage.until, commit.time + kPassedOverMax);
      auto policy = replay_.policies().find(added.grant.policy);
      if (policy == replay_.policies().end() || policy->second.max_per_second <= 0) continue;
      // When the whole burst is free again. Until then the rate may allow no grant.
      absl::Time& full = conforms_[added.grant.policy];
      full = std::max(full, commit.time) +
             absl::Seconds(static_cast<double>(added.events.count) / policy->second.max_per_second);
    }
  }

  void NoteReport(const Commit& commit, const ReportWrite& report) {
    auto target = target_of_.find(report.grant);
    if (target == target_of_.end()) return;
    Outage& outage = OutageOf(report.grant.policy, target->second);
    if (report.unreachable) outage = {.on = true, .until = commit.time + kPassedOverMax};
    if (report.delivered) outage = {.on = false, .until = std::min(outage.until, commit.time)};
  }

  // A target that could not be reached, as one owner of policies knows from its own reports. The
  // owner passes it over until `until`, also while a probe is out.
  struct Outage {
    bool on = false;
    absl::Time until = absl::UnixEpoch();
  };
  Outage& OutageOf(const std::string& policy, const std::string& target) {
    return outages_[{owners_[shard_of_[policy]], target}];
  }

  absl::Time PassedOverUntil(const std::string& policy, const std::string& target) {
    if (shard_of_.contains(policy)) return OutageOf(policy, target).until;
    // The policy has granted nothing yet, so its owner is unknown.
    absl::Time until = absl::UnixEpoch();
    for (const auto& [whose, outage] : outages_) {
      if (whose.second == target) until = std::max(until, outage.until);
    }
    return until;
  }

  // Nothing has changed the policy since changed_[name].
  void Check(const std::string& name, absl::Time now) {
    const auto* rows = replay_.waiting(name);
    if (rows == nullptr) return;
    absl::Time free = std::max(history_.calm, changed_[name]);
    auto policy = replay_.policies().find(name);
    if (policy != replay_.policies().end()) {
      const uint64_t m = policy->second.max_concurrent;
      if (policy->second.paused || (m > 0 && replay_.held(name) >= m)) return;
      // Exact for a burst of one. With larger bursts some idle time goes unnoticed.
      if (auto conforms = conforms_.find(name); conforms != conforms_.end())
        free = std::max(free, conforms->second);
    }
    for (const auto& [key, row] : *rows) {
      const absl::Time from =
          std::max({free, ReadyAt(row), PassedOverUntil(name, targets_[row.uid])});
      const absl::Time to = std::min(now, row.closes);
      const bool first_attempt = row.last_error.empty();
      const absl::Time looked_at =
          first_attempt ? std::max(from, row.due + kSupersededAfter) : from;
      if (!replay_.goes_on({row.uid, row.occurrence}) || to - looked_at <= kIdleMax) continue;
      violations_.push_back(
          {"idle", absl::StrCat("policy ", name, " has a free token (", replay_.held(name),
                                " held) and grants it not to ", row.uid, " ", row.occurrence, "[",
                                row.events.first, " +", row.events.count, "], which may go since ",
                                absl::FormatTime(from, absl::UTCTimeZone()), ", until ",
                                absl::FormatTime(to, absl::UTCTimeZone()))});
      return;
    }
  }

  static absl::Time ReadyAt(const RowWrite& row) {
    // A row that was carried over waits for its next window.
    const absl::Time begin = std::max(row.due, row.window_begin);
    if (row.pace_count == 0 || row.events.first < row.pace_first) return begin;
    const double share = static_cast<double>(row.events.first - row.pace_first) /
                         static_cast<double>(row.pace_count);
    return std::max(begin, row.window_begin + row.window * share);
  }

  const History& history_;
  TokenReplay replay_;
  std::map<std::string, std::string> targets_;  // by uid
  std::map<GrantName, std::string> target_of_;
  std::map<std::pair<std::string, std::string>, Outage> outages_;  // by owner and target
  std::map<std::string, std::string> shard_of_;                    // by policy
  std::map<std::string, std::string> owners_;                      // by lease
  std::map<std::string, absl::Time> conforms_;                     // by policy
  std::map<std::string, absl::Time> changed_;                      // by policy
  std::set<std::string> known_;                                    // policies
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> CheckIdle(const History& history) { return IdleChecker(history).Run(); }

}  // namespace escapement::simulation
