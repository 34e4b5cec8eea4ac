#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "common/kv/wire/leader_search.h"
#include "tools/escctl/doctor/diagnosis.h"

namespace escapement::escctl {
namespace {

// Calls `visit(process, sample)` for each sample of the metric.
template <typename Visit>
void ForEachSample(const Facts& facts, absl::string_view metric, const Visit& visit) {
  for (const ProcessFacts& process : facts.processes) {
    for (const MetricSample& sample : process.samples) {
      if (sample.name == metric) visit(process, sample);
    }
  }
}

// The one value of a metric without labels; nullopt if the process does not have it.
std::optional<double> ValueOf(const ProcessFacts& process, absl::string_view metric) {
  for (const MetricSample& sample : process.samples) {
    if (sample.name == metric) return sample.value;
  }
  return std::nullopt;
}

// http://host:port of the process.
std::string OriginOf(const ProcessFacts& process) {
  const size_t scheme = process.url.find("://");
  const size_t path = scheme == std::string::npos ? scheme : process.url.find('/', scheme + 3);
  return process.url.substr(0, path);
}

std::string ReadyzOf(const Facts& facts, const ProcessFacts& process) {
  const std::string origin = OriginOf(process);
  return absl::StrCat("curl ", absl::StartsWith(origin, "https://") ? facts.curl_tls : "", origin,
                      "/readyz says what it waits for");
}

bool IsStore(const std::string& program) { return program == "store" || program == "standalone"; }

// A replica of the store or standalone that does not lead, and does not refuse the log.
bool Follows(const ProcessFacts& process) {
  return ValueOf(process, "escapement_store_leads") == 0.0 &&
         ValueOf(process, "escapement_store_refuses").value_or(0) == 0;
}

// The leader may be a process that was not asked.
void AddFollowersOnly(const Facts& facts, const std::string& program,
                      std::vector<Finding>& findings) {
  // If no replica leads, the master's answer is a finding of its own.
  if (facts.store.has_value() && !kv::OfLeader(*facts.store)) return;
  findings.push_back(
      {facts.store.has_value() ? Severity::kNote : Severity::kWarning, program,
       absl::StrCat("each process of ", program, " that was asked follows; none of them leads"),
       "name the leader by --metrics-url, too; escctl store status shows it",
       "docs/operations/troubleshooting.md"});
}

// A replica of the store or standalone that follows is never ready, so one process that is ready is
// enough for these.
void AddReadiness(const Facts& facts, std::vector<Finding>& findings) {
  std::map<std::string, std::vector<std::pair<const ProcessFacts*, bool>>> programs;
  ForEachSample(facts, "escapement_ready", [&](const auto& process, const auto& sample) {
    programs[sample.Label("program")].push_back({&process, sample.value > 0});
  });
  for (const auto& [program, processes] : programs) {
    const bool any = std::any_of(processes.begin(), processes.end(),
                                 [](const auto& process) { return process.second; });
    if (!any) {
      const auto unready =
          std::find_if_not(processes.begin(), processes.end(),
                           [](const auto& process) { return Follows(*process.first); });
      if (unready == processes.end()) {
        AddFollowersOnly(facts, program, findings);
        continue;
      }
      findings.push_back({Severity::kCritical, program,
                          absl::StrCat("no process of ", program, " that was asked is ready"),
                          ReadyzOf(facts, *unready->first), RunbookOf("EscapementServiceGone")});
      continue;
    }
    for (const auto& [process, ready] : processes) {
      if (ready || IsStore(program)) continue;
      findings.push_back({Severity::kWarning, process->url, absl::StrCat(program, " is not ready"),
                          ReadyzOf(facts, *process), RunbookOf("EscapementServiceGone")});
    }
  }
}

// "1.2.3 at A, B; 1.2.4 at C".
std::string PlacesText(const std::map<std::string, std::set<std::string>>& places) {
  std::vector<std::string> parts;
  for (const auto& [what, urls] : places)
    parts.push_back(absl::StrCat(what, " at ", absl::StrJoin(urls, ", ")));
  return absl::StrJoin(parts, "; ");
}

void AddVersions(const Facts& facts, std::vector<Finding>& findings) {
  std::map<std::string, std::set<std::string>> programs;
  ForEachSample(facts, "escapement_build_info", [&](const auto& process, const auto& sample) {
    programs[absl::StrCat(sample.Label("version"), " (commit ", sample.Label("commit"), ")")]
        .insert(process.url);
  });
  if (programs.size() > 1) {
    findings.push_back({Severity::kWarning, "versions",
                        absl::StrCat("the processes have several versions: ", PlacesText(programs)),
                        "end the upgrade, or go back to the former version",
                        "docs/operations/upgrade.md"});
  } else if (programs.size() == 1 && programs.begin()->first != facts.version) {
    findings.push_back({Severity::kNote, "versions",
                        absl::StrCat("escctl has version ", facts.version, ", the processes have ",
                                     programs.begin()->first),
                        "install the release that the processes have",
                        "docs/operations/upgrade.md"});
  }
  std::map<std::string, std::set<std::string>> databases;
  ForEachSample(facts, "escapement_tzdata_info", [&](const auto& process, const auto& sample) {
    databases[sample.Label("version")].insert(process.url);
  });
  if (databases.size() > 1) {
    findings.push_back(
        {Severity::kWarning, "versions",
         absl::StrCat("the processes have several time zone databases: ", PlacesText(databases)),
         "install the newest tzdata on all machines and restart the services",
         "docs/operations/upgrade.md"});
  }
}

void AddLeases(const Facts& facts, std::vector<Finding>& findings) {
  struct Leases {
    double held = 0;   // by the processes that were asked
    double owned = 0;  // by any process, as one of those that were asked has read
    double wanted = 0;
  };
  std::map<std::string, Leases> leases;  // by program
  ForEachSample(facts, "escapement_leases_held", [&](const auto&, const auto& sample) {
    leases[sample.Label("program")].held += sample.value;
  });
  const auto take_largest = [&](absl::string_view metric, double Leases::*field) {
    ForEachSample(facts, metric, [&](const auto&, const auto& sample) {
      double& largest = leases[sample.Label("program")].*field;
      largest = std::max(largest, sample.value);
    });
  };
  take_largest("escapement_leases_owned", &Leases::owned);
  take_largest("escapement_leases_wanted", &Leases::wanted);
  for (const auto& [program, counts] : leases) {
    const auto [held, owned, wanted] = counts;
    const double known = std::min(std::max(held, owned), wanted);
    if (known < wanted) {
      findings.push_back({Severity::kCritical, program,
                          absl::StrFormat("no process is known to hold %.0f of %.0f shards or "
                                          "partitions of %s: their events wait",
                                          wanted - known, wanted, program),
                          "look at /readyz and the log of each of its processes, and start more",
                          RunbookOf("EscapementEventsOverdue")});
    }
    if (held < known) {
      findings.push_back({Severity::kNote, program,
                          absl::StrFormat("%.0f of %.0f shards or partitions of %s belong to "
                                          "processes that were not asked, or did not answer",
                                          known - held, wanted, program),
                          "name each process of it by --metrics-url: what they have is not checked",
                          "docs/operations/troubleshooting.md"});
    }
  }
}

// Masters see that emitters or handlers stand still, also if these say nothing themselves.
void AddMissing(const Facts& facts, std::vector<Finding>& findings) {
  const auto add = [&](const char* metric, double threshold, absl::string_view before,
                       absl::string_view after) {
    ForEachSample(facts, metric, [&](const auto& process, const auto& sample) {
      if (sample.value <= threshold) return;
      findings.push_back({Severity::kCritical, process.url,
                          absl::StrCat(before, SecondsText(sample.value), after),
                          "look for the process that stands still: the runbook says how",
                          RunbookOf("EscapementOccurrencesMissing")});
    });
  };
  add("escapement_master_emission_behind_seconds", kEmissionBehindSeconds, "emission is ",
      " behind, as this master reads it");
  add("escapement_master_heartbeat_late_seconds", kHeartbeatLateSeconds,
      "a heartbeat has been due for ", " and has not ended, as this master reads it");
}

void AddOverdue(const Facts& facts, std::vector<Finding>& findings) {
  ForEachSample(facts, "escapement_handler_oldest_overdue_seconds",
                [&](const auto& process, const auto& sample) {
                  if (sample.value <= kOverdueSeconds) return;
                  findings.push_back({Severity::kCritical, process.url,
                                      absl::StrCat("its oldest event has been due for ",
                                                   SecondsText(sample.value), " and is not sent"),
                                      "escctl store status; if the store is well, restart this "
                                      "process: others take its shards over",
                                      RunbookOf("EscapementEventsOverdue")});
                });
  ForEachSample(facts, "escapement_emitter_behind_seconds",
                [&](const auto& process, const auto& sample) {
                  if (sample.value <= kBehindSeconds) return;
                  findings.push_back({Severity::kCritical, process.url,
                                      absl::StrCat("its emitter is ", SecondsText(sample.value),
                                                   " behind: what was due since is not written"),
                                      "escctl store clock; if the clock is not held, restart this "
                                      "process: others take its partitions over",
                                      RunbookOf("EscapementEventsOverdue")});
                });
  AddMissing(facts, findings);
  for (const char* metric :
       {"escapement_emitter_records_broken_total", "escapement_emitter_launch_records_broken_total",
        "escapement_handler_broken_rows_total", "escapement_token_manager_broken_rows_total"}) {
    ForEachSample(facts, metric, [&](const auto& process, const auto& sample) {
      if (sample.value <= 0) return;
      findings.push_back({Severity::kWarning, process.url,
                          absl::StrFormat("it has met records that cannot be read (%s is %.0f)",
                                          metric, sample.value),
                          "keep its log; restore from a backup if a record is damaged",
                          "docs/operations/backup.md"});
    });
  }
}

// The command for a policy, whose name is tenants/T/policies/P.
std::string UsageCommand(const std::string& policy) {
  const std::vector<std::string> parts = absl::StrSplit(policy, '/');
  if (parts.size() != 4) return "escctl policy list";
  return absl::StrCat("escctl --tenant ", parts[1], " policy usage ", parts[3]);
}

void AddPolicies(const Facts& facts, std::vector<Finding>& findings) {
  struct Policy {
    double waiting = 0;
    double held = 0;
    double limit = 0;
    double newest = 0;  // seconds since the newest token was given
    bool held_back = false;
  };
  const auto stuck = [&](const std::string& policy, double waiting, absl::string_view why) {
    findings.push_back({Severity::kWarning, policy,
                        absl::StrFormat("%.0f events wait for it, %s", waiting, why),
                        UsageCommand(policy), RunbookOf("EscapementPolicyStuck")});
  };
  std::map<std::string, Policy> all;
  for (const ProcessFacts& process : facts.processes) {
    std::map<std::string, Policy> policies;
    for (const MetricSample& sample : process.samples) {
      if (!absl::StartsWith(sample.name, "escapement_token_manager_policy_")) continue;
      Policy& policy = policies[sample.Label("policy")];
      const absl::string_view name = absl::string_view(sample.name).substr(32);
      if (name == "events_waiting") policy.waiting = sample.value;
      if (name == "tokens_held") policy.held = sample.value;
      if (name == "limit") policy.limit = sample.value;
      if (name == "newest_token_seconds") policy.newest = sample.value;
      if (name == "held_back") policy.held_back = sample.value == 1;
    }
    const double oldest =
        ValueOf(process, "escapement_token_manager_oldest_waiting_seconds").value_or(0);
    for (const auto& [name, policy] : policies) {
      Policy& sum = all[name];
      sum.waiting = std::max(sum.waiting, policy.waiting);
      sum.held = std::max(sum.held, policy.held);
      sum.limit = std::max(sum.limit, policy.limit);
      sum.newest = std::max(sum.newest, policy.newest);
      const bool gave_one = policy.newest > 0 && policy.newest <= kPolicyStuckSeconds;
      if (policy.waiting > 0 && policy.held < policy.limit && oldest > kPolicyStuckSeconds &&
          !policy.held_back && !gave_one) {
        stuck(name, policy.waiting, "tokens are free, and it gives none");
      }
    }
  }
  for (const auto& [name, policy] : all) {
    if (policy.waiting > 0 && policy.limit > 0 && policy.held >= policy.limit &&
        policy.newest > kPolicyStuckSeconds) {
      stuck(name, policy.waiting,
            absl::StrFormat("all %.0f tokens are out, and none has come back for %s", policy.limit,
                            SecondsText(policy.newest)));
    }
  }
  double overdue = 0;
  ForEachSample(facts, "escapement_token_manager_holders_overdue",
                [&](const auto&, const auto& sample) { overdue += sample.value; });
  if (overdue > kHoldersOverdue) {
    findings.push_back(
        {Severity::kWarning, "throttling",
         absl::StrFormat("%.0f tokens are out although their hold time has ended", overdue),
         "escctl top --once shows the policies; mend their consumers",
         RunbookOf("EscapementHoldersOverdue")});
  }
  double at_risk = 0;
  ForEachSample(facts, "escapement_run_at_risk",
                [&](const auto&, const auto& sample) { at_risk += sample.value; });
  if (at_risk > kRunsAtRisk) {
    findings.push_back({Severity::kWarning, "throttling",
                        absl::StrFormat("%.0f runs are too slow for their windows", at_risk),
                        "escctl schedule runs NAME shows the state of each run in its window",
                        RunbookOf("EscapementRunAtRisk")});
  }
}

void AddStores(const Facts& facts, std::vector<Finding>& findings) {
  double leaders = 0;
  for (const ProcessFacts& process : facts.processes) {
    const auto value = [&](absl::string_view metric) { return ValueOf(process, metric); };
    const auto add = [&](Severity severity, std::string problem, std::string action,
                         absl::string_view alert) {
      findings.push_back(
          {severity, process.url, std::move(problem), std::move(action), RunbookOf(alert)});
    };
    const double free = value("escapement_store_disk_free_bytes").value_or(0);
    const double size = value("escapement_store_disk_size_bytes").value_or(0);
    if (value("escapement_store_accepting") == 0.0) {
      add(Severity::kCritical, "its disk is full, so it refuses commits",
          "give the disk more room; the store goes on by itself", "EscapementDiskFull");
    } else if (size > 0 && free / size < kDiskFreeShare) {
      add(Severity::kCritical,
          absl::StrFormat("only %.1f %% of its disk is free", 100 * free / size),
          "give the disk more room before it is full", "EscapementDiskFull");
    }
    if (value("escapement_store_write_stall").value_or(0) > 0) {
      add(Severity::kWarning, "RocksDB slows writes down until it has compacted",
          "ask again in some minutes; if it stays so, give the store a faster disk",
          "EscapementStoreSlow");
    }
    leaders += value("escapement_store_leads").value_or(0);
    if (!facts.store.has_value()) {
      const double lag = value("escapement_store_replica_lag_seconds").value_or(0);
      if (lag > kFollowerLagSeconds) {
        add(Severity::kWarning,
            absl::StrCat("its copy has lacked rows of the log for ", SecondsText(lag)),
            "look at the processor, the disk and the log of this replica",
            "EscapementFollowerLags");
      }
      const double snapshot = value("escapement_store_snapshot_age_seconds").value_or(0);
      if (snapshot > kSnapshotSeconds) {
        add(Severity::kWarning,
            absl::StrCat("the newest snapshot is ", SecondsText(snapshot), " old"),
            "look for failed snapshots in the log of the leader", "EscapementSnapshotOld");
      }
      if (value("escapement_store_log_safety") == 1.0) {
        add(Severity::kWarning, "the settings of PostgreSQL let a crash damage the log",
            "escctl store status names the settings", "EscapementLogUnsafe");
      }
      if (value("escapement_store_refuses").value_or(0) > 0) {
        add(Severity::kWarning, "it refuses the log, which lacks commits that it has acknowledged",
            "escctl store status says what to do", "EscapementLogUnsafe");
      }
    }
    if (facts.clock.has_value()) continue;
    const double off = value("escapement_store_clock_disagreement_seconds").value_or(0);
    if (value("escapement_store_clock_hold").value_or(0) > 0 || std::abs(off) > kClockSeconds) {
      add(Severity::kCritical, absl::StrFormat("its wall clock is %+.1f s from store time", off),
          "escctl store clock", "EscapementClockDisagrees");
    }
  }
  if (leaders > 1) {
    findings.push_back({Severity::kCritical, "store",
                        absl::StrFormat("%.0f replicas say that they lead", leaders),
                        "ask again; if it stays so, stop the ones that escctl store status does "
                        "not name",
                        RunbookOf("EscapementLeaderUnsteady")});
  }
}

void AddCertificates(const Facts& facts, std::vector<Finding>& findings) {
  for (const ProcessFacts& process : facts.processes) {
    struct File {
      std::optional<double> ends;
      double lifetime = 0;
      bool refused = false;
    };
    std::map<std::string, File> files;
    for (const MetricSample& sample : process.samples) {
      if (!absl::StartsWith(sample.name, "escapement_tls_certificate_")) continue;
      File& file = files[sample.Label("file")];
      if (absl::EndsWith(sample.name, "_expiry_seconds")) file.ends = sample.value;
      if (absl::EndsWith(sample.name, "_lifetime_seconds")) file.lifetime = sample.value;
      if (absl::EndsWith(sample.name, "_refused")) file.refused = sample.value > 0;
    }
    for (const auto& [path, file] : files) {
      const auto add = [&, &path = path](Severity severity, std::string problem) {
        findings.push_back({severity, process.url, absl::StrCat(path, " ", problem),
                            absl::StrCat("openssl x509 -noout -dates -in ", path,
                                         " shows the file on disk; renew it"),
                            RunbookOf("EscapementCertificateExpires")});
      };
      if (file.refused)
        add(Severity::kWarning, "cannot be used as it is on disk; the former file stays in force");
      if (!file.ends.has_value()) continue;
      const double left = *file.ends - absl::ToDoubleSeconds(facts.now - absl::UnixEpoch());
      if (left <= 0) {
        add(Severity::kWarning, absl::StrCat("expired ", SecondsText(-left), " ago"));
      } else if (left < file.lifetime / 6 && left < kCertificateSeconds) {
        add(Severity::kWarning, absl::StrCat("expires in ", SecondsText(left)));
      }
    }
  }
}

// Endpoints by transport; TargetService of all tenants says more.
void AddBreakers(const Facts& facts, std::vector<Finding>& findings) {
  if (facts.all_tenants) return;
  std::map<std::string, double> down;
  ForEachSample(facts, "escapement_handler_targets", [&](const auto&, const auto& sample) {
    const std::string state = sample.Label("state");
    if (state == "open" || state == "half_open") down[sample.Label("transport")] += sample.value;
  });
  for (const auto& [transport, count] : down) {
    if (count <= 0) continue;
    findings.push_back({Severity::kWarning, "targets",
                        absl::StrFormat("%.0f endpoints of transport %s are down (counted once for "
                                        "each handler), and their events wait",
                                        count, transport),
                        "escctl --tenant T target list, for each tenant T",
                        RunbookOf("EscapementTargetDown")});
  }
}

}  // namespace

std::string RunbookOf(absl::string_view alert) {
  return absl::StrCat("docs/runbooks/", alert, ".md");
}

std::string SecondsText(double seconds) {
  const double whole = seconds < 10 ? seconds : std::floor(seconds);
  return absl::FormatDuration(absl::Trunc(absl::Seconds(whole), absl::Milliseconds(1)));
}

std::optional<double> LeastOf(const Facts& facts, absl::string_view metric) {
  std::optional<double> least;
  ForEachSample(facts, metric, [&](const auto&, const auto& sample) {
    if (sample.value > 0) least = std::min(least.value_or(sample.value), sample.value);
  });
  return least;
}

bool LeaderDiskFull(const Facts& facts) {
  return std::any_of(facts.processes.begin(), facts.processes.end(),
                     [](const ProcessFacts& process) {
                       return ValueOf(process, "escapement_store_accepting") == 0.0 &&
                              ValueOf(process, "escapement_store_leads").value_or(1) > 0;
                     });
}

void AddProcessFindings(const Facts& facts, std::vector<Finding>& findings) {
  for (const ProcessFacts& process : facts.processes) {
    if (process.problem.empty()) continue;
    findings.push_back({Severity::kWarning, process.url,
                        absl::StrCat("it does not answer: ", process.problem),
                        "see whether the process runs, and read the last lines of its log",
                        RunbookOf("EscapementServiceGone")});
  }
  AddReadiness(facts, findings);
  AddVersions(facts, findings);
  AddLeases(facts, findings);
  AddOverdue(facts, findings);
  AddPolicies(facts, findings);
  AddStores(facts, findings);
  AddCertificates(facts, findings);
  AddBreakers(facts, findings);
}

}  // namespace escapement::escctl
