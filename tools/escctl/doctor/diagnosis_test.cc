#include "tools/escctl/doctor/diagnosis.h"

#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tools/escctl/doctor/testing/wrong_facts.h"

namespace escapement::escctl {
namespace diagnosis_test {

using testing::AddProcess;
using ::testing::ElementsAre;
using testing::HealthyFacts;
using ::testing::IsEmpty;
using testing::kDoctorNow;
using testing::WrongFacts;

std::string Line(const Finding& finding) {
  return absl::StrCat(SeverityText(finding.severity), " ", finding.place, ": ", finding.problem);
}

std::vector<std::string> Lines(const Facts& facts) {
  std::vector<std::string> lines;
  for (const Finding& finding : Diagnose(facts)) lines.push_back(Line(finding));
  return lines;
}

std::string FileText(const std::string& path) {
  std::ifstream in(path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

TEST(DiagnosisTest, HealthyInstallationHasNoFinding) {
  EXPECT_THAT(Lines(HealthyFacts()), IsEmpty());
}

TEST(DiagnosisTest, EachFaultOfAReplicatedInstallationIsFound) {
  EXPECT_THAT(
      Lines(WrongFacts()[0]),
      ElementsAre(
          "CRITICAL token: no process of token that was asked is ready",
          "CRITICAL emitter: no process is known to hold 2 of 20 shards or partitions of emitter: "
          "their events wait",
          "CRITICAL http://handler-x:7431: its oldest event has been due for 2h46m39s and is not "
          "sent",
          "CRITICAL http://handler-x:7431: its emitter is 1m1s behind: what was due since is not "
          "written",
          "CRITICAL http://master-x:7411: emission is 21s behind, as this master reads it",
          "CRITICAL http://master-x:7411: a heartbeat has been due for 33s and has not ended, as "
          "this master reads it",
          "CRITICAL http://store-x:7401/metrics: only 9.0 % of its disk is free",
          "CRITICAL store: 2 replicas say that they lead",
          "CRITICAL store: the store's disk is full, so it refuses commits",
          "CRITICAL store: no replica leads, so nothing is committed or sent",
          "CRITICAL clock: nothing has been planned for 1m30s: the wall clock of the store's "
          "machine "
          "is +700.0 s from store time",
          "WARNING http://gone:7421: it does not answer: http://gone:7421 cannot be reached",
          "WARNING http://master-x:7411: master is not ready",
          "WARNING versions: the processes have several versions: 1.2.2 (commit old) at "
          "http://store-x:7401/metrics; 1.2.3 (commit abc) at http://emitter:7421, "
          "http://handler-a:7431, http://handler-b:7431, http://master:7411, "
          "http://store-a:7401, http://store-b:7401, http://tokens:7441",
          "WARNING versions: the processes have several time zone databases: 2026a at "
          "http://master-x:7411; 2026b at http://emitter:7421, http://master:7411",
          "WARNING http://handler-x:7431: it has met records that cannot be read "
          "(escapement_handler_broken_rows_total is 2)",
          "WARNING tenants/t/policies/free: 4 events wait for it, tokens are free, and it gives "
          "none",
          "WARNING tenants/t/policies/full: 7 events wait for it, all 5 tokens are out, and none "
          "has come back for 15m1s",
          "WARNING throttling: 3 tokens are out although their hold time has ended",
          "WARNING throttling: 2 runs are too slow for their windows",
          "WARNING http://store-x:7401/metrics: RocksDB slows writes down until it has compacted",
          "WARNING http://store-x:7401/metrics: /tls/late.crt expired 1m40s ago",
          "WARNING http://store-x:7401/metrics: /tls/soon.crt cannot be used as it is on disk; "
          "the former file stays in force",
          "WARNING http://store-x:7401/metrics: /tls/soon.crt expires in 16m40s",
          "WARNING store store-b: its copy has lacked rows of the log for 31s",
          "WARNING store store-c: it refuses the log: row 7 is missing",
          "WARNING store store-d: it has not reported itself for 10m",
          "WARNING store store-e: no disk space",
          "WARNING store store-f:7400: it does not answer: connection refused",
          "WARNING store: the newest snapshot is 50h old",
          "WARNING PostgreSQL: synchronous_commit is off: a crash loses commits",
          "WARNING clock: the clocks of 2 of 3 other machines are more than a second from that of "
          "the store",
          "WARNING tenant default: it has 90 of at most 100 schedules",
          "WARNING tenant default: it has 5 of at most 5 policies",
          "WARNING tenant default: it has 1000 of at most 1000 pending events",
          "WARNING tenant default: the target http://billing:80 has been down since "
          "2027-01-15T07:59:00Z, and its events wait: connection refused",
          ::testing::_, ::testing::_, ::testing::_, ::testing::_, ::testing::_, ::testing::_,
          ::testing::_, ::testing::_, ::testing::_,
          "WARNING tenant default: 11 targets are down in all",
          "WARNING tenant default: 1 event has failed for good, 1 of them in the last 24 hours; "
          "the newest: reminder-7: status 503",
          "NOTE emitter: 2 of 20 shards or partitions of emitter belong to processes that were not "
          "asked, or did not answer",
          "NOTE clock: the store's machine says that its clock is not synchronised"));
}

TEST(DiagnosisTest, MetricsTellWhatTheMasterCannot) {
  EXPECT_THAT(
      Lines(WrongFacts()[1]),
      ElementsAre("CRITICAL master:7410: no master answers: connection refused",
                  "CRITICAL http://store-a:7401: its disk is full, so it refuses commits",
                  "CRITICAL http://store-a:7401: its wall clock is -1.5 s from store time",
                  "WARNING http://store-a:7401: its copy has lacked rows of the log for 31s",
                  "WARNING http://store-a:7401: the newest snapshot is 48h1s old",
                  "WARNING http://store-a:7401: the settings of PostgreSQL let a crash "
                  "damage the log",
                  "WARNING http://store-a:7401: it refuses the log, which lacks commits "
                  "that it has acknowledged",
                  "WARNING targets: 2 endpoints of transport grpc are down (counted once "
                  "for each handler), and their events wait",
                  "NOTE versions: escctl has version 1.2.4 (commit def), the processes "
                  "have 1.2.3 (commit abc)",
                  "NOTE not checked: tenants"));
  EXPECT_THAT(Lines(WrongFacts()[2]),
              ElementsAre("CRITICAL store: the master has no answer of the store: the store does "
                          "not answer",
                          "WARNING master:7410: the master has no answer about the tenants: the "
                          "master is not ready"));
  EXPECT_THAT(Lines(WrongFacts()[3]), ElementsAre("CRITICAL clock: the wall clock of the store's "
                                                  "machine is -2.0 s from store time"));
}

TEST(DiagnosisTest, FullDiskIsToldOnce) {
  Facts facts = HealthyFacts();
  facts.store->set_accepts_commits(false);
  AddProcess(facts, "http://x:1", "escapement_store_accepting 0\n");
  EXPECT_THAT(Lines(facts),
              ElementsAre("CRITICAL http://x:1: its disk is full, so it refuses commits"));
}

// Other findings with the same words are of other disks.
TEST(DiagnosisTest, FullDiskOfTheStoreIsToldBesideOtherFullDisks) {
  Facts facts = HealthyFacts();
  facts.store->set_accepts_commits(false);
  facts.processes.push_back({.url = "http://x:1", .problem = "500 the disk is full"});
  AddProcess(facts, "http://follower:1",
             "escapement_store_leads 0\nescapement_store_accepting 0\n");
  EXPECT_THAT(Lines(facts),
              ElementsAre("CRITICAL http://follower:1: its disk is full, so it refuses commits",
                          "CRITICAL store: the store's disk is full, so it refuses commits",
                          "WARNING http://x:1: it does not answer: 500 the disk is full"));
}

// Half of the processes are named: what the others hold is no fault.
TEST(DiagnosisTest, ShardsOfProcessesThatWereNotAskedMakeANote) {
  Facts facts = HealthyFacts();
  std::erase_if(facts.processes,
                [](const ProcessFacts& it) { return it.url == "http://handler-b:7431"; });
  EXPECT_THAT(
      Lines(facts),
      ElementsAre("NOTE handler: 4 of 8 shards or partitions of handler belong to processes "
                  "that were not asked, or did not answer"));
}

TEST(DiagnosisTest, FollowerThatIsAskedAloneIsWell) {
  Facts facts = HealthyFacts();
  const std::vector<ProcessFacts> all = facts.processes;
  facts.processes = {all[1]};
  EXPECT_THAT(
      Lines(facts),
      ElementsAre("NOTE store: each process of store that was asked follows; none of them leads"));
  // The master says itself that none leads.
  facts.store->mutable_replication()->mutable_replicas(0)->set_role(v1::StoreReplica::FOLLOWER);
  EXPECT_THAT(Lines(facts),
              ElementsAre("CRITICAL store: no replica leads, so nothing is committed or sent"));
  facts.store.reset();
  EXPECT_THAT(
      Lines(facts),
      ElementsAre(
          "WARNING store: each process of store that was asked follows; none of them leads"));
  AddProcess(facts, "http://store-c:7401",
             "escapement_ready{program=\"store\"} 0\nescapement_store_leads 0\n"
             "escapement_store_refuses 1\n");
  const std::vector<Finding> findings = Diagnose(facts);
  EXPECT_EQ(Line(findings[0]), "CRITICAL store: no process of store that was asked is ready");
  EXPECT_EQ(findings[0].action, "curl http://store-c:7401/readyz says what it waits for");
}

TEST(DiagnosisTest, StoreThatIsTooOldIsUpgraded) {
  Facts facts = HealthyFacts();
  const std::string words =
      "no store leads: store-a:7400: the store's leader speaks 0, this program "
      "needs 1: upgrade the store first";
  facts.store_problem = words;
  facts.unseen = {{.what = "the clocks: " + words, .action = "ask again", .failed = true}};
  const std::vector<Finding> findings = Diagnose(facts);
  ASSERT_EQ(findings.size(), 2u);
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.action,
              "upgrade the store, or put the former version of the other services back");
    EXPECT_EQ(finding.page, "docs/operations/upgrade.md");
  }
}

TEST(DiagnosisTest, CommandForAProcessHasTheFilesOfTls) {
  Facts facts = HealthyFacts();
  facts.curl_tls = "--cacert ca.pem ";
  for (const char* url : {"https://x:1", "http://x:1"})
    AddProcess(facts, url, "escapement_ready{program=\"master\"} 0\n");
  const std::vector<Finding> findings = Diagnose(facts);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].action, "curl --cacert ca.pem https://x:1/readyz says what it waits for");
  EXPECT_EQ(findings[1].action, "curl http://x:1/readyz says what it waits for");
}

// The alert takes a log that one failure can damage for what the operator wants.
TEST(DiagnosisTest, KnownSafetyOfTheLogMakesANote) {
  Facts facts = HealthyFacts();
  facts.store->mutable_replication()->add_log_problems("there is no synchronous standby");
  AddProcess(facts, "http://x:1", "escapement_store_log_safety 2\n");
  EXPECT_THAT(Lines(facts), ElementsAre("NOTE PostgreSQL: there is no synchronous standby"));
}

TEST(DiagnosisTest, StandaloneWithoutReplicasHasNoLeaderToMiss) {
  Facts facts = HealthyFacts();
  facts.store->clear_replication();
  EXPECT_THAT(Lines(facts), IsEmpty());
}

TEST(DiagnosisTest, FailoverNeedsEachReplicaThatIsExpected) {
  Facts facts = HealthyFacts();
  facts.replicas_expected = 2;
  EXPECT_THAT(Lines(facts), IsEmpty());
  EXPECT_THAT(Lines(WrongFacts()[4]),
              ElementsAre("CRITICAL store: only 2 of 3 replicas of the store lead or could take "
                          "over now"));
  EXPECT_THAT(Lines(WrongFacts()[5]),
              ElementsAre("CRITICAL store: it is one process, so no other can take over"));
  const auto spoilt = [&](const auto& spoil) {
    Facts wrong = facts;
    spoil(*wrong.store->mutable_replication()->mutable_replicas(1));
    return Lines(wrong);
  };
  const std::string one =
      "CRITICAL store: only 1 of 2 replicas of the store lead or could take "
      "over now";
  EXPECT_THAT(spoilt([](v1::StoreReplica& it) { it.set_role(v1::StoreReplica::STARTING); }),
              ElementsAre(one));
  EXPECT_THAT(spoilt([](v1::StoreReplica& it) { it.set_role(v1::StoreReplica::REFUSING); }),
              ElementsAre(one, "WARNING store store-b: it refuses the log: "));
  EXPECT_THAT(spoilt([](v1::StoreReplica& it) { it.mutable_reported_ago()->set_seconds(16); }),
              ElementsAre(one, "WARNING store store-b: it has not reported itself for 16s"));
  EXPECT_THAT(
      spoilt([](v1::StoreReplica& it) { it.mutable_behind()->set_seconds(31); }),
      ElementsAre(one, "WARNING store store-b: its copy has lacked rows of the log for 31s"));
  EXPECT_THAT(spoilt([](v1::StoreReplica& it) { it.set_problem("no disk space"); }),
              ElementsAre(one, "WARNING store store-b: no disk space"));
}

TEST(DiagnosisTest, RemovedReplicaIsNotMissedIfAllExpectedOnesAreThere) {
  Facts facts = HealthyFacts();
  v1::StoreReplica& removed = *facts.store->mutable_replication()->add_replicas();
  removed.set_store_id("store-c");
  removed.set_role(v1::StoreReplica::FOLLOWER);
  removed.mutable_reported_ago()->set_seconds(3600);
  EXPECT_THAT(Lines(facts),
              ElementsAre("WARNING store store-c: it has not reported itself for 1h"));
  facts.replicas_expected = 2;
  EXPECT_THAT(Lines(facts), IsEmpty());
}

TEST(DiagnosisTest, FailoverIsNotReadyIfNobodySaysSo) {
  Facts facts = HealthyFacts();
  facts.replicas_expected = 2;
  facts.store.reset();
  facts.unseen = {{.what = "the store: permission denied", .action = "use the key of an admin"}};
  EXPECT_THAT(Lines(facts), ElementsAre("WARNING not checked: the store: permission denied"));
}

TEST(DiagnosisTest, OldDeadLettersAreANote) {
  Facts facts = HealthyFacts();
  v1::DeadLetter letter;
  letter.set_event("tenants/default/schedules/s/runs/r/events/1");
  letter.set_reason("refused");
  letter.mutable_create_time()->set_seconds(absl::ToUnixSeconds(kDoctorNow) - 86401);
  facts.tenants[0].dead_letters = {letter, letter};
  facts.tenants[0].more_dead_letters = true;
  EXPECT_THAT(
      Lines(facts),
      ElementsAre("NOTE tenant default: 2 or more events have failed for good, 0 of them in "
                  "the last 24 hours; the newest: 1: refused"));
}

TEST(DiagnosisTest, CertificateOfADayIsRenewedInItsLastHours) {
  const auto lines = [](int left) {
    Facts facts = HealthyFacts();
    AddProcess(facts, "http://x:1",
               absl::StrCat("escapement_tls_certificate_expiry_seconds{file=\"/c\"} ",
                            1'800'000'000 + left, "\n",
                            "escapement_tls_certificate_lifetime_seconds{file=\"/c\"} 86400\n"));
    return Lines(facts);
  };
  EXPECT_THAT(lines(14400), IsEmpty());
  EXPECT_THAT(lines(14399), ElementsAre("WARNING http://x:1: /c expires in 3h59m59s"));
}

TEST(DiagnosisTest, ThresholdsAreThoseOfTheAlerts) {
  std::set<std::pair<std::string, double>> alerts;
  for (const absl::string_view line :
       absl::StrSplit(FileText("deploy/prometheus/alerts.yaml"), '\n')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(" # value: ", 1));
    double number;
    if (absl::SimpleAtod(parts.first.substr(parts.first.rfind(' ') + 1), &number))
      alerts.insert({std::string(parts.second), number});
  }
  const std::vector<std::pair<std::string, double>> ours = {
      {"overdueSeconds", kOverdueSeconds},
      {"behindSeconds", kBehindSeconds},
      {"emissionBehindSeconds", kEmissionBehindSeconds},
      {"heartbeatLateSeconds", kHeartbeatLateSeconds},
      {"policyStuckSeconds", kPolicyStuckSeconds},
      {"holdersOverdue", kHoldersOverdue},
      {"runsAtRisk", kRunsAtRisk},
      {"diskFreeShare", kDiskFreeShare},
      {"followerLagSeconds", kFollowerLagSeconds},
      {"snapshotSeconds", kSnapshotSeconds},
      {"certificateSeconds", kCertificateSeconds},
      {"clockSeconds", kClockSeconds}};
  for (const auto& [name, number] : ours)
    EXPECT_TRUE(alerts.contains({name, number})) << name << " " << number;
}

// An alert that is new belongs to one of the two.
TEST(DiagnosisTest, EachAlertHasAFindingOrNeedsTime) {
  const std::set<std::string> need_time = {"EscapementLatenessBurns", "EscapementDeliveryBurns",
                                           "EscapementHeartbeatMissing", "EscapementLeasesFlap"};
  std::set<std::string> found = need_time;
  for (const Facts& facts : WrongFacts()) {
    for (const Finding& finding : Diagnose(facts)) {
      absl::string_view page = finding.page;
      if (absl::ConsumePrefix(&page, "docs/runbooks/") && absl::ConsumeSuffix(&page, ".md")) {
        EXPECT_FALSE(need_time.contains(std::string(page))) << page;
      }
      found.insert(std::string(page));
    }
  }
  const std::string guide = FileText("docs/operations/troubleshooting.md");
  for (const std::string& alert : need_time) EXPECT_TRUE(absl::StrContains(guide, alert)) << alert;
  size_t alerts = 0;
  for (absl::string_view line : absl::StrSplit(FileText("deploy/prometheus/alerts.yaml"), '\n')) {
    if (!absl::ConsumePrefix(&line, "      - alert: ")) continue;
    ++alerts;
    EXPECT_TRUE(found.contains(std::string(line))) << line;
  }
  EXPECT_GE(alerts, 18u);
}

TEST(DiagnosisTest, EachFindingSaysWhatToDoAndWhereToRead) {
  for (const Facts& facts : WrongFacts()) {
    for (const Finding& finding : Diagnose(facts)) {
      EXPECT_NE(finding.action, "") << Line(finding);
      EXPECT_NE(FileText(finding.page), "") << Line(finding) << ": " << finding.page;
    }
  }
}

TEST(DiagnosisTest, JsonHasEachFieldOfAFinding) {
  const auto json = nlohmann::json::parse(FindingsJson(Diagnose(WrongFacts()[3])));
  ASSERT_EQ(json.size(), 1u);
  EXPECT_EQ(json[0]["severity"], "CRITICAL");
  EXPECT_EQ(json[0]["place"], "clock");
  EXPECT_EQ(json[0]["page"], "docs/runbooks/EscapementClockDisagrees.md");
  EXPECT_TRUE(absl::StrContains(json[0]["problem"].get<std::string>(), "-2.0 s"));
  EXPECT_TRUE(absl::StrContains(json[0]["action"].get<std::string>(), "escctl store clock"));
  EXPECT_EQ(FindingsJson({}), "[]");
}

}  // namespace diagnosis_test
}  // namespace escapement::escctl
