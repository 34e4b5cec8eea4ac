#include "common/kv/log/pg/pg_findings.h"

#include <algorithm>

#include "gtest/gtest.h"

namespace escapement::kv {
namespace pg_findings_test {

using Severity = PgFinding::Severity;

PgServerFacts Good() {
  PgServerFacts facts;
  facts.version = 150018;
  facts.data_checksums = true;
  facts.synchronous_standby_names = "standby";
  facts.synchronous_standbys = 1;
  return facts;
}

bool Finds(const PgServerFacts& facts, const std::string& name, Severity severity) {
  const auto findings = JudgePgServer(facts);
  return std::any_of(findings.begin(), findings.end(), [&](const PgFinding& finding) {
    return finding.name == name && finding.severity == severity;
  });
}

TEST(PgFindings, GoodServerHasOneNote) {
  const auto findings = JudgePgServer(Good());
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].name, "loss");
  EXPECT_EQ(findings[0].severity, Severity::kNote);
}

TEST(PgFindings, EachWeaknessIsFound) {
  PgServerFacts facts = Good();
  facts.fsync = false;
  EXPECT_TRUE(Finds(facts, "fsync", Severity::kDanger));
  EXPECT_TRUE(Finds(facts, "loss", Severity::kDanger));
  facts = Good();
  facts.full_page_writes = false;
  EXPECT_TRUE(Finds(facts, "full_page_writes", Severity::kDanger));
  facts = Good();
  facts.synchronous_standby_names = "";
  facts.synchronous_standbys = 0;
  EXPECT_TRUE(Finds(facts, "loss", Severity::kWarning));
  EXPECT_FALSE(Finds(facts, "synchronous_standby_names", Severity::kWarning));
  facts.storage_replicated = true;
  EXPECT_TRUE(Finds(facts, "loss", Severity::kNote));
  facts.fsync = false;
  EXPECT_TRUE(Finds(facts, "loss", Severity::kDanger));
  facts = Good();
  facts.synchronous_standbys = 0;
  EXPECT_TRUE(Finds(facts, "synchronous_standby_names", Severity::kWarning));
  facts.sees_standbys = false;
  EXPECT_FALSE(Finds(facts, "synchronous_standby_names", Severity::kWarning));
  facts = Good();
  facts.synchronous_commit = "remote_write";
  EXPECT_TRUE(Finds(facts, "loss", Severity::kWarning));
  facts = Good();
  facts.synchronous_commit = "off";
  EXPECT_TRUE(Finds(facts, "synchronous_commit", Severity::kNote));
  facts = Good();
  facts.in_recovery = true;
  EXPECT_TRUE(Finds(facts, "read_only", Severity::kWarning));
  facts = Good();
  facts.pooler = true;
  EXPECT_TRUE(Finds(facts, "pooler", Severity::kNote));
  facts.pooler_mixes_sessions = true;
  EXPECT_TRUE(Finds(facts, "pooler", Severity::kDanger));
  facts = Good();
  facts.version = 110000;
  EXPECT_TRUE(Finds(facts, "version", Severity::kDanger));
}

}  // namespace pg_findings_test
}  // namespace escapement::kv
