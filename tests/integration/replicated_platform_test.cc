// The platform over a replicated store, with real processes and a real PostgreSQL: the leader is
// killed, stands still, and hands over; PostgreSQL crashes. Nothing is lost, and events go on.

#include <signal.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "escapement/v1/store_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/fixtures/http_receiver.h"
#include "tests/fixtures/postgres/postgres.h"
#include "tests/fixtures/process/child_process.h"
#include "tests/fixtures/receipts.h"
#include "tests/integration/api_client.h"
#include "tests/integration/platform.h"
#include "tests/integration/probes.h"

namespace escapement::integration {
namespace replicated_platform_test {

using fixtures::HttpReceiver;
using fixtures::Receipt;

constexpr char kEvents[] = "/tenants/default/events";
constexpr absl::Duration kApart = absl::Milliseconds(20);

// A platform whose store has two processes: the programs `replica` and `replica`.2. The first one
// leads.
class ReplicatedTest : public ::testing::Test {
 protected:
  explicit ReplicatedTest(std::string replica) : replica_(std::move(replica)) {}

  void SetUp() override {
    auto postgres = fixtures::Postgres::Start();
    ASSERT_TRUE(postgres.ok()) << postgres.status();
    postgres_ = *std::move(postgres);
    platform_ = std::make_unique<Platform>(Platform::Options{
        .bin = BuiltFolder(),
        .folder = NewFolder("replicated"),
        .extra_arguments = {{replica_,
                             {absl::StrCat("--replicate_through=", postgres_->url()),
                              "--store_id={name}", "--advertise={grpc}"}}}});
    http_ = *HttpReceiver::Start({}, &receipts_);
    const std::string other = replica_ + ".2";
    // The first start shows their ports, which they advertise from the second one on.
    for (const std::string& replica : {replica_, other}) {
      ASSERT_TRUE(platform_->Restart(replica).ok());
      platform_->Kill(replica);
    }
    ASSERT_TRUE(platform_->Restart(replica_).ok());
    ASSERT_TRUE(platform_->AwaitReady(replica_).ok());
    ASSERT_TRUE(platform_->Restart(other).ok());
  }

  // Makes events, kApart from each other, from a second from now on.
  void CreateEvents(int count) {
    std::vector<v1::Event> events;
    const int64_t first = absl::ToUnixMicros(absl::Now() + absl::Seconds(1));
    for (int i = 0; i < count; ++i) {
      const int64_t micros = first + i * absl::ToInt64Microseconds(kApart);
      instants_.insert(micros);
      v1::Event event;
      event.mutable_due_time()->set_seconds(micros / 1'000'000);
      event.mutable_due_time()->set_nanos(static_cast<int32_t>(micros % 1'000'000 * 1000));
      event.set_payload(absl::StrCat(i));
      *event.mutable_target() = HttpTo(http_->origin() + "/event");
      events.push_back(std::move(event));
    }
    const absl::Status status = api_->CreateEvents(events);
    ASSERT_TRUE(status.ok()) << status;
  }

  bool AwaitDistinct(uint64_t count) {
    return Await([&] { return receipts_.Stats(kEvents).distinct >= count; });
  }

  // Waits for all events: each has one id and one body, and none is early.
  void ExpectAll() {
    EXPECT_TRUE(AwaitDistinct(instants_.size()));
    const fixtures::ReceiptStats stats = receipts_.Stats(kEvents);
    EXPECT_EQ(stats.early, 0u);
    EXPECT_EQ(stats.changed, 0u);
    std::map<int64_t, std::set<std::string>> ids;
    for (const Receipt& receipt : receipts_.List(kEvents))
      ids[receipt.launch_micros].insert(receipt.event_id);
    std::set<int64_t> arrived;
    for (const auto& [instant, of_instant] : ids) {
      arrived.insert(instant);
      EXPECT_EQ(of_instant.size(), 1u) << "at " << instant;
    }
    EXPECT_EQ(arrived, instants_);
  }

  // The longest time in which nothing arrived.
  absl::Duration LongestGap(const std::string& what) {
    std::vector<int64_t> arrivals;
    for (const Receipt& receipt : receipts_.List(kEvents)) arrivals.push_back(receipt.wall_micros);
    std::sort(arrivals.begin(), arrivals.end());
    int64_t gap = 0;
    for (size_t i = 1; i < arrivals.size(); ++i) gap = std::max(gap, arrivals[i] - arrivals[i - 1]);
    std::cout << what << ": nothing arrived for " << absl::Microseconds(gap) << "\n";
    return absl::Microseconds(gap);
  }

  const std::string replica_;
  std::unique_ptr<fixtures::Postgres> postgres_;
  fixtures::Receipts receipts_;
  std::unique_ptr<HttpReceiver> http_;
  std::unique_ptr<Platform> platform_;
  std::unique_ptr<ApiClient> api_;
  std::set<int64_t> instants_;
};

class ReplicatedPlatformTest : public ReplicatedTest {
 protected:
  ReplicatedPlatformTest() : ReplicatedTest("store") {}
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(ReplicatedTest::SetUp());
    const absl::Status started = platform_->Start({"master", "emitter", "handler"});
    ASSERT_TRUE(started.ok()) << started;
    api_ = std::make_unique<ApiClient>(platform_->grpc_address("master"));
  }
  void TearDown() override {
    if (HasFailure()) platform_->ShowLogs({"store", "store.2", "master", "emitter", "handler"});
  }
};

class TwoStandalonesTest : public ReplicatedTest {
 protected:
  TwoStandalonesTest() : ReplicatedTest("standalone") {}
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(ReplicatedTest::SetUp());
    api_ = std::make_unique<ApiClient>(platform_->grpc_address("standalone"));
  }
  void TearDown() override {
    if (HasFailure()) platform_->ShowLogs({"standalone", "standalone.2"});
  }
};

TEST(ReplicatedStartTest, StandaloneServesOnceItsDatabaseIsThere) {
  auto postgres = fixtures::Postgres::Start();
  ASSERT_TRUE(postgres.ok()) << postgres.status();
  Platform platform(
      {.bin = BuiltFolder(),
       .folder = NewFolder("early"),
       .extra_arguments = {{"standalone",
                            {absl::StrCat("--replicate_through=", (*postgres)->Url("later")),
                             "--store_id={name}", "--advertise={grpc}"}}}});
  // The first start shows the port that the second one advertises.
  ASSERT_TRUE(platform.Restart("standalone").ok());
  platform.Kill("standalone");
  ASSERT_TRUE(platform.Restart("standalone").ok());
  ASSERT_TRUE((*postgres)->Sql("CREATE DATABASE later").ok());
  const absl::Status ready = platform.AwaitReady("standalone");
  EXPECT_TRUE(ready.ok()) << ready;
  if (HasFailure()) platform.ShowLogs({"standalone"});
}

// Settings of a session, such as synchronous_commit, would hold for whoever comes next.
TEST(ReplicatedStartTest, APoolerThatMixesSessionsIsRefused) {
  for (const auto& [mode, exit_code] :
       std::map<std::string, int>{{"session", 0}, {"statement", 1}, {"transaction", 1}}) {
    auto postgres = fixtures::Postgres::Start();
    ASSERT_TRUE(postgres.ok()) << postgres.status();
    const auto url = (*postgres)->Pool(mode);
    ASSERT_TRUE(url.ok()) << url.status();
    const std::string log = absl::StrCat(NewFolder("pooler"), "/log");
    auto child = ChildProcess::Start({.program = BuiltFolder() + "/services/store/store",
                                      .arguments = {"--migrate", "--replicate_through=" + *url},
                                      .log = log});
    ASSERT_TRUE(child.ok()) << child.status();
    EXPECT_EQ(*(*child)->Wait(absl::Seconds(60)), exit_code) << mode;
    std::ifstream in(log);
    const std::string words(std::istreambuf_iterator<char>(in), {});
    EXPECT_EQ(absl::StrContains(words, "pooler that mixes sessions"), exit_code != 0) << words;
  }
}

// The statements of docs/operations/postgresql.md.
TEST(ReplicatedStartTest, TheRolesOfTheDocumentSuffice) {
  auto postgres = fixtures::Postgres::Start();
  ASSERT_TRUE(postgres.ok()) << postgres.status();
  std::ifstream in(BuiltFolder() + "/docs/operations/postgresql.md");
  const std::string document(std::istreambuf_iterator<char>(in), {});
  std::vector<std::string> blocks;
  for (const absl::string_view part : absl::StrSplit(document, "```"))
    if (absl::StartsWith(part, "sql\n")) blocks.emplace_back(part.substr(4));
  ASSERT_EQ(blocks.size(), 2u);
  // CREATE DATABASE runs alone.
  for (const absl::string_view statement : absl::StrSplit(blocks[0], ";\n", absl::SkipEmpty())) {
    const auto done = fixtures::RunSql((*postgres)->Url("postgres"), statement);
    ASSERT_TRUE(done.ok()) << done.status();
  }
  const auto url_of = [&](const std::string& role) {
    return absl::StrCat("--replicate_through=postgresql:///escapement?host=", (*postgres)->folder(),
                        "&user=", role);
  };
  auto child = ChildProcess::Start({.program = BuiltFolder() + "/services/store/store",
                                    .arguments = {"--migrate", url_of("escapement")},
                                    .log = absl::StrCat(NewFolder("migrate"), "/log")});
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_EQ(*(*child)->Wait(absl::Seconds(60)), 0);
  const auto granted = fixtures::RunSql((*postgres)->Url("escapement"), blocks[1]);
  ASSERT_TRUE(granted.ok()) << granted.status();
  for (const auto& [log, role] :
       std::map<std::string, std::string>{{"a", "escapement"}, {"b", "escapement_stores"}}) {
    Platform platform({.bin = BuiltFolder(),
                       .folder = NewFolder(role),
                       .extra_arguments = {{"standalone",
                                            {url_of(role), "--replicated_log=" + log,
                                             "--store_id=one", "--advertise={grpc}"}}}});
    ASSERT_TRUE(platform.Restart("standalone").ok());
    const absl::Status ready = platform.AwaitReady("standalone");
    EXPECT_TRUE(ready.ok()) << role << ": " << ready;
    if (!ready.ok()) platform.ShowLogs({"standalone"});
  }
}

TEST_F(TwoStandalonesTest, TheOtherGoesOnWhenTheLeaderIsKilled) {
  CreateEvents(600);
  EXPECT_TRUE(AwaitDistinct(50));
  platform_->Kill("standalone");
  ExpectAll();
  // A silence of 3 s, in which the leases of 5 s go on to run, and room for a loaded machine.
  EXPECT_LT(LongestGap("standalone killed"), absl::Seconds(15));
}

TEST_F(TwoStandalonesTest, TheOtherGoesOnWhenTheLeaderEnds) {
  CreateEvents(300);
  EXPECT_TRUE(AwaitDistinct(50));
  const auto exit_code = platform_->Terminate("standalone");
  ASSERT_TRUE(exit_code.ok()) << exit_code.status();
  EXPECT_EQ(*exit_code, 0);
  ExpectAll();
  EXPECT_LT(LongestGap("standalone terminated"), absl::Milliseconds(2900));
}

// Its services give their leases back first, and take them again when it leads again.
TEST_F(TwoStandalonesTest, TheOtherGoesOnWhenTheLeaderHandsOver) {
  const auto hand_over = [&](const std::string& leader) {
    const auto stub = v1::StoreService::NewStub(
        grpc::CreateChannel(platform_->grpc_address(leader), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    v1::HandOverResponse response;
    return stub->HandOver(&context, v1::HandOverRequest(), &response);
  };
  CreateEvents(700);
  EXPECT_TRUE(AwaitDistinct(50));
  for (const std::string leader : {"standalone", "standalone.2"}) {
    const uint64_t before = receipts_.Stats(kEvents).distinct;
    const grpc::Status handed_over = hand_over(leader);
    EXPECT_TRUE(handed_over.ok()) << leader << ": " << handed_over.error_message();
    EXPECT_TRUE(AwaitDistinct(before + 200));
  }
  ExpectAll();
  EXPECT_LT(LongestGap("standalone handed over"), absl::Milliseconds(2900));
}

TEST_F(ReplicatedPlatformTest, AFollowerGoesOnWhenTheLeaderIsKilled) {
  CreateEvents(700);
  EXPECT_TRUE(AwaitDistinct(50));
  platform_->Kill("store");
  EXPECT_TRUE(AwaitDistinct(300));
  // The former leader follows, and leads again when the present one is killed.
  ASSERT_TRUE(platform_->Restart("store").ok());
  EXPECT_TRUE(AwaitDistinct(450));
  platform_->Kill("store.2");
  ExpectAll();
  // A silence of 3 s shows that the leader is gone; the bound leaves room for a loaded machine.
  EXPECT_LT(LongestGap("leader killed"), absl::Seconds(10));
}

TEST_F(ReplicatedPlatformTest, ALeaderThatStoodStillDoesNoHarm) {
  CreateEvents(600);
  EXPECT_TRUE(AwaitDistinct(50));
  platform_->Signal("store", SIGSTOP);
  EXPECT_TRUE(AwaitDistinct(300));
  platform_->Signal("store", SIGCONT);
  ExpectAll();
  EXPECT_LT(LongestGap("leader stopped"), absl::Seconds(10));
}

TEST_F(ReplicatedPlatformTest, AnOrderlyLeaderHandsOver) {
  CreateEvents(300);
  EXPECT_TRUE(AwaitDistinct(50));
  const auto exit_code = platform_->Terminate("store");
  ASSERT_TRUE(exit_code.ok()) << exit_code.status();
  EXPECT_EQ(*exit_code, 0);
  ExpectAll();
  // Less than the silence after which a follower takes over by itself.
  EXPECT_LT(LongestGap("leader terminated"), absl::Milliseconds(2900));
}

TEST_F(ReplicatedPlatformTest, EachReplicaSaysWhetherItCouldLead) {
  const auto status_of = [&](const std::string& store, const std::string& path) {
    const auto answer = HttpGet(platform_->http_address(store), path);
    return answer.ok() ? answer->status : 0;
  };
  for (const std::string store : {"store", "store.2"})
    EXPECT_TRUE(Await([&] { return status_of(store, "/replicaz") == 200; })) << store;
  EXPECT_EQ(status_of("store", "/readyz"), 200);
  EXPECT_EQ(status_of("store.2", "/readyz"), 503);
  // A follower that cannot read the log could not lead. Its process is healthy all the same.
  postgres_->Crash();
  EXPECT_TRUE(Await([&] { return status_of("store.2", "/replicaz") == 503; }));
  // Nothing commits, so the leader is not ready either.
  EXPECT_TRUE(Await([&] { return status_of("store", "/readyz") == 503; }));
  EXPECT_EQ(status_of("store.2", "/healthz"), 200);
  ASSERT_TRUE(postgres_->Restart().ok());
  EXPECT_TRUE(Await([&] { return status_of("store.2", "/replicaz") == 200; }));
}

TEST_F(ReplicatedPlatformTest, AnOperatorSeesTheReplicasAndChangesTheLeader) {
  const auto stub = v1::StoreService::NewStub(
      grpc::CreateChannel(platform_->grpc_address("master"), grpc::InsecureChannelCredentials()));
  v1::StoreStatus status;
  const auto get = [&] {
    grpc::ClientContext context;
    status.Clear();
    return stub->GetStatus(&context, v1::GetStatusRequest(), &status).ok();
  };
  const auto hand_over = [&] {
    grpc::ClientContext context;
    v1::HandOverResponse response;
    return stub->HandOver(&context, v1::HandOverRequest(), &response);
  };
  // Both report themselves within a second or two.
  const auto roles = [&] {
    std::map<std::string, v1::StoreReplica::Role> roles;
    for (const auto& replica : status.replication().replicas())
      roles[replica.store_id()] = replica.role();
    return roles;
  };
  using Roles = std::map<std::string, v1::StoreReplica::Role>;
  const Roles before = {{"store", v1::StoreReplica::LEADER},
                        {"store.2", v1::StoreReplica::FOLLOWER}};
  EXPECT_TRUE(Await([&] { return get() && roles() == before; })) << status.DebugString();
  EXPECT_EQ(status.replication().leader_address(), platform_->grpc_address("store"));
  EXPECT_GT(status.commit_seq(), 0);
  EXPECT_GT(status.replication().log_seq(), 0);
  EXPECT_GT(status.replication().log_bytes(), 0);
  for (const auto& replica : status.replication().replicas()) {
    EXPECT_EQ(replica.address(), platform_->grpc_address(replica.store_id()));
    EXPECT_GT(replica.applied_seq(), 0);
  }
  const int64_t epoch = status.replication().epoch();
  const int64_t commits = status.commit_seq();

  CreateEvents(200);
  EXPECT_TRUE(AwaitDistinct(50));
  EXPECT_TRUE(hand_over().ok());
  const Roles after = {{"store", v1::StoreReplica::FOLLOWER},
                       {"store.2", v1::StoreReplica::LEADER}};
  // The former leader may answer first, before it has read the new term.
  const auto new_term = [&] {
    return status.replication().epoch() == epoch + 1 && status.commit_seq() > commits;
  };
  EXPECT_TRUE(Await([&] { return get() && roles() == after && new_term(); }))
      << status.DebugString();
  EXPECT_EQ(status.replication().leader_address(), platform_->grpc_address("store.2"));
  ExpectAll();
  EXPECT_LT(LongestGap("leader handed over"), absl::Milliseconds(2900));

  // With nobody to take over, the leader stays. The follower's last report is still young.
  platform_->Kill("store");
  EXPECT_EQ(hand_over().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(get());
  EXPECT_EQ(status.replication().epoch(), epoch + 1);
}

// The leader and the second handler are not named. That is no fault of the others.
TEST_F(ReplicatedPlatformTest, DoctorKnowsAFollowerAndShardsOfOthers) {
  ASSERT_TRUE(platform_->Restart("handler.2").ok());
  const auto url = [&](const std::string& process) {
    return absl::StrCat("http://", platform_->http_address(process));
  };
  std::string said;
  const auto says = [&](absl::string_view text) { return absl::StrContains(said, text); };
  EXPECT_TRUE(Await([&] {
    auto doctor = ChildProcess::Start(
        {.program = BuiltFolder() + "/tools/escctl/escctl",
         .arguments = {"--server", platform_->grpc_address("master"), "doctor", "-o", "json",
                       "--metrics-url", url("store.2"), "--metrics-url", url("handler")}});
    EXPECT_TRUE(doctor.ok()) << doctor.status();
    said.clear();
    for (auto line = (*doctor)->AwaitLine("", absl::Seconds(30)); line.ok();
         line = (*doctor)->AwaitLine("", absl::Seconds(30)))
      said += *line + "\n";
    // While leases move, some have no owner.
    return says("each process of store that was asked follows; none of them leads") &&
           says(" shards or partitions of handler belong to processes that were not asked") &&
           !says("no process is known to hold");
  })) << said;
  EXPECT_FALSE(says("is ready")) << said;
}

TEST_F(ReplicatedPlatformTest, AnOperatorSeesChangedSettingsOfPostgres) {
  const auto stub = v1::StoreService::NewStub(
      grpc::CreateChannel(platform_->grpc_address("master"), grpc::InsecureChannelCredentials()));
  v1::StoreStatus status;
  const auto problems = [&] {
    grpc::ClientContext context;
    status.Clear();
    if (!stub->GetStatus(&context, v1::GetStatusRequest(), &status).ok()) return std::string();
    return absl::StrJoin(status.replication().log_problems(), "\n");
  };
  const auto safety_is = [&](int safety) {
    const auto metrics = HttpGet(platform_->http_address("store"), "/metrics");
    return metrics.ok() &&
           absl::StrContains(metrics->body, absl::StrCat("escapement_store_log_safety ", safety));
  };
  EXPECT_TRUE(Await([&] { return absl::StrContains(problems(), "it has no synchronous standby"); }))
      << status.DebugString();
  EXPECT_TRUE(Await([&] { return safety_is(2); }));
  ASSERT_TRUE(postgres_->Sql("ALTER SYSTEM SET fsync = off").ok());
  postgres_->One("SELECT pg_reload_conf()");
  EXPECT_TRUE(Await([&] { return absl::StrContains(problems(), "fsync is off"); }))
      << status.DebugString();
  EXPECT_TRUE(Await([&] { return safety_is(1); }));
}

TEST_F(ReplicatedPlatformTest, StatusWithoutALeaderShowsEachReplica) {
  const auto stub = v1::StoreService::NewStub(
      grpc::CreateChannel(platform_->grpc_address("master"), grpc::InsecureChannelCredentials()));
  v1::StoreStatus status;
  const auto get = [&] {
    grpc::ClientContext context;
    status.Clear();
    return stub->GetStatus(&context, v1::GetStatusRequest(), &status).ok();
  };
  const auto both_know_rows = [&] {
    std::set<std::string> known;
    for (const v1::StoreReplica& replica : status.replication().replicas()) {
      if (replica.applied_seq() > 0 && replica.acknowledged_seq() > 0)
        known.insert(replica.store_id());
    }
    return known == std::set<std::string>{"store", "store.2"};
  };
  EXPECT_TRUE(Await([&] { return get() && both_know_rows(); })) << status.DebugString();
  postgres_->Crash();
  const auto stands_still = [&] {
    if (!get() || !both_know_rows()) return false;
    for (const v1::StoreReplica& replica : status.replication().replicas()) {
      if (replica.problem().empty()) return false;
    }
    return absl::StrContains(absl::StrJoin(status.replication().log_problems(), "\n"),
                             "the log does not answer");
  };
  EXPECT_TRUE(Await(stands_still)) << status.DebugString();
  ASSERT_TRUE(postgres_->Restart().ok());
  const auto goes_on = [&] {
    if (!get() || !both_know_rows()) return false;
    for (const v1::StoreReplica& replica : status.replication().replicas()) {
      if (!replica.problem().empty()) return false;
    }
    return true;
  };
  EXPECT_TRUE(Await(goes_on)) << status.DebugString();
}

TEST_F(ReplicatedPlatformTest, ACrashOfPostgresLosesNothing) {
  CreateEvents(300);
  EXPECT_TRUE(AwaitDistinct(50));
  postgres_->Crash();
  ASSERT_TRUE(postgres_->Restart().ok());
  ExpectAll();
  LongestGap("PostgreSQL crashed");
}

}  // namespace replicated_platform_test
}  // namespace escapement::integration
