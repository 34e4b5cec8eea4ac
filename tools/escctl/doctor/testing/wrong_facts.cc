#include "tools/escctl/doctor/testing/wrong_facts.h"

#include <google/protobuf/text_format.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace escapement::escctl::testing {
namespace {

// Adds what the text of protobuf says. 1800000000 s is kDoctorNow.
void Add(google::protobuf::Message& message, const std::string& text) {
  CHECK(google::protobuf::TextFormat::MergeFromString(text, &message)) << text;
}

constexpr char kHealthyStore[] =
    R"(escapement_build_info{program="store",version="1.2.3",commit="abc"} 1
escapement_ready{program="store"} 1
escapement_store_accepting 1
escapement_store_leads 1
escapement_store_refuses 0
escapement_store_log_safety 3
escapement_store_write_stall 0
escapement_store_disk_free_bytes 5e9
escapement_store_disk_size_bytes 1e10
escapement_store_clock_hold 0
escapement_store_clock_disagreement_seconds 0.002
escapement_store_replica_lag_seconds 0
escapement_store_snapshot_age_seconds 3600
escapement_tls_certificate_expiry_seconds{file="/tls/tls.crt"} 1807776000
escapement_tls_certificate_lifetime_seconds{file="/tls/tls.crt"} 7776000
escapement_tls_certificate_refused{file="/tls/tls.crt"} 0
)";
constexpr char kHealthyFollower[] =
    R"(escapement_build_info{program="store",version="1.2.3",commit="abc"} 1
escapement_ready{program="store"} 0
escapement_store_accepting 1
escapement_store_leads 0
escapement_store_log_safety 0
)";
constexpr char kHealthyMaster[] =
    R"(escapement_build_info{program="master",version="1.2.3",commit="abc"} 1
escapement_ready{program="master"} 1
escapement_tzdata_info{version="2026b",rev_in_store="3"} 1
)";
constexpr char kHealthyEmitter[] =
    R"(escapement_build_info{program="emitter",version="1.2.3",commit="abc"} 1
escapement_ready{program="emitter"} 1
escapement_tzdata_info{version="2026b",rev_in_store="3"} 1
escapement_leases_held{program="emitter"} 16
escapement_leases_owned{program="emitter"} 16
escapement_leases_wanted{program="emitter"} 16
escapement_emitter_behind_seconds 60
escapement_run_at_risk 0
escapement_emitter_records_broken_total 0
)";
constexpr char kHealthyHandler[] =
    R"(escapement_build_info{program="handler",version="1.2.3",commit="abc"} 1
escapement_ready{program="handler"} 1
escapement_leases_held{program="handler"} 4
escapement_leases_owned{program="handler"} 8
escapement_leases_wanted{program="handler"} 8
escapement_handler_oldest_overdue_seconds 300
escapement_handler_targets{state="closed",transport="http"} 9
escapement_handler_targets{state="open",transport="http"} 0
)";
constexpr char kHealthyTokenManager[] =
    R"(escapement_build_info{program="token_manager",version="1.2.3",commit="abc"} 1
escapement_ready{program="token_manager"} 1
escapement_leases_held{program="token_manager"} 8
escapement_leases_owned{program="token_manager"} 8
escapement_leases_wanted{program="token_manager"} 8
escapement_token_manager_oldest_waiting_seconds 5000
escapement_token_manager_holders_overdue 0
escapement_token_manager_policy_events_waiting{policy="tenants/default/policies/busy"} 7
escapement_token_manager_policy_tokens_held{policy="tenants/default/policies/busy"} 5
escapement_token_manager_policy_limit{policy="tenants/default/policies/busy"} 5
escapement_token_manager_policy_newest_token_seconds{policy="tenants/default/policies/busy"} 900
escapement_token_manager_policy_events_waiting{policy="tenants/default/policies/paused"} 7
escapement_token_manager_policy_tokens_held{policy="tenants/default/policies/paused"} 0
escapement_token_manager_policy_limit{policy="tenants/default/policies/paused"} 5
escapement_token_manager_policy_newest_token_seconds{policy="tenants/default/policies/paused"} 0
escapement_token_manager_policy_held_back{policy="tenants/default/policies/paused"} 1
)";

// The API tells much, and each process is ill.
Facts WrongReplicatedFacts() {
  Facts facts = HealthyFacts();
  Add(*facts.store, R"(
    accepts_commits: false
    replication {
      snapshot_time { seconds: 1799820000 }
      replicas { store_id: "store-c" role: REFUSING problem: "row 7 is missing" }
      replicas { store_id: "store-d" address: "store-d:7400" role: FOLLOWER
                 reported_ago { seconds: 600 } }
      replicas { store_id: "store-e" role: FOLLOWER problem: "no disk space" }
      replicas { address: "store-f:7400" problem: "does not answer: connection refused" }
      log_problems: "synchronous_commit is off: a crash loses commits"
    })");
  v1::StoreReplication& log = *facts.store->mutable_replication();
  log.mutable_replicas(0)->set_role(v1::StoreReplica::CANDIDATE);
  log.mutable_replicas(1)->mutable_behind()->set_seconds(31);
  Add(*facts.clock, R"(held: true held_for { seconds: 90 } disagreement { seconds: 700 }
                       hosts_disagree: 2 synchronised: false)");

  TenantFacts& tenant = facts.tenants[0];
  Add(*tenant.usage, R"(quotas { max_policies: 5 max_pending_events: 1000 }
                        schedule_count: 90 policy_count: 5 pending_event_count: 1000)");
  for (int i = 0; i <= kTargetsNamedMax; ++i) {
    v1::TargetStatus& target = tenant.targets.emplace_back();
    Add(target, R"(endpoint: "http://billing:80" state: OPEN
                   down_since_time { seconds: 1799999940 } last_error: "connection refused")");
    target.set_name(absl::StrCat("tenants/default/targets/t", i));
  }
  tenant.targets[1].set_state(v1::TargetStatus::HALF_OPEN);
  Add(tenant.dead_letters.emplace_back(), R"(
    event: "tenants/default/events/reminder-7" reason: "status 503"
    create_time { seconds: 1799999940 })");

  AddProcess(facts, "http://store-x:7401/metrics",
             R"(escapement_build_info{program="store",version="1.2.2",commit="old"} 1
escapement_store_accepting 1
escapement_store_leads 1
escapement_store_disk_free_bytes 9e8
escapement_store_disk_size_bytes 1e10
escapement_store_write_stall 1
escapement_tls_certificate_expiry_seconds{file="/tls/soon.crt"} 1800001000
escapement_tls_certificate_lifetime_seconds{file="/tls/soon.crt"} 7776000
escapement_tls_certificate_refused{file="/tls/soon.crt"} 1
escapement_tls_certificate_expiry_seconds{file="/tls/late.crt"} 1799999900
escapement_tls_certificate_lifetime_seconds{file="/tls/late.crt"} 7776000
)");
  AddProcess(facts, "http://master-x:7411", R"(escapement_ready{program="master"} 0
escapement_tzdata_info{version="2026a",rev_in_store="2"} 1
escapement_master_emission_behind_seconds 21
escapement_master_heartbeat_late_seconds 33
)");
  AddProcess(facts, "http://handler-x:7431",
             R"(escapement_handler_oldest_overdue_seconds 9999.5
escapement_handler_broken_rows_total 2
escapement_emitter_behind_seconds 61
escapement_run_at_risk 2
escapement_leases_held{program="emitter"} 0
escapement_leases_owned{program="emitter"} 18
escapement_leases_wanted{program="emitter"} 20
)");
  AddProcess(facts, "http://tokens-x:7441",
             R"(escapement_ready{program="token"} 0
escapement_token_manager_holders_overdue 3
escapement_token_manager_oldest_waiting_seconds 901
escapement_token_manager_policy_events_waiting{policy="tenants/t/policies/full"} 7
escapement_token_manager_policy_tokens_held{policy="tenants/t/policies/full"} 5
escapement_token_manager_policy_limit{policy="tenants/t/policies/full"} 5
escapement_token_manager_policy_newest_token_seconds{policy="tenants/t/policies/full"} 901
escapement_token_manager_policy_events_waiting{policy="tenants/t/policies/free"} 4
escapement_token_manager_policy_tokens_held{policy="tenants/t/policies/free"} 0
escapement_token_manager_policy_limit{policy="tenants/t/policies/free"} +Inf
escapement_token_manager_policy_newest_token_seconds{policy="tenants/t/policies/free"} 0
)");
  facts.processes.push_back(
      {.url = "http://gone:7421", .problem = "http://gone:7421 cannot be reached"});
  return facts;
}

// The master tells nothing, so only metrics do.
Facts WrongUnreachedFacts() {
  Facts facts{.now = kDoctorNow, .version = "1.2.4 (commit def)", .server = "master:7410"};
  facts.server_problem = "connection refused";
  facts.server_advice = "is a master at master:7410? --server or --context names another one";
  facts.unseen = {{"tenants", "escctl --key-file FILE doctor"}};
  AddProcess(facts, "http://store-a:7401",
             R"(escapement_build_info{program="store",version="1.2.3",commit="abc"} 1
escapement_store_accepting 0
escapement_store_refuses 1
escapement_store_log_safety 1
escapement_store_clock_hold 0
escapement_store_clock_disagreement_seconds -1.5
escapement_store_replica_lag_seconds 31
escapement_store_snapshot_age_seconds 172801
escapement_handler_targets{state="half_open",transport="grpc"} 2
)");
  return facts;
}

Facts WrongStoreFacts() {
  Facts facts{.now = kDoctorNow, .version = "1.2.3 (commit abc)", .server = "master:7410"};
  facts.store_problem = "the store does not answer";
  facts.unseen = {{.what = "the tenants: the master is not ready",
                   .action = "ask again in a minute",
                   .failed = true}};
  return facts;
}

Facts WrongClockFacts() {
  Facts facts = HealthyFacts();
  facts.clock->mutable_disagreement()->set_seconds(-2);
  return facts;
}

// One replica fewer than there should be.
Facts WrongFailoverFacts() {
  Facts facts = HealthyFacts();
  facts.replicas_expected = 3;
  return facts;
}

Facts WrongSingleFacts() {
  Facts facts = HealthyFacts();
  facts.replicas_expected = 2;
  facts.store->clear_replication();
  return facts;
}

}  // namespace

Facts HealthyFacts() {
  Facts facts{.now = kDoctorNow, .version = "1.2.3 (commit abc)", .server = "master:7410"};
  Add(facts.store.emplace(), R"(
    accepts_commits: true
    store_time { seconds: 1800000000 }
    replication {
      leader_address: "store-a:7400"
      snapshot_seq: 100
      snapshot_time { seconds: 1799996400 }
      replicas { store_id: "store-a" address: "store-a:7400" role: LEADER }
      replicas { store_id: "store-b" address: "store-b:7400" role: FOLLOWER
                 behind { seconds: 30 } reported_ago { seconds: 2 } }
    })");
  Add(facts.clock.emplace(), "disagreement { nanos: 2000000 } synchronised: true hosts: 3");
  TenantFacts& tenant = facts.tenants.emplace_back(TenantFacts{.id = "default"});
  Add(tenant.usage.emplace(), "quotas { max_schedules: 100 } schedule_count: 89 policy_count: 50");
  Add(tenant.targets.emplace_back(), "state: CLOSED");
  facts.all_tenants = true;
  AddProcess(facts, "http://store-a:7401", kHealthyStore);
  AddProcess(facts, "http://store-b:7401", kHealthyFollower);
  AddProcess(facts, "http://master:7411", kHealthyMaster);
  AddProcess(facts, "http://emitter:7421", kHealthyEmitter);
  AddProcess(facts, "http://handler-a:7431", kHealthyHandler);
  AddProcess(facts, "http://handler-b:7431", kHealthyHandler);
  AddProcess(facts, "http://tokens:7441", kHealthyTokenManager);
  return facts;
}

void AddProcess(Facts& facts, const std::string& url, absl::string_view metrics) {
  facts.processes.push_back({.url = url, .samples = ReadMetrics(metrics)});
}

std::vector<Facts> WrongFacts() {
  return {WrongReplicatedFacts(), WrongUnreachedFacts(), WrongStoreFacts(),
          WrongClockFacts(),      WrongFailoverFacts(),  WrongSingleFacts()};
}

}  // namespace escapement::escctl::testing
