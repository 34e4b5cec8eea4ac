#include "tools/escctl/doctor/diagnosis.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/kv/wire/leader_search.h"
#include "common/kv/wire/store_connection.h"
#include "nlohmann/json.hpp"

namespace escapement::escctl {
namespace {

using google::protobuf::util::TimeUtil;

absl::Duration ToDuration(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

std::string Text(const google::protobuf::Duration& duration) {
  return SecondsText(absl::ToDoubleSeconds(ToDuration(duration)));
}

std::string LastWord(const std::string& name) { return name.substr(name.rfind('/') + 1); }

bool IsSilent(const v1::StoreReplica& replica) {
  return replica.store_id().empty() || ToDuration(replica.reported_ago()) > kSilentReplica;
}

// It leads, or could take over now.
bool CouldLead(const v1::StoreReplica& replica) {
  const bool has_role =
      replica.role() == v1::StoreReplica::LEADER || replica.role() == v1::StoreReplica::FOLLOWER;
  return has_role && !IsSilent(replica) && replica.problem().empty() &&
         ToDuration(replica.behind()) <= absl::Seconds(kFollowerLagSeconds);
}

void AddReplica(const v1::StoreReplica& replica, std::vector<Finding>& findings) {
  const std::string place =
      absl::StrCat("store ", replica.store_id().empty() ? replica.address() : replica.store_id());
  const auto add = [&](std::string problem, std::string action, absl::string_view alert) {
    findings.push_back(
        {Severity::kWarning, place, std::move(problem), std::move(action), RunbookOf(alert)});
  };
  if (replica.role() == v1::StoreReplica::REFUSING) {
    return add(absl::StrCat("it refuses the log: ", replica.problem()),
               "keep its data folder; the runbook says which copy to trust", "EscapementLogUnsafe");
  }
  if (IsSilent(replica)) {
    return add(replica.store_id().empty()
                   ? absl::StrCat("it ", replica.problem())
                   : absl::StrCat("it has not reported itself for ", Text(replica.reported_ago())),
               absl::StrCat("start it at ", replica.address(),
                            "; a replica that was removed is forgotten after a day"),
               "EscapementServiceGone");
  }
  if (ToDuration(replica.behind()) > absl::Seconds(kFollowerLagSeconds)) {
    add(absl::StrCat("its copy has lacked rows of the log for ", Text(replica.behind())),
        "look at the processor, the disk and the log of this replica", "EscapementFollowerLags");
  } else if (!replica.problem().empty()) {
    add(replica.problem(), "read the last lines of its log", "EscapementFollowerLags");
  }
}

void AddReplication(const Facts& facts, std::vector<Finding>& findings) {
  const v1::StoreReplication& log = facts.store->replication();
  if (!kv::OfLeader(*facts.store)) {
    findings.push_back({Severity::kCritical, "store",
                        "no replica leads, so nothing is committed or sent",
                        "escctl store status; mend PostgreSQL or its synchronous standby first",
                        RunbookOf("EscapementLeaderUnsteady")});
  }
  const auto able = std::count_if(log.replicas().begin(), log.replicas().end(), CouldLead);
  if (able < facts.replicas_expected) {
    findings.push_back(
        {Severity::kCritical, "store",
         absl::StrCat("only ", able, " of ", facts.replicas_expected,
                      " replicas of the store lead or could take over now"),
         "escctl store status shows those that have reported; see why the others do not run",
         RunbookOf("EscapementServiceGone")});
  }
  for (const v1::StoreReplica& replica : log.replicas()) {
    // One that was removed is known for a day. If all that are wanted are there, nobody misses it.
    if (IsSilent(replica) && facts.replicas_expected > 0 && able >= facts.replicas_expected)
      continue;
    AddReplica(replica, findings);
  }
  if (log.snapshot_seq() != 0 && facts.store->has_store_time()) {
    const double age =
        TimeUtil::DurationToMilliseconds(facts.store->store_time() - log.snapshot_time()) / 1000.0;
    if (age > kSnapshotSeconds) {
      findings.push_back({Severity::kWarning, "store",
                          absl::StrCat("the newest snapshot is ", SecondsText(age), " old"),
                          "look for failed snapshots in the log of the leader",
                          RunbookOf("EscapementSnapshotOld")});
    }
  }
  // 2: one failure can lose commits. The alert takes that for what the operator wants, if it was
  // the same for a week.
  const bool meant = LeastOf(facts, "escapement_store_log_safety") == 2.0;
  for (const std::string& problem : log.log_problems()) {
    findings.push_back({meant ? Severity::kNote : Severity::kWarning, "PostgreSQL", problem,
                        "change the settings of PostgreSQL, if this is not meant",
                        RunbookOf("EscapementLogUnsafe")});
  }
}

// `finding` is of an error that the master gave. An error that says how to end it goes before the
// advice for any other.
Finding OfError(Finding finding) {
  if (absl::StrContains(finding.problem, kv::kUpgradeStoreFirst)) {
    finding.action = "upgrade the store, or put the former version of the other services back";
    finding.page = "docs/operations/upgrade.md";
  }
  return finding;
}

void AddStore(const Facts& facts, std::vector<Finding>& findings) {
  if (!facts.store_problem.empty()) {
    findings.push_back(
        OfError({Severity::kCritical, "store",
                 absl::StrCat("the master has no answer of the store: ", facts.store_problem),
                 "see whether the store runs, and read the last lines of its log",
                 RunbookOf("EscapementServiceGone")}));
  }
  if (!facts.store.has_value()) return;
  if (facts.store->has_store_time() && !facts.store->accepts_commits() && !LeaderDiskFull(facts)) {
    findings.push_back(
        {Severity::kCritical, "store", "the store's disk is full, so it refuses commits",
         "give the disk more room; the store goes on by itself", RunbookOf("EscapementDiskFull")});
  }
  if (facts.store->has_replication()) return AddReplication(facts, findings);
  if (facts.replicas_expected > 0) {
    findings.push_back(
        {Severity::kCritical, "store", "it is one process, so no other can take over",
         "give it a log in PostgreSQL and more processes", "docs/operations/high_availability.md"});
  }
}

void AddClock(const Facts& facts, std::vector<Finding>& findings) {
  if (!facts.clock.has_value()) return;
  const v1::StoreClock& clock = *facts.clock;
  const auto add = [&](Severity severity, std::string problem, std::string action) {
    findings.push_back({severity, "clock", std::move(problem), std::move(action),
                        RunbookOf("EscapementClockDisagrees")});
  };
  const double off = absl::ToDoubleSeconds(ToDuration(clock.disagreement()));
  if (clock.held()) {
    add(Severity::kCritical,
        absl::StrFormat("nothing has been planned for %s: the wall clock of the store's machine is "
                        "%+.1f s from store time",
                        Text(clock.held_for()), off),
        "set the clock; if it is right: escctl store clock --confirm");
  } else if (std::abs(off) > kClockSeconds) {
    const bool denied = 2 * clock.hosts_disagree() > clock.hosts();
    add(Severity::kCritical,
        absl::StrFormat("the wall clock of the store's machine is %+.1f s from store time%s", off,
                        denied ? ", and most other machines disagree with it" : ""),
        denied ? "set the clock right; do not confirm it"
               : "set the clock; if it is right: escctl store clock --confirm");
  }
  if (clock.hosts_disagree() > 0) {
    add(Severity::kWarning,
        absl::StrFormat("the clocks of %d of %d other machines are more than a second from that of "
                        "the store",
                        clock.hosts_disagree(), clock.hosts()),
        "let NTP set the clocks of all machines");
  }
  if (!clock.synchronised()) {
    add(Severity::kNote, "the store's machine says that its clock is not synchronised",
        "let NTP set its clock, and look at it: escctl store clock");
  }
}

void AddQuotas(const TenantFacts& tenant, std::vector<Finding>& findings) {
  if (!tenant.usage.has_value()) return;
  const v1::Quotas& quotas = tenant.usage->quotas();
  const auto check = [&](int64_t used, int64_t most, const char* what, const char* flag) {
    if (most <= 0 || static_cast<double>(used) < kQuotaShare * static_cast<double>(most)) return;
    findings.push_back(
        {Severity::kWarning, absl::StrCat("tenant ", tenant.id),
         absl::StrCat("it has ", used, " of at most ", most, " ", what),
         absl::StrCat("delete some, or: escctl quota set ", tenant.id, " ", flag, " NUMBER"),
         "docs/operations/access.md"});
  };
  check(tenant.usage->schedule_count(), quotas.max_schedules(), "schedules", "--max-schedules");
  check(tenant.usage->policy_count(), quotas.max_policies(), "policies", "--max-policies");
  check(tenant.usage->pending_event_count(), quotas.max_pending_events(), "pending events",
        "--max-pending-events");
}

void AddTargets(const TenantFacts& tenant, std::vector<Finding>& findings) {
  int down = 0;
  for (const v1::TargetStatus& target : tenant.targets) {
    if (target.state() != v1::TargetStatus::OPEN && target.state() != v1::TargetStatus::HALF_OPEN)
      continue;
    if (++down > kTargetsNamedMax) continue;
    findings.push_back(
        {Severity::kWarning, absl::StrCat("tenant ", tenant.id),
         absl::StrCat("the target ",
                      target.endpoint().empty() ? target.transport() : target.endpoint(),
                      " has been down since ", TimeUtil::ToString(target.down_since_time()),
                      ", and its events wait: ", target.last_error()),
         absl::StrCat("mend the target; then: escctl --tenant ", tenant.id, " target reset ",
                      LastWord(target.name())),
         RunbookOf("EscapementTargetDown")});
  }
  if (down > kTargetsNamedMax) {
    findings.push_back({Severity::kWarning, absl::StrCat("tenant ", tenant.id),
                        absl::StrCat(down, " targets are down in all"),
                        absl::StrCat("escctl --tenant ", tenant.id, " target list"),
                        RunbookOf("EscapementTargetDown")});
  }
}

void AddDeadLetters(const Facts& facts, const TenantFacts& tenant, std::vector<Finding>& findings) {
  if (tenant.dead_letters.empty()) return;
  const absl::Time since = facts.now - kRecentDeadLetter;
  const auto recent = std::count_if(
      tenant.dead_letters.begin(), tenant.dead_letters.end(), [&](const v1::DeadLetter& letter) {
        return absl::FromUnixSeconds(letter.create_time().seconds()) >= since;
      });
  const size_t all = tenant.dead_letters.size();
  const std::string count = absl::StrCat(all, tenant.more_dead_letters ? " or more" : "");
  const v1::DeadLetter& newest = tenant.dead_letters.front();
  findings.push_back(
      {recent > 0 ? Severity::kWarning : Severity::kNote, absl::StrCat("tenant ", tenant.id),
       absl::StrCat(count, all == 1 ? " event has" : " events have", " failed for good, ", recent,
                    " of them in the last 24 hours; the newest: ", LastWord(newest.event()), ": ",
                    newest.reason()),
       absl::StrCat("escctl --tenant ", tenant.id,
                    " deadletter list; mend the cause, then redrive or purge them"),
       "docs/operations/dead_letters.md"});
}

}  // namespace

std::vector<Finding> Diagnose(const Facts& facts) {
  std::vector<Finding> findings;
  if (!facts.server_problem.empty()) {
    findings.push_back({Severity::kCritical, facts.server,
                        absl::StrCat("no master answers: ", facts.server_problem),
                        facts.server_advice, RunbookOf("EscapementServiceGone")});
  }
  AddProcessFindings(facts, findings);
  AddStore(facts, findings);
  AddClock(facts, findings);
  for (const TenantFacts& tenant : facts.tenants) {
    AddQuotas(tenant, findings);
    AddTargets(tenant, findings);
    AddDeadLetters(facts, tenant, findings);
  }
  for (const Unseen& unseen : facts.unseen) {
    if (unseen.failed) {
      findings.push_back(OfError({Severity::kWarning, facts.server,
                                  absl::StrCat("the master has no answer about ", unseen.what),
                                  unseen.action, RunbookOf("EscapementApiBurns")}));
      continue;
    }
    findings.push_back({facts.replicas_expected > 0 ? Severity::kWarning : Severity::kNote,
                        "not checked", unseen.what, unseen.action,
                        "docs/operations/troubleshooting.md"});
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.severity < b.severity; });
  return findings;
}

std::string SeverityText(Severity severity) {
  switch (severity) {
    case Severity::kCritical:
      return "CRITICAL";
    case Severity::kWarning:
      return "WARNING";
    case Severity::kNote:
      break;
  }
  return "NOTE";
}

std::string FindingsJson(const std::vector<Finding>& findings) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"severity", SeverityText(finding.severity)},
                    {"place", finding.place},
                    {"problem", finding.problem},
                    {"action", finding.action},
                    {"page", finding.page}});
  }
  return list.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace escapement::escctl
