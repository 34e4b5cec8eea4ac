// PgLog over several hosts, of which one is of no use.

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/kv/log/pg/pg_connection.h"
#include "common/kv/log/pg/pg_findings.h"
#include "gtest/gtest.h"
#include "tests/conformance/log/pg_log_rig.h"
#include "tests/fixtures/tcp/connection_server.h"

namespace escapement::kv {
namespace pg_log_hosts_test {

using Outcome = AppendResult::Outcome;
using fixtures::ConnectionServer;
using fixtures::Postgres;

constexpr absl::Duration kPatience = absl::Seconds(30);

void NeverAnswers(int fd, int) {
  char bytes[512];
  while (read(fd, bytes, sizeof(bytes)) > 0) {
  }
}

void Closes(int, int) {}

// Passes all on to the test's PostgreSQL, which has no port.
void IsPostgres(int fd, int) {
  const int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const absl::Cleanup close_server = [server] { close(server); };
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = TestPostgres().socket();
  CHECK(path.size() < sizeof(address.sun_path));
  memcpy(address.sun_path, path.c_str(), path.size());
  if (connect(server, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) return;
  pollfd ends[] = {{fd, POLLIN, 0}, {server, POLLIN, 0}};
  while (poll(ends, 2, -1) > 0) {
    for (int from = 0; from < 2; ++from) {
      if (ends[from].revents == 0) continue;
      char bytes[4096];
      const ssize_t got = read(ends[from].fd, bytes, sizeof(bytes));
      if (got <= 0 || send(ends[1 - from].fd, bytes, static_cast<size_t>(got), MSG_NOSIGNAL) != got)
        return;
    }
  }
}

// With an attempt to connect so long that a test which waits for its end fails.
std::string Before(const std::string& host, const ConnectionServer& server) {
  return absl::StrCat("dbname=test user=test connect_timeout=60 host=", host, ",",
                      TestPostgres().folder(), " port=", server.port(), ",5432");
}

// Everything that connects does so in time: the log, the migration, and the look at the server.
void ExpectUsable(const std::string& url) {
  const absl::Time begun = absl::Now();
  EXPECT_TRUE(MigratePgSchema(url, PgSchemaSteps()).ok());
  EXPECT_TRUE(ReadPgServerFacts(url).ok());
  PgRig rig(url, NewStoreName(), {});
  const LeadResult a = rig.Lead(0, "a");
  EXPECT_EQ(rig.Append(0, Rows(a.term, a.last, {"row"})).outcome, Outcome::kAcknowledged);
  EXPECT_LT(absl::Now() - begun, kPatience);
}

TEST(PgLogHosts, HostThatNeverAnswersIsNoObstacle) {
  TestPostgres();
  const ConnectionServer frozen(NeverAnswers);
  ExpectUsable(Before("127.0.0.1", frozen));
}

TEST(PgLogHosts, HostThatAcceptsAndClosesIsNoObstacle) {
  TestPostgres();
  const ConnectionServer closes(Closes);
  ExpectUsable(Before("127.0.0.1", closes));
}

TEST(PgLogHosts, HostsOfAServiceFileAreTriedAtOnce) {
  TestPostgres();
  const ConnectionServer frozen(NeverAnswers);
  const std::string path = absl::StrCat(testing::TempDir(), "/pg_services");
  std::ofstream(path) << "[log]\nhost=localhost," << TestPostgres().folder()
                      << "\nport=" << frozen.port() << ",5432\ndbname=test\nuser=test\n"
                      << "connect_timeout=60\n";
  setenv("PGSERVICEFILE", path.c_str(), 1);
  ExpectUsable("service=log");
  unsetenv("PGSERVICEFILE");
}

TEST(PgLogHosts, NameStandsForAllItsAddresses) {
  TestPostgres();
  const ConnectionServer server(IsPostgres);  // not at localhost's ::1
  ExpectUsable(absl::StrCat("postgresql://test@localhost:", server.port(), "/test"));
}

TEST(PgLogHosts, ErrorNamesEachHost) {
  const ConnectionServer closes(Closes);
  const auto facts =
      ReadPgServerFacts(absl::StrCat("host=127.0.0.1,/nowhere dbname=test port=", closes.port()));
  EXPECT_EQ(facts.status().code(), absl::StatusCode::kUnavailable);
  for (const std::string host : {"127.0.0.1", "/nowhere"})
    EXPECT_NE(facts.status().message().find(host), std::string::npos) << facts.status();
}

// The former primary lives on and takes writes, as after a failover without fencing.
TEST(PgLogHosts, FormerPrimaryIsLeftForThePromotedOne) {
  auto server = Postgres::Start();
  ASSERT_TRUE(server.ok()) << server.status();
  Postgres& former = **server;
  ASSERT_TRUE(MigratePgSchema(former.url(), PgSchemaSteps()).ok());
  auto standby = Postgres::StartStandby(former, {});
  ASSERT_TRUE(standby.ok()) << standby.status();
  Postgres& promoted = **standby;
  ASSERT_TRUE(former.Sql("ALTER SYSTEM SET synchronous_standby_names = 'standby'").ok());
  former.One("SELECT pg_reload_conf()");
  while (former.One("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") != "1") {
  }
  const std::string url = "postgresql:///test?user=test&host=";
  const std::string former_first = absl::StrCat(url, former.folder(), ",", promoted.folder());
  PgRig rig(former_first, NewStoreName(), {.hosts_asked_every = absl::Milliseconds(50)});
  const LeadResult a = rig.Lead(0, "a");
  const AppendRequest kept = Rows(a.term, a.last, {"kept"});
  ASSERT_EQ(rig.Append(0, kept).outcome, Outcome::kAcknowledged);
  // While the standby follows it takes no writes, and is no obstacle as the first host either.
  {
    PgRig reversed(absl::StrCat(url, promoted.folder(), ",", former.folder()), rig.store(), {});
    EXPECT_EQ(reversed.State(0).last, EndOf(kept));
  }

  ASSERT_TRUE(promoted.Promote().ok());
  ASSERT_TRUE(former.Sql("ALTER SYSTEM SET synchronous_standby_names = ''").ok());
  former.One("SELECT pg_reload_conf()");
  // Both connections of both replicas leave.
  const std::string connected = absl::StrCat(
      "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'escapement-w%-",
      rig.store(), "'");
  const absl::Time deadline = absl::Now() + kPatience;
  while (promoted.One(connected) != "4" && absl::Now() < deadline) {
    for (size_t replica = 0; replica < 2; ++replica)
      (void)rig.Call<absl::StatusOr<LogState>>(
          [&](auto done) { rig.log(replica).ReadState(std::move(done)); });
  }
  const AppendRequest next = Rows(a.term, EndOf(kept), {"next"});
  EXPECT_EQ(rig.AppendSurely(0, next).outcome, Outcome::kAcknowledged);
  const std::string last =
      absl::StrCat("SELECT max(seq) FROM escapement.log_rows WHERE store = '", rig.store(), "'");
  EXPECT_EQ(promoted.One(last), "2");
  EXPECT_EQ(former.One(last), "1");
  // So does who connects only now.
  PgRig after(former_first, rig.store(), {});
  EXPECT_EQ(after.State(0).last, EndOf(next));
}

TEST(PgLogHosts, WriterOfAFollowerIsOpenAheadOfATakeover) {
  PgRig rig;
  const LeadResult a = rig.Lead(0, "a");
  EXPECT_EQ(rig.State(1).leader, a.term);
  const auto writers = [&](const std::string& what) {
    return TestPostgres().One(absl::StrCat(
        "SELECT ", what, " FROM pg_stat_activity WHERE application_name = '", rig.writer(), "'"));
  };
  const absl::Time deadline = absl::Now() + kPatience;
  while (writers("count(*)") != "2") ASSERT_LT(absl::Now(), deadline);
  const std::string pids = "string_agg(pid::text, ' ' ORDER BY pid)";
  const std::string before = writers(pids);
  rig.Lead(1, "b");
  EXPECT_EQ(writers(pids), before);
}

}  // namespace pg_log_hosts_test
}  // namespace escapement::kv
