// The order of an upgrade: a client sends no call of KvStore but AskClock to a leader that
// speaks less than the client needs. Stores on loopback ports, of which some do not know the
// number.

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/not_leader.h"
#include "common/kv/wire/grpc_kv_store.h"
#include "common/kv/wire/store_connection.h"
#include "common/rpc/channel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/conformance/rigs/awaited.h"
#include "tests/conformance/rigs/kv_rig.h"
#include "tests/conformance/rigs/leader_rig.h"

namespace escapement::kv {
namespace store_protocol_test {

using ::testing::HasSubstr;

constexpr ColumnFamily kCf = ColumnFamily::kMeta;
constexpr char kAny[] = "127.0.0.1:0";

std::string Refusal() {
  return absl::StrCat("the store's leader speaks 0, this program needs ", kStoreProtocol,
                      ": upgrade the store first");
}

absl::StatusOr<SessionInfo> Open(KvStore& store) {
  Awaited<SessionInfo> answer;
  store.OpenSession(0, 0, answer.callback());
  return answer.Wait();
}

// A leader that does not know the number, or knows a newer one, among two stores.
class StoreProtocol : public testing::Test {
 protected:
  std::unique_ptr<LeaderSeekingKvStore> Client(std::vector<std::string> addresses) {
    return rig_.Client(std::move(addresses));
  }
  std::unique_ptr<LeaderSeekingKvStore> ClientOfBoth() {
    return Client({old_.address(), rig_.b.address()});
  }
  // Opens sessions until `done` is true. Returns false after half a minute.
  bool OpenUntil(KvStore& store, const std::function<bool(const absl::Status& opened)>& done) {
    const absl::Duration end = rig_.runtime.clock().Elapsed() + absl::Seconds(30);
    while (!done(Open(store).status())) {
      if (rig_.runtime.clock().Elapsed() > end) return false;
    }
    return true;
  }
  void LeadOld() {
    rig_.b.Follow(old_.address());
    old_.Lead();
  }
  void LeadNew() {
    old_.Follow(rig_.b.address());
    rig_.b.Lead();
  }

  LeaderRig rig_;
  LedStore old_{rig_.state, kAny, /*protocol=*/0};
};

TEST_F(StoreProtocol, OldLeaderGetsNoCallUntilANewOneLeads) {
  LeadOld();
  const auto client = ClientOfBoth();
  const absl::Status refused = Open(*client).status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr(Refusal()));
  EXPECT_EQ(client->TooOld(), Refusal());
  WatchLog watched;
  const auto watch = client->OpenWatch({.cf = kCf}, watched.observer());
  EXPECT_TRUE(absl::IsUnavailable(watched.WaitForLag().value()));
  EXPECT_EQ(old_.calls(), 0);
  LeadNew();
  const auto session = Open(*client);
  EXPECT_TRUE(session.ok()) << session.status();
  EXPECT_EQ(client->TooOld(), "");
}

TEST_F(StoreProtocol, OldFollowerOfANewLeaderIsNoHindrance) {
  LeadNew();
  // It knows the old one only, which names the leader.
  const auto client = Client({old_.address()});
  EXPECT_EQ(LeaderAddressOf(Open(*client).status()), rig_.b.address());
  EXPECT_TRUE(Open(*client).ok());
  EXPECT_EQ(client->TooOld(), "");
}

TEST_F(StoreProtocol, SessionWaitsWhileAnOldStoreLeadsAndGoesOn) {
  LeadNew();
  const auto store = ClientOfBoth();
  const auto executor = rig_.runtime.NewExecutor("test");
  std::atomic<int> sessions_lost{0};
  KvClient::Options options;
  options.name = "test";
  options.on_session_lost = [&] { ++sessions_lost; };
  options.session_executor = executor;
  KvClient client(*store, rig_.runtime, std::move(options));
  const auto commit = [&](const std::string& key) {
    Awaited<CommitResult> answer;
    client.CommitAsync(
        {.groups = {{{Cond(kCf, key, Condition::Kind::kAbsent)}, {Put(kCf, key, "v")}}}}, executor,
        answer.callback());
    return answer;
  };
  const CommitSeq before = commit("before").Wait().value().seq;
  LeadOld();
  const int asked = old_.arrived();
  Awaited<CommitResult> held = commit("held");
  // Several searches.
  ASSERT_TRUE(old_.WaitForArrived(asked + 5));
  EXPECT_EQ(store->TooOld(), Refusal());
  EXPECT_EQ(old_.calls(), 0);
  LeadNew();
  const auto result = held.Wait();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->verdicts.at(0).applied);
  EXPECT_EQ(result->seq, before + 1);
  EXPECT_EQ(sessions_lost, 0);
  EXPECT_EQ(store->TooOld(), "");
  executor->Stop();
}

// A client with one address never searches, so only the new stream shows that another program is at
// the other end.
TEST_F(StoreProtocol, SingleStoreRestartedWithAnOlderProgramGetsNoCall) {
  LedStore former(rig_.state);
  former.Lead();
  const std::string address = former.address();
  const auto client = Client({address});
  ASSERT_TRUE(Open(*client).ok());
  former.Kill();
  // The client learns that its connection broke.
  EXPECT_FALSE(Open(*client).ok());
  {
    LedStore older(rig_.state, address, /*protocol=*/0);
    ASSERT_EQ(older.address(), address);
    older.Lead();
    EXPECT_TRUE(OpenUntil(*client, [&](const absl::Status& opened) {
      EXPECT_TRUE(absl::IsUnavailable(opened)) << opened;
      return client->TooOld() == Refusal();
    }));
    EXPECT_EQ(older.calls(), 0);
  }
  LedStore newer(rig_.state, address, kStoreProtocol + 1);
  ASSERT_EQ(newer.address(), address);
  newer.Lead();
  EXPECT_TRUE(OpenUntil(*client, [](const absl::Status& opened) { return opened.ok(); }));
  EXPECT_EQ(client->TooOld(), "");
}

// Every kind of call, made before and after the answer about the protocol.
TEST_F(StoreProtocol, EachCallToAnOldLeaderFailsOnceAndUnsent) {
  old_.Lead();
  GrpcKvStore store(NewChannel(old_.address()));
  for (int i = 0; i < 50; ++i) {
    WatchLog watched;
    auto watch = store.OpenWatch({.cf = kCf}, watched.observer());
    watch->MoveEnd(0, "k");
    Awaited<CommitResult> commit;
    store.Commit(Request(1, 1, {}), commit.callback());
    Awaited<GetResult> get;
    store.MultiGet({{kCf, "k"}}, get.callback());
    Awaited<ClockState> clock;
    store.AskClock({.confirm = true}, clock.callback());
    EXPECT_EQ(commit.Wait().status().message(), Refusal());
    EXPECT_EQ(get.Wait().status().message(), Refusal());
    EXPECT_EQ(clock.Wait().status().message(), Refusal());
    EXPECT_EQ(watched.WaitForLag().value().message(), Refusal());
  }
  EXPECT_EQ(old_.calls(), 0);
}

TEST_F(StoreProtocol, OlderProgramWorksWithEveryStore) {
  LedStore newer(rig_.state, kAny, kStoreProtocol + 1);
  for (LedStore* led : {&old_, &rig_.b, &newer}) {
    led->Lead();
    GrpcKvStore store(NewChannel(led->address()), /*needs=*/0);
    const auto session = Open(store);
    EXPECT_TRUE(session.ok()) << session.status();
    EXPECT_EQ(led->calls(), 1);
  }
}

}  // namespace store_protocol_test
}  // namespace escapement::kv
