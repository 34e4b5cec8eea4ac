// PgLog while PostgreSQL and connections fail.

#include <postgresql/libpq-fe.h>
#include <signal.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/kv/log/pg/pg_session.h"
#include "common/kv/log/pg/pg_statements.h"
#include "common/kv/log/pg/pg_values.h"
#include "gtest/gtest.h"
#include "tests/conformance/log/pg_log_rig.h"

namespace escapement::kv {
namespace pg_log_faults_test {

using Outcome = AppendResult::Outcome;
using fixtures::Postgres;
using fixtures::RunSql;

// A connection that does only what the test says, in pipeline mode.
class RawWriter {
 public:
  explicit RawWriter(const PgRig& rig)
      : connection_(PQconnectdb(
            absl::StrCat(TestPostgres().url(), "&application_name=", rig.writer()).c_str())) {
    EXPECT_EQ(PQstatus(connection_), CONNECTION_OK);
    EXPECT_EQ(PQenterPipelineMode(connection_), 1);
  }
  ~RawWriter() { PQfinish(connection_); }

  // Sends the statement without what would end its transaction, and waits until it has run.
  void RunHalf(const std::string& sql, const std::vector<PgValue>& parameters = {}) {
    std::vector<const char*> values;
    std::vector<int> lengths;
    for (const PgValue& parameter : parameters) {
      values.push_back(parameter.bytes().data());
      lengths.push_back(static_cast<int>(parameter.bytes().size()));
    }
    const std::vector<int> formats(values.size(), 1);
    EXPECT_EQ(PQsendQueryParams(connection_, sql.c_str(), static_cast<int>(values.size()), nullptr,
                                values.data(), lengths.data(), formats.data(), 0),
              1);
    EXPECT_EQ(PQsendFlushRequest(connection_), 1);
    EXPECT_EQ(PQflush(connection_), 0);
    PGresult* const result = PQgetResult(connection_);
    EXPECT_EQ(PQresultStatus(result), PGRES_COMMAND_OK) << PQerrorMessage(connection_);
    EXPECT_EQ(PQcmdTuples(result), std::string("1"));
    PQclear(result);
  }
  // Ends the transaction; true if it has committed.
  bool Finish() {
    PQpipelineSync(connection_);
    while (true) {
      PGresult* const result = PQgetResult(connection_);
      if (result == nullptr) {  // the end of a statement's results
        if (PQstatus(connection_) == CONNECTION_BAD) return false;
        continue;
      }
      const ExecStatusType status = PQresultStatus(result);
      PQclear(result);
      if (status == PGRES_PIPELINE_SYNC) return true;
      if (status == PGRES_FATAL_ERROR) return false;
    }
  }

 private:
  PGconn* const connection_;
};

// The append of one row, with PgLog's own statement.
void RunHalfAppend(RawWriter& writer, const PgRig& rig, const AppendRequest& request) {
  const LogRow& row = request.rows.front();
  for (const PgStatement& statement : pg::WriterStatements()) {
    if (statement.name != absl::string_view(pg::kAppend)) continue;
    writer.RunHalf(statement.sql,
                   {PgValue::Text(rig.store()), PgValue::Bigint(request.term.epoch),
                    PgValue::Text(request.term.owner), PgValue::Bigint(request.after.seq),
                    PgValue::Bigint(request.after.chain), PgValue::Bigint(row.position.chain),
                    PgValue::Bytes(row.data)});
  }
}

class PgLogFaults : public testing::Test {
 protected:
  // How many connections have run the log's statements and wait for the event.
  std::string BackendsThatWait(const std::string& event) {
    return server_.One(
        absl::StrCat("SELECT count(*) FROM pg_stat_activity WHERE application_name = '",
                     rig_.writer(), "' AND wait_event = '", event, "'"));
  }
  void AwaitBackend(const std::string& event) {
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (BackendsThatWait(event) == "0") {
      ASSERT_LT(absl::Now(), deadline) << "no connection waits for " << event;
    }
  }
  void EndWriters(const std::string& how = "pg_terminate_backend", const std::string& which = "") {
    server_.One(absl::StrCat("SELECT count(", how, "(pid)) FROM pg_stat_activity ",
                             "WHERE application_name = '", rig_.writer(), "'", which));
  }
  void SetSynchronousStandby(const std::string& name) {
    ASSERT_TRUE(
        server_.Sql(absl::StrCat("ALTER SYSTEM SET synchronous_standby_names = '", name, "'"))
            .ok());
    server_.One("SELECT pg_reload_conf()");
    // The checkpointer has to take it over, too: it tells the backends.
    while (server_.One("SHOW synchronous_standby_names") != name) {
    }
  }

  Postgres& server_ = TestPostgres();
  PgRig rig_;
};

TEST_F(PgLogFaults, PausedLeaderWithOpenTransactionIsEnded) {
  const LeadResult a = rig_.Lead(0, "a");
  RawWriter paused(rig_);
  RunHalfAppend(paused, rig_, Rows(a.term, a.last, {"late"}));
  const LeadResult b = rig_.Lead(1, "b");
  EXPECT_EQ(b.last, a.last);
  EXPECT_EQ(rig_.Append(1, Rows(b.term, b.last, {"b"})).outcome, Outcome::kAcknowledged);
  EXPECT_FALSE(paused.Finish());
  EXPECT_EQ(rig_.Read(2, {.after = a.first})->rows.size(), 1u);
}

// A candidate's transaction stops after it has locked the leader's row, and the leader lives.
TEST_F(PgLogFaults, PausedCandidateDoesNotStopTheLeader) {
  const LeadResult a = rig_.Lead(0, "a");
  RawWriter paused(rig_);
  paused.RunHalf(absl::StrCat("UPDATE escapement.log_stores SET epoch = 2, owner = 'b' ",
                              "WHERE store = '", rig_.store(), "'"));
  EXPECT_EQ(rig_.AppendSurely(0, Rows(a.term, a.last, {"a"})).outcome, Outcome::kAcknowledged);
  EXPECT_FALSE(paused.Finish());
  EXPECT_EQ(rig_.State(2).leader, a.term);
}

// An append that ends while a Lead waits for it is part of what the Lead sees.
TEST_F(PgLogFaults, LeadSeesTheAppendItWaitedFor) {
  const LeadResult a = rig_.Lead(0, "a");
  const LogState seen = rig_.State(1);
  RawWriter slow(rig_);
  RunHalfAppend(slow, rig_, Rows(a.term, a.last, {"in time"}));
  auto lead = std::make_shared<LogAnswer<absl::StatusOr<LeadResult>>>();
  // The lock's timeout is long here: the wait must end by the commit.
  PgRig patient(server_.url(), rig_.store(), {.lock_timeout = absl::Seconds(9)});
  patient.log(1).Lead({seen, "b", "b:1"}, LogAnswer<absl::StatusOr<LeadResult>>::Into(lead));
  AwaitBackend("transactionid");
  ASSERT_TRUE(slow.Finish());
  EXPECT_EQ(patient.Wait(lead).status().code(), absl::StatusCode::kAborted);
}

TEST_F(PgLogFaults, BackendEndedBeforeCommitLeavesNothing) {
  const LeadResult a = rig_.Lead(0, "a");
  const AppendRequest request = Rows(a.term, a.last, {"row"});
  // The append cannot run before this transaction has ended.
  RawWriter lock(rig_);
  lock.RunHalf(absl::StrCat("UPDATE escapement.log_stores SET address = 'x' WHERE store = '",
                            rig_.store(), "'"));
  const auto append = rig_.StartAppend(0, request);
  AwaitBackend("transactionid");
  // Not the one that holds the lock, whose end would let the append go on before its own end.
  EndWriters("pg_terminate_backend", " AND wait_event = 'transactionid'");
  EXPECT_EQ(rig_.Wait(append).outcome, Outcome::kUnknown);
  EXPECT_EQ(rig_.State(1).last, a.last);
  EXPECT_EQ(rig_.AppendSurely(0, request).outcome, Outcome::kAcknowledged);
}

TEST_F(PgLogFaults, BackendEndedAfterCommitLeavesRow) {
  const LeadResult a = rig_.Lead(0, "a");
  const AppendRequest request = Rows(a.term, a.last, {"row"});
  // The commit is on the server's disk, and the standby does not exist.
  SetSynchronousStandby("missing");
  const auto append = rig_.StartAppend(0, request);
  AwaitBackend("SyncRep");
  EXPECT_EQ(rig_.State(1).last, a.last);  // nobody else sees it yet
  EndWriters();
  EXPECT_EQ(rig_.Wait(append).outcome, Outcome::kUnknown);
  SetSynchronousStandby("");
  EXPECT_EQ(rig_.AppendSurely(0, request).outcome, Outcome::kPresent);
  EXPECT_EQ(rig_.Append(0, Rows(a.term, EndOf(request), {"next"})).outcome, Outcome::kAcknowledged);
}

// An operator cancels the wait for the standby. PostgreSQL then answers with success and a warning.
TEST_F(PgLogFaults, CommitWithoutItsStandbyIsNotAcknowledged) {
  const LeadResult a = rig_.Lead(0, "a");
  SetSynchronousStandby("missing");
  const auto append = rig_.StartAppend(0, Rows(a.term, a.last, {"row"}));
  AwaitBackend("SyncRep");
  EndWriters("pg_cancel_backend");
  EXPECT_EQ(rig_.Wait(append).outcome, Outcome::kUnknown);
  SetSynchronousStandby("");
}

// The INSERT has been reported as done when its commit fails.
TEST_F(PgLogFaults, FailedCommitIsNotAcknowledged) {
  const LeadResult a = rig_.Lead(0, "a");
  ASSERT_TRUE(server_
                  .Sql("CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS "
                       "'BEGIN RAISE EXCEPTION ''no''; END'; "
                       "CREATE CONSTRAINT TRIGGER fail AFTER INSERT ON escapement.log_rows "
                       "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fail()")
                  .ok());
  const AppendRequest request = Rows(a.term, a.last, {"row"});
  const auto first = rig_.StartAppend(0, request);
  const auto behind = rig_.StartAppend(0, Rows(a.term, EndOf(request), {"behind"}));
  EXPECT_EQ(rig_.Wait(first).outcome, Outcome::kNotApplied);
  EXPECT_EQ(rig_.Wait(behind).outcome, Outcome::kNotApplied);
  ASSERT_TRUE(server_.Sql("DROP FUNCTION fail() CASCADE").ok());
  EXPECT_EQ(rig_.Append(0, request).outcome, Outcome::kAcknowledged);
}

TEST_F(PgLogFaults, DamagedRowIsNoticed) {
  const LeadResult a = rig_.Lead(0, "a");
  ASSERT_EQ(rig_.Append(0, Rows(a.term, a.last, {"one", "two"})).outcome, Outcome::kAcknowledged);
  const std::string where = absl::StrCat(" WHERE seq = 1 AND store = '", rig_.store(), "'");
  ASSERT_TRUE(server_.Sql("UPDATE escapement.log_rows SET data = 'One'" + where).ok());
  EXPECT_EQ(rig_.Read(1, {.after = a.first}).status().code(), absl::StatusCode::kDataLoss);
  ASSERT_TRUE(server_.Sql("UPDATE escapement.log_rows SET data = 'one'" + where).ok());
  EXPECT_TRUE(rig_.Read(1, {.after = a.first}).ok());
  ASSERT_TRUE(server_.Sql("UPDATE escapement.log_rows SET epoch = 9" + where).ok());
  EXPECT_EQ(rig_.Read(1, {.after = a.first}).status().code(), absl::StatusCode::kDataLoss);
  ASSERT_TRUE(server_.Sql("DELETE FROM escapement.log_rows" + where).ok());
  EXPECT_EQ(rig_.Read(1, {.after = a.first}).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(PgLogFaults, DamagedSnapshotIsNoticed) {
  const LeadResult a = rig_.Lead(0, "a");
  ASSERT_TRUE(rig_.PutPart(0, PartsOf("state")[0]).ok());
  ASSERT_TRUE(rig_.PutSnapshot(0, {a.last, {FileOf("state")}, "details"}).ok());
  const std::string where = absl::StrCat(" WHERE store = '", rig_.store(), "'");
  ASSERT_TRUE(server_.Sql("UPDATE escapement.log_file_parts SET data = 'State'" + where).ok());
  EXPECT_EQ(rig_.ReadPart(1, FileOf("state"), 0).status().code(), absl::StatusCode::kDataLoss);
  ASSERT_TRUE(
      server_.Sql("UPDATE escapement.log_snapshots SET manifest = set_byte(manifest, 9, 0)" + where)
          .ok());
  const auto listed = rig_.Call<absl::StatusOr<std::vector<Snapshot>>>(
      [&](auto done) { rig_.log(1).ListSnapshots(std::move(done)); });
  EXPECT_EQ(listed.status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(PgLogFaults, CrashedServerIsReachedAgain) {
  const LeadResult a = rig_.Lead(0, "a");
  const AppendRequest one = Rows(a.term, a.last, {"one"});
  ASSERT_EQ(rig_.Append(0, one).outcome, Outcome::kAcknowledged);
  server_.Crash();
  const AppendRequest two = Rows(a.term, EndOf(one), {"two"});
  const Outcome down = rig_.Append(0, two).outcome;
  EXPECT_TRUE(down == Outcome::kUnknown || down == Outcome::kNotApplied);
  ASSERT_TRUE(server_.Restart().ok());
  const Outcome again = rig_.AppendSurely(0, two).outcome;
  EXPECT_EQ(again, Outcome::kAcknowledged);
}

// A server that neither answers nor closes the connection.
TEST_F(PgLogFaults, SilentServerIsGivenUp) {
  PgRig rig(server_.url(), NewStoreName(), {.silence_max = absl::Milliseconds(300)});
  const LeadResult a = rig.Lead(0, "a");
  server_.SignalAll(SIGSTOP);
  EXPECT_EQ(rig.Append(0, Rows(a.term, a.last, {"row"})).outcome, Outcome::kUnknown);
  server_.SignalAll(SIGCONT);
  const Outcome again = rig.AppendSurely(0, Rows(a.term, a.last, {"row"})).outcome;
  EXPECT_TRUE(again == Outcome::kAcknowledged || again == Outcome::kPresent);
}

// So each replica says within some seconds why nothing is acknowledged.
TEST_F(PgLogFaults, ReportsAndSettingsDoNotWaitForAStandby) {
  PgRig rig(server_.url(), rig_.store(), {.silence_max = absl::Seconds(3)});
  const LeadResult a = rig_.Lead(0, "a");
  SetSynchronousStandby("missing");
  const auto append = rig_.StartAppend(0, Rows(a.term, a.last, {"row"}));
  AwaitBackend("SyncRep");
  EXPECT_TRUE(rig.PutReport(1, "b", "first").ok());
  EXPECT_TRUE(rig.PutReport(1, "b", "second").ok());
  const auto facts = rig.Call<absl::StatusOr<PgServerFacts>>(
      [&](auto done) { dynamic_cast<PgLog&>(rig.log(1)).ReadServerFacts(std::move(done)); });
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->synchronous_standby_names, "missing");
  SetSynchronousStandby("");
  EXPECT_EQ(rig_.Wait(append).outcome, Outcome::kAcknowledged);
}

TEST_F(PgLogFaults, SynchronousCommitIsTurnedOn) {
  ASSERT_TRUE(server_.Sql("ALTER DATABASE test SET synchronous_commit = off").ok());
  const LeadResult a = rig_.Lead(0, "a");
  SetSynchronousStandby("missing");
  const auto append = rig_.StartAppend(0, Rows(a.term, a.last, {"row"}));
  AwaitBackend("SyncRep");  // with synchronous_commit off it would not wait
  SetSynchronousStandby("");
  EXPECT_EQ(rig_.Wait(append).outcome, Outcome::kAcknowledged);
  ASSERT_TRUE(server_.Sql("ALTER DATABASE test RESET synchronous_commit").ok());
}

}  // namespace pg_log_faults_test
}  // namespace escapement::kv
