#include "tools/escctl/doctor/testing/wrong_facts.h"

namespace escapement::escctl::testing {
namespace {

v1::StoreReplica* AddReplicaFacts(Facts& facts, const std::string& id,
                                  v1::StoreReplica::Role role) {
  v1::StoreReplica* replica = facts.store->mutable_replication()->add_replicas();
  replica->set_store_id(id);
  replica->set_address(id + ":7400");
  replica->set_role(role);
  return replica;
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
  facts.store->set_accepts_commits(false);
  v1::StoreReplication& log = *facts.store->mutable_replication();
  log.mutable_snapshot_time()->set_seconds(absl::ToUnixSeconds(kDoctorNow) - 180000);
  log.add_log_problems("synchronous_commit is off: a crash loses commits");
  log.mutable_replicas(0)->set_role(v1::StoreReplica::CANDIDATE);
  log.mutable_replicas(1)->mutable_behind()->set_seconds(31);
  AddReplicaFacts(facts, "store-c", v1::StoreReplica::REFUSING)->set_problem("row 7 is missing");
  AddReplicaFacts(facts, "store-d", v1::StoreReplica::FOLLOWER)
      ->mutable_reported_ago()
      ->set_seconds(600);
  AddReplicaFacts(facts, "store-e", v1::StoreReplica::FOLLOWER)->set_problem("no disk space");
  v1::StoreReplica* silent = log.add_replicas();
  silent->set_address("store-f:7400");
  silent->set_problem("does not answer: connection refused");
  facts.clock->set_held(true);
  facts.clock->mutable_held_for()->set_seconds(90);
  facts.clock->mutable_disagreement()->set_seconds(700);
  facts.clock->set_hosts(3);
  facts.clock->set_hosts_disagree(2);
  facts.clock->set_synchronised(false);

  TenantFacts& tenant = facts.tenants[0];
  tenant.usage->set_schedule_count(90);
  tenant.usage->mutable_quotas()->set_max_policies(5);
  tenant.usage->set_policy_count(5);
  tenant.usage->mutable_quotas()->set_max_pending_events(1000);
  tenant.usage->set_pending_event_count(1000);
  for (int i = 0; i <= kTargetsNamedMax; ++i) {
    v1::TargetStatus target;
    target.set_name("tenants/default/targets/t" + std::to_string(i));
    target.set_endpoint("http://billing:80");
    target.set_state(i == 0 ? v1::TargetStatus::HALF_OPEN : v1::TargetStatus::OPEN);
    target.mutable_down_since_time()->set_seconds(absl::ToUnixSeconds(kDoctorNow) - 60);
    target.set_last_error("connection refused");
    tenant.targets.push_back(target);
  }
  v1::DeadLetter letter;
  letter.set_event("tenants/default/events/reminder-7");
  letter.set_reason("status 503");
  letter.mutable_create_time()->set_seconds(absl::ToUnixSeconds(kDoctorNow) - 60);
  tenant.dead_letters = {letter};

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
)");
  AddProcess(facts, "http://handler-x:7431",
             R"(escapement_handler_oldest_overdue_seconds 9999.5
escapement_handler_broken_rows_total 2
escapement_emitter_behind_seconds 61
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
  facts.store.emplace();
  facts.store->set_accepts_commits(true);
  facts.store->mutable_store_time()->set_seconds(absl::ToUnixSeconds(kDoctorNow));
  v1::StoreReplication& log = *facts.store->mutable_replication();
  log.set_leader_address("store-a:7400");
  log.set_snapshot_seq(100);
  log.mutable_snapshot_time()->set_seconds(absl::ToUnixSeconds(kDoctorNow) - 3600);
  AddReplicaFacts(facts, "store-a", v1::StoreReplica::LEADER);
  v1::StoreReplica* follower = AddReplicaFacts(facts, "store-b", v1::StoreReplica::FOLLOWER);
  follower->mutable_behind()->set_seconds(30);
  follower->mutable_reported_ago()->set_seconds(2);
  facts.clock.emplace();
  facts.clock->mutable_disagreement()->set_nanos(2'000'000);
  facts.clock->set_synchronised(true);
  facts.clock->set_hosts(3);
  TenantFacts tenant{.id = "default", .usage = v1::TenantUsage()};
  tenant.usage->mutable_quotas()->set_max_schedules(100);
  tenant.usage->set_schedule_count(89);
  tenant.usage->set_policy_count(50);
  v1::TargetStatus target;
  target.set_state(v1::TargetStatus::CLOSED);
  tenant.targets = {target};
  facts.tenants = {tenant};
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
