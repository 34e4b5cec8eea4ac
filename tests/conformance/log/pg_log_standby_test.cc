// PgLog over a primary with a synchronous standby, which takes over.

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/kv/log/pg/pg_connection.h"
#include "common/kv/log/pg/pg_findings.h"
#include "gtest/gtest.h"
#include "tests/conformance/log/pg_log_rig.h"

namespace escapement::kv {
namespace pg_log_standby_test {

using Outcome = AppendResult::Outcome;
using fixtures::Postgres;

// A primary shows, after a crash, a commit that its standby does not have. No replica believes
// it, and after the takeover each notices that it is gone.
TEST(PgLogStandby, ShownRowThatIsLostIsNotBelieved) {
  // Its own, since it does not come back.
  auto server = Postgres::Start();
  ASSERT_TRUE(server.ok()) << server.status();
  Postgres& primary = **server;
  ASSERT_TRUE(MigratePgSchema(primary.url(), PgSchemaSteps()).ok());
  auto standby = Postgres::StartStandby(primary, {});
  ASSERT_TRUE(standby.ok()) << standby.status();
  ASSERT_TRUE(primary.Sql("ALTER SYSTEM SET synchronous_standby_names = 'standby'").ok());
  primary.One("SELECT pg_reload_conf()");
  while (primary.One("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") != "1") {
  }
  const auto facts = ReadPgServerFacts(primary.url());
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->synchronous_standbys, 1u);
  EXPECT_EQ(JudgePgServer(*facts).front().severity, PgFinding::Severity::kNote);

  PgRig rig(primary.url(), NewStoreName(), {.silence_max = absl::Seconds(1)});
  const LeadResult a = rig.Lead(0, "a");
  const AppendRequest kept = Rows(a.term, a.last, {"kept"});
  ASSERT_EQ(rig.Append(0, kept).outcome, Outcome::kAcknowledged);

  // The standby is down: the row is on the primary's disk, and no result comes.
  (*standby)->Crash();
  const AppendRequest lost = Rows(a.term, EndOf(kept), {"lost"});
  EXPECT_EQ(rig.Append(0, lost).outcome, Outcome::kUnknown);
  EXPECT_EQ(rig.Read(1, {.after = EndOf(kept)})->rows.size(), 0u);

  // The primary starts again and shows the row. A follower reads it.
  primary.Crash();
  ASSERT_TRUE(primary.Restart().ok());
  while (!rig.Read(1, {.after = EndOf(kept)}).ok()) {
  }
  const auto shown = rig.Read(1, {.after = EndOf(kept)});
  ASSERT_TRUE(shown.ok()) << shown.status();
  ASSERT_EQ(shown->rows.size(), 1u);
  // The leader finds it present. The append that would prove it is never acknowledged, and a
  // candidate's Lead is not either.
  EXPECT_EQ(rig.AppendSurely(0, lost).outcome, Outcome::kPresent);
  EXPECT_EQ(rig.Append(0, Rows(a.term, EndOf(lost), {"proof"})).outcome, Outcome::kUnknown);
  const LogState seen = rig.State(1);
  EXPECT_EQ(rig.TryLead(1, seen, "b").status().code(), absl::StatusCode::kUnavailable);

  // The primary is gone for good; the standby takes over without the row.
  primary.Crash();
  ASSERT_TRUE((*standby)->Restart().ok());
  ASSERT_TRUE((*standby)->Promote().ok());
  ASSERT_TRUE((*standby)->Sql("ALTER SYSTEM SET synchronous_standby_names = ''").ok());
  (*standby)->One("SELECT pg_reload_conf()");
  PgRig after((*standby)->url(), rig.store(), {});
  EXPECT_EQ(after.State(0).last, EndOf(kept));
  EXPECT_EQ(after.Read(0, {.after = EndOf(kept)})->rows.size(), 0u);
  // The follower that has applied the row, and a candidate that has seen it, notice.
  EXPECT_EQ(after.Read(1, {.after = EndOf(lost)}).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(after.TryLead(1, seen, "b").status().code(), absl::StatusCode::kAborted);
  // So does the leader. It has the row, and can append it again.
  EXPECT_EQ(after.AppendSurely(0, Rows(a.term, EndOf(lost), {"proof"})).outcome,
            Outcome::kConflict);
  EXPECT_EQ(after.AppendSurely(0, lost).outcome, Outcome::kAcknowledged);
  EXPECT_TRUE(after.Read(1, {.after = EndOf(lost)}).ok());
}

// The former primary lives on and only refuses writes, as after a failover without fencing.
TEST(PgLogStandby, ServerThatBecameReadOnlyIsLeftForTheOneThatAcceptsWrites) {
  auto server = Postgres::Start();
  ASSERT_TRUE(server.ok()) << server.status();
  Postgres& primary = **server;
  ASSERT_TRUE(MigratePgSchema(primary.url(), PgSchemaSteps()).ok());
  auto standby = Postgres::StartStandby(primary, {});
  ASSERT_TRUE(standby.ok()) << standby.status();
  ASSERT_TRUE(primary.Sql("ALTER SYSTEM SET synchronous_standby_names = 'standby'").ok());
  primary.One("SELECT pg_reload_conf()");
  while (primary.One("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") != "1") {
  }
  const std::string both = absl::StrCat("postgresql:///test?user=test&host=", primary.folder(), ",",
                                        (*standby)->folder());
  PgRig rig(both, NewStoreName(), {});
  // It only reads, from the one server.
  PgRig reader(primary.url(), rig.store(), {.hosts_asked_every = absl::Milliseconds(50)});
  const LeadResult a = rig.Lead(0, "a");
  EXPECT_EQ(reader.State(0).leader, a.term);
  const AppendRequest kept = Rows(a.term, a.last, {"kept"});
  ASSERT_EQ(rig.Append(0, kept).outcome, Outcome::kAcknowledged);

  ASSERT_TRUE((*standby)->Promote().ok());
  ASSERT_TRUE(primary.Sql("ALTER SYSTEM SET synchronous_standby_names = ''").ok());
  ASSERT_TRUE(primary.Sql("ALTER SYSTEM SET default_transaction_read_only = on").ok());
  primary.One("SELECT pg_reload_conf()");
  while (primary.One("SHOW default_transaction_read_only") != "on") {
  }
  const AppendRequest next = Rows(a.term, EndOf(kept), {"next"});
  Outcome outcome = rig.Append(0, next).outcome;
  for (int tries = 0; tries < 100 && outcome == Outcome::kNotApplied; ++tries)
    outcome = rig.Append(0, next).outcome;
  EXPECT_EQ(outcome, Outcome::kAcknowledged);
  PgRig after((*standby)->url(), rig.store(), {});
  EXPECT_EQ(after.State(0).last, EndOf(next));
  absl::Status read;
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (read.ok() && absl::Now() < deadline) read = reader.Read(0, {.after = a.first}).status();
  EXPECT_EQ(read.code(), absl::StatusCode::kUnavailable) << read;
}

// An operator may change the server's settings while the log is open.
TEST(PgLogStandby, OpenLogReadsTheServersPresentSettings) {
  auto server = Postgres::Start();
  ASSERT_TRUE(server.ok()) << server.status();
  Postgres& primary = **server;
  ASSERT_TRUE(MigratePgSchema(primary.url(), PgSchemaSteps()).ok());
  PgRig rig(primary.url(), NewStoreName(), {});
  auto& log = dynamic_cast<PgLog&>(rig.log(0));
  const auto read = [&] {
    return rig.Call<absl::StatusOr<PgServerFacts>>(
        [&](auto done) { log.ReadServerFacts(std::move(done)); });
  };
  auto facts = read();
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_TRUE(facts->fsync);
  EXPECT_TRUE(facts->full_page_writes);
  EXPECT_EQ(facts->synchronous_commit, "on");
  EXPECT_EQ(facts->synchronous_standby_names, "");
  EXPECT_GE(facts->version, 120000);

  for (const char* setting : {"fsync = off", "full_page_writes = off", "synchronous_commit = local",
                              "synchronous_standby_names = 'gone'"}) {
    ASSERT_TRUE(primary.Sql(absl::StrCat("ALTER SYSTEM SET ", setting)).ok());
  }
  primary.One("SELECT pg_reload_conf()");
  do {
    facts = read();
    ASSERT_TRUE(facts.ok()) << facts.status();
  } while (facts->fsync);
  EXPECT_FALSE(facts->full_page_writes);
  EXPECT_EQ(facts->synchronous_commit, "local");
  EXPECT_EQ(facts->synchronous_standby_names, "gone");
  EXPECT_EQ(facts->synchronous_standbys, 0u);
}

}  // namespace pg_log_standby_test
}  // namespace escapement::kv
