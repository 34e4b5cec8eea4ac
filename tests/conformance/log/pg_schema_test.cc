// The log's schema: made, migrated and refused.

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/kv/log/pg/pg_connection.h"
#include "common/kv/log/pg/pg_findings.h"
#include "gtest/gtest.h"
#include "tests/conformance/log/pg_log_rig.h"

namespace escapement::kv {
namespace pg_schema_test {

using fixtures::Postgres;
using fixtures::RunSql;

// A new, empty database; returns its URL.
std::string NewDatabase() {
  static int databases = 0;
  const std::string name = absl::StrCat("schema_", ++databases);
  EXPECT_TRUE(TestPostgres().Sql(absl::StrCat("CREATE DATABASE ", name)).ok());
  return TestPostgres().Url(name);
}

constexpr PgSchemaStep kOne = "CREATE TABLE escapement.one (n int)";
constexpr PgSchemaStep kTwo = "ALTER TABLE escapement.one ADD COLUMN m int";

TEST(PgSchema, FirstStartMakesAllAndLaterOnesNothing) {
  const std::string url = NewDatabase();
  EXPECT_EQ(MigratePgSchema(url, PgSchemaSteps()).value(), 0);
  EXPECT_EQ(MigratePgSchema(url, PgSchemaSteps()).value(),
            static_cast<int>(PgSchemaSteps().size()));
  PgRig rig(url, "default", {});
  EXPECT_EQ(rig.Lead(0, "a").term.epoch, 1u);
}

TEST(PgSchema, OlderSchemaIsMigratedStepByStep) {
  const std::string url = NewDatabase();
  ASSERT_TRUE(MigratePgSchema(url, {kOne}).ok());
  ASSERT_TRUE(RunSql(url, "INSERT INTO escapement.one VALUES (7)").ok());
  EXPECT_EQ(MigratePgSchema(url, {kOne, kTwo}).value(), 1);
  EXPECT_EQ(RunSql(url, "SELECT n FROM escapement.one WHERE m IS NULL").value()[0][0], "7");
}

TEST(PgSchema, FailedStepLeavesTheOldVersion) {
  const std::string url = NewDatabase();
  ASSERT_TRUE(MigratePgSchema(url, {kOne}).ok());
  EXPECT_FALSE(MigratePgSchema(url, {kOne, kTwo, "nonsense"}).ok());
  EXPECT_EQ(MigratePgSchema(url, {kOne}).value(), 1);
  EXPECT_FALSE(RunSql(url, "SELECT m FROM escapement.one").ok());
}

TEST(PgSchema, NewerSchemaIsRefused) {
  const std::string url = NewDatabase();
  ASSERT_TRUE(MigratePgSchema(url, {kOne, kTwo}).ok());
  EXPECT_EQ(MigratePgSchema(url, {kOne}).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(PgSchema, SeveralProcessesMigrateAtOnce) {
  constexpr int kRounds = 50, kProcesses = 16;
  const std::string url = NewDatabase();
  for (int round = 0; round < kRounds; ++round) {
    std::vector<absl::StatusOr<int>> results(kProcesses, -2);
    std::vector<std::thread> threads;
    absl::Notification begin;
    for (auto& result : results) {
      threads.emplace_back([&] {
        begin.WaitForNotification();
        result = MigratePgSchema(url, PgSchemaSteps());
      });
    }
    begin.Notify();
    for (std::thread& thread : threads) thread.join();
    int made = 0;
    for (const auto& result : results) {
      ASSERT_TRUE(result.ok()) << "round " << round << ": " << result.status();
      made += *result == 0;
    }
    EXPECT_EQ(made, 1);
    ASSERT_TRUE(RunSql(url, "DROP SCHEMA escapement CASCADE").ok());
  }
}

TEST(PgSchema, LogMakesItOnceTheServerAnswers) {
  const std::string url = TestPostgres().Url("not_yet");
  int made = 0;  // both connections of a log share one success
  PgRig rig(url, "default", {.before_connect = [&] {
              const absl::Status status = MigratePgSchema(url, PgSchemaSteps()).status();
              made += status.ok() ? 1 : 0;
              return status;
            }});
  const auto read = [&] {
    return rig.Call<absl::StatusOr<LogState>>(
        [&](auto done) { rig.log(0).ReadState(std::move(done)); });
  };
  EXPECT_EQ(read().status().code(), absl::StatusCode::kUnavailable);
  ASSERT_TRUE(TestPostgres().Sql("CREATE DATABASE not_yet").ok());
  const auto state = read();
  EXPECT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(rig.Lead(0, "a").term.epoch, 1u);
  EXPECT_EQ(made, 1);
}

TEST(PgReplicaName, IsHeldByOneProcessOfALog) {
  const std::string url = NewDatabase();
  auto first = HoldReplicaName(url, "default", "it's 1");
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::Status second = HoldReplicaName(url, "default", "it's 1").status();
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition) << second;
  EXPECT_NE(second.message().find("--store_id"), std::string::npos) << second;
  EXPECT_TRUE(HoldReplicaName(url, "default", "it's 2").ok());
  EXPECT_TRUE(HoldReplicaName(url, "other", "it's 1").ok());
  first->reset();
  EXPECT_TRUE(HoldReplicaName(url, "default", "it's 1").ok());
}

TEST(PgSchema, RoleWithoutRightsUsesWhatIsThere) {
  const std::string url = NewDatabase();
  ASSERT_TRUE(RunSql(url, "DROP ROLE IF EXISTS modest; CREATE ROLE modest LOGIN").ok());
  const std::string modest = absl::StrCat(url.substr(0, url.find("&user=")), "&user=modest");
  EXPECT_EQ(MigratePgSchema(modest, PgSchemaSteps()).status().code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(MigratePgSchema(url, PgSchemaSteps()).ok());
  ASSERT_TRUE(RunSql(url,
                     "GRANT USAGE ON SCHEMA escapement TO modest; GRANT SELECT, INSERT, UPDATE, "
                     "DELETE ON ALL TABLES IN SCHEMA escapement TO modest")
                  .ok());
  const auto migrated = MigratePgSchema(modest, PgSchemaSteps());
  EXPECT_TRUE(migrated.ok()) << migrated.status();
  PgRig rig(modest, "default", {});
  const LeadResult led = rig.Lead(0, "a");
  EXPECT_EQ(rig.Append(0, Rows(led.term, led.last, {"row"})).outcome,
            AppendResult::Outcome::kAcknowledged);
  ASSERT_TRUE(rig.PutPart(1, PartsOf("state")[0]).ok());
  EXPECT_TRUE(rig.PutSnapshot(1, {led.last, {FileOf("state")}, ""}).ok());
  EXPECT_TRUE(rig.Trim(1, 1).ok());
}

TEST(PgSchema, LogWithoutSchemaSaysSo) {
  PgRig rig(NewDatabase(), "default", {});
  const auto state =
      rig.Call<absl::StatusOr<LogState>>([&](auto done) { rig.log(0).ReadState(std::move(done)); });
  EXPECT_EQ(state.status().code(), absl::StatusCode::kFailedPrecondition) << state.status();
}

TEST(PgFindings, FactsAreTheServers) {
  const auto facts = ReadPgServerFacts(TestPostgres().url());
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_TRUE(facts->fsync);
  EXPECT_TRUE(facts->full_page_writes);
  EXPECT_FALSE(facts->in_recovery);
  EXPECT_FALSE(facts->read_only);
  EXPECT_FALSE(facts->pooler);
  EXPECT_TRUE(facts->sees_standbys);
  EXPECT_GE(facts->version, 150000);
  EXPECT_EQ(facts->synchronous_commit, "on");
  EXPECT_EQ(facts->synchronous_standby_names, "");
}

}  // namespace pg_schema_test
}  // namespace escapement::kv
