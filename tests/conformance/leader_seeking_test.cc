// LeaderSeekingKvStore over stores that lead or do not, on loopback ports.

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/kv/not_leader.h"
#include "common/kv/wire/grpc_kv_store.h"
#include "common/rpc/channel.h"
#include "common/rpc/host_port.h"
#include "gtest/gtest.h"
#include "tests/conformance/rigs/awaited.h"
#include "tests/conformance/rigs/kv_rig.h"
#include "tests/conformance/rigs/leader_rig.h"

namespace escapement::kv {
namespace leader_seeking_test {

constexpr ColumnFamily kCf = ColumnFamily::kMeta;

absl::StatusOr<SessionInfo> Open(KvStore& store) {
  Awaited<SessionInfo> answer;
  store.OpenSession(0, 0, answer.callback());
  return answer.Wait();
}

absl::StatusOr<GetResult> Get(KvStore& store, const std::string& key) {
  Awaited<GetResult> answer;
  store.MultiGet({{kCf, key}}, answer.callback());
  return answer.Wait();
}

// Some open calls of each kind, and the answers that came.
class OpenCalls {
 public:
  explicit OpenCalls(int rounds) : answers_(5 * rounds) {}

  void Make(KvStore& store) {
    for (size_t i = 0; i < answers_.size(); i += 5) {
      store.OpenSession(0, 0, Note<SessionInfo>(i));
      store.Commit(Request(1, 1 + i / 5, {}), Note<CommitResult>(i + 1));
      store.MultiGet({{kCf, "k"}}, Note<GetResult>(i + 2));
      store.Scan({}, Note<ScanResult>(i + 3));
      store.AskClock({}, Note<ClockState>(i + 4));
    }
  }
  // The answers of each call, once every call has one.
  std::vector<std::vector<absl::Status>> Wait() {
    absl::MutexLock lock(&mu_);
    auto all = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      for (const auto& answers : answers_) {
        if (answers.empty()) return false;
      }
      return true;
    };
    mu_.AwaitWithTimeout(absl::Condition(&all), absl::Seconds(30));
    return answers_;
  }
  size_t size() const { return answers_.size(); }

 private:
  template <typename T>
  KvStore::Callback<T> Note(size_t call) {
    return [this, call](const absl::StatusOr<T>& answer) {
      absl::MutexLock lock(&mu_);
      answers_[call].push_back(answer.status());
    };
  }

  absl::Mutex mu_;
  std::vector<std::vector<absl::Status>> answers_;
};

TEST(LeaderSeeking, NotLeaderSurvivesTheWireInEveryCall) {
  LeaderRig rig;
  rig.a.Follow("store-1.store:7400");
  OpenCalls calls(1);
  WatchLog watched;
  GrpcKvStore store(NewChannel(rig.a.address()));
  calls.Make(store);
  const auto watch = store.OpenWatch({.cf = kCf, .from_seq = kWatchFromNow}, watched.observer());
  for (const auto& answers : calls.Wait()) {
    ASSERT_EQ(answers.size(), 1u);
    EXPECT_EQ(LeaderAddressOf(answers[0]), "store-1.store:7400") << answers[0];
  }
  EXPECT_EQ(LeaderAddressOf(watched.WaitForLag().value()), "store-1.store:7400");
}

TEST(LeaderSeeking, RedirectLeadsToTheNamedStore) {
  LeaderRig rig;
  rig.a.Follow(rig.b.address());
  rig.b.Lead();
  const auto client = rig.Client(std::vector<std::string>{rig.a.address()});
  // The refused call keeps its error: only the caller may send it again.
  EXPECT_EQ(LeaderAddressOf(Open(*client).status()), rig.b.address());
  EXPECT_TRUE(Open(*client).ok());
  EXPECT_EQ(rig.Connected(), (std::set<std::string>{rig.a.address(), rig.b.address()}));
}

TEST(LeaderSeeking, FirstCallFindsTheLeaderOfSeveral) {
  LeaderRig rig;
  rig.b.Lead();
  EXPECT_TRUE(Open(*rig.ClientOfBoth()).ok());
}

TEST(LeaderSeeking, CallIsHeldWhileNoStoreLeads) {
  LeaderRig rig;
  rig.a.Follow(rig.b.address());  // they name each other
  rig.b.Follow(rig.a.address());
  const auto client = rig.ClientOfBoth();
  Awaited<SessionInfo> session;
  client->OpenSession(0, 0, session.callback());
  ASSERT_TRUE(rig.a.WaitForArrived(3));
  ASSERT_TRUE(rig.b.WaitForArrived(3));
  rig.b.Lead();
  EXPECT_TRUE(session.Wait().ok());
}

TEST(LeaderSeeking, HeldCallFailsAfterTheBound) {
  LeaderRig rig;
  rig.a.Follow("");
  LeaderSeekingKvStore::Options options;
  options.addresses = {rig.a.address(), rig.b.address()};
  options.held_max = absl::Milliseconds(50);
  const auto client = rig.Client(std::move(options));
  const absl::Status status = Open(*client).status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_NE(status.message().find("no store leads"), std::string::npos) << status;
  EXPECT_NE(status.message().find(rig.b.address()), std::string::npos) << status;
}

TEST(LeaderSeeking, DeadLeaderEndsEachOpenCallOnce) {
  LeaderRig rig;
  rig.a.Lead();
  const auto client = rig.ClientOfBoth();
  ASSERT_TRUE(Open(*client).ok());
  const int arrived = rig.a.arrived();
  rig.a.Freeze();
  OpenCalls calls(10);
  calls.Make(*client);
  WatchLog watched;
  const auto watch = client->OpenWatch({.cf = kCf}, watched.observer());
  ASSERT_TRUE(rig.a.WaitForArrived(arrived + static_cast<int>(calls.size()) + 1));
  rig.a.Kill();
  for (const auto& answers : calls.Wait()) {
    ASSERT_EQ(answers.size(), 1u);
    EXPECT_TRUE(absl::IsUnavailable(answers[0])) << answers[0];
  }
  EXPECT_TRUE(absl::IsUnavailable(watched.WaitForLag().value()));
  Awaited<GetResult> next;
  client->MultiGet({{kCf, "k"}}, next.callback());
  rig.b.Lead();
  EXPECT_TRUE(next.Wait().ok());
}

LeaderSeekingKvStore::Options Impatient(const LeaderRig& rig) {
  LeaderSeekingKvStore::Options options;
  options.addresses = {rig.a.address(), rig.b.address()};
  options.silent_after = absl::Milliseconds(20);
  options.doubt_after = absl::Milliseconds(40);
  return options;
}

TEST(LeaderSeeking, SilentLeaderIsLeftWhenAnotherLeads) {
  LeaderRig rig;
  rig.a.Lead();
  const auto client = rig.Client(Impatient(rig));
  ASSERT_TRUE(Open(*client).ok());
  const int asked = rig.b.arrived();
  rig.a.Freeze();
  OpenCalls calls(10);
  calls.Make(*client);
  WatchLog watched;
  const auto watch = client->OpenWatch({.cf = kCf}, watched.observer());
  ASSERT_TRUE(rig.b.WaitForArrived(asked + 2));
  rig.b.Lead();
  for (const auto& answers : calls.Wait()) {
    ASSERT_EQ(answers.size(), 1u);
    EXPECT_TRUE(absl::IsUnavailable(answers[0])) << answers[0];
  }
  EXPECT_TRUE(absl::IsUnavailable(watched.WaitForLag().value()));
  EXPECT_TRUE(Get(*client, "k").ok());
  // The store that was left wakes up, and its late answers reach nobody.
  rig.a.Follow(rig.b.address());
  EXPECT_TRUE(Get(*client, "k").ok());
  for (const auto& answers : calls.Wait()) EXPECT_EQ(answers.size(), 1u);
}

TEST(LeaderSeeking, SilentLeaderIsKeptWhileNoOtherLeads) {
  LeaderRig rig;
  rig.a.Lead();
  const auto client = rig.Client(Impatient(rig));
  ASSERT_TRUE(Open(*client).ok());
  const int asked = rig.b.arrived();
  rig.a.Freeze();
  Awaited<GetResult> get;
  client->MultiGet({{kCf, "k"}}, get.callback());
  ASSERT_TRUE(rig.b.WaitForArrived(asked + 3));
  rig.a.Lead();
  EXPECT_TRUE(get.Wait().ok());
}

TEST(LeaderSeeking, QuestionOfTheClockToAFrozenLeaderFails) {
  LeaderRig rig;
  rig.a.Lead();
  LeaderSeekingKvStore::Options options;
  options.addresses = {rig.a.address()};
  options.answer_max = absl::Milliseconds(50);
  const auto client = rig.Client(std::move(options));
  ASSERT_TRUE(Open(*client).ok());
  rig.a.Freeze();
  Awaited<ClockState> asked;
  client->AskClock({}, asked.callback());
  const absl::Status status = asked.Wait().status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_EQ(status.message(), "the store that leads has not answered within 50ms");
  // The late answer reaches nobody.
  rig.a.Lead();
  EXPECT_TRUE(Open(*client).ok());
}

// Two stores of which the first leads, and never answers a question of its status.
class HungStatus final : public StoreConnection {
 public:
  explicit HungStatus(std::string address) : address_(std::move(address)) {}

  void OpenSession(uint64_t, CommitSeq, Callback<SessionInfo>) override {}
  void Commit(std::shared_ptr<const CommitRequest>, Callback<CommitResult>) override {}
  void MultiGet(std::vector<Key>, Callback<GetResult>) override {}
  void Scan(ScanRequest, Callback<ScanResult>) override {}
  void AskClock(ClockCall, Callback<ClockState> done) override {
    if (leads()) return done(ClockState());
    done(NotLeader(kLeader));
  }
  std::unique_ptr<Watch> OpenWatch(WatchRequest, WatchObserver) override { return nullptr; }
  void GetStatus(Callback<v1::StoreStatus> done) override {
    if (leads()) {
      hung_ = std::move(done);
      return;
    }
    v1::StoreStatus status;
    v1::StoreReplica& own = *status.mutable_replication()->add_replicas();
    own.set_store_id("follower");
    own.set_address(address_);
    done(std::move(status));
  }
  void HandOver(Callback<v1::HandOverResponse>) override {}
  void Disconnect() override {}

  static constexpr char kLeader[] = "127.0.0.1:1";

 private:
  bool leads() const { return address_ == kLeader; }

  const std::string address_;
  Callback<v1::StoreStatus> hung_;
};

TEST(LeaderSeeking, OthersSayWhatTheyKnowOfALeaderThatHangs) {
  SystemRuntime runtime;
  LeaderSeekingKvStore::Options options;
  options.addresses = {HungStatus::kLeader, "127.0.0.1:2"};
  options.open = [](const StoreAddress& at) { return std::make_unique<HungStatus>(at.target); };
  options.answer_max = options.held_max = absl::Milliseconds(50);
  LeaderSeekingKvStore client(runtime, std::move(options));
  Awaited<v1::StoreStatus> asked;
  client.GetStatus(asked.callback());
  const auto status = asked.Wait();
  ASSERT_TRUE(status.ok()) << status.status();
  ASSERT_EQ(status->replication().replicas_size(), 2) << status->DebugString();
  EXPECT_EQ(status->replication().replicas(0).store_id(), "follower");
  EXPECT_EQ(status->replication().replicas(1).address(), HungStatus::kLeader);
  EXPECT_EQ(status->replication().replicas(1).problem(), "does not answer: no answer in time");
}

TEST(LeaderSeeking, WatchOpenedDuringASearchWatches) {
  LeaderRig rig;
  const auto client = rig.ClientOfBoth();
  WatchLog watched;
  auto watch = client->OpenWatch({.cf = kCf, .begin = "k", .end = "l", .from_seq = kWatchFromNow},
                                 watched.observer());
  watch->MoveEnd(0, "n");
  auto dropped = client->OpenWatch(
      {.cf = kCf}, {.on_batch = [](const WatchBatch&) { FAIL(); }, .on_lagged = nullptr});
  dropped.reset();
  Awaited<SessionInfo> session;
  client->OpenSession(0, 0, session.callback());
  ASSERT_TRUE(rig.b.WaitForArrived(2));
  rig.b.Lead();
  const uint64_t id = session.Wait().value().session;
  Awaited<CommitResult> commit;
  client->Commit(Request(id, 1, {{{}, {Put(kCf, "j", ""), Put(kCf, "k", ""), Put(kCf, "m", "")}}}),
                 commit.callback());
  ASSERT_TRUE(commit.Wait().ok());
  const std::vector<WatchedMutation> seen = watched.WaitFor(2);
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].key + seen[1].key, "km");
  // It ends when its store does not lead any more, and another one opens at the successor.
  rig.a.Lead();
  rig.b.Follow(rig.a.address());
  EXPECT_TRUE(absl::IsUnavailable(watched.WaitForLag().value()));
  EXPECT_FALSE(Get(*client, "k").ok());
  WatchLog again;
  watch = client->OpenWatch({.cf = kCf, .begin = "k", .from_seq = 0}, again.observer());
  EXPECT_EQ(again.WaitFor(2).size(), 2u);
}

TEST(LeaderSeeking, HostileAddressIsNeverCalled) {
  LeaderRig rig;
  const auto client = rig.ClientOfBoth();
  int asked = 0;
  for (const char* hostile : {"unix:/run/store.sock", "dns://127.0.0.1/x:1", "127.0.0.1",
                              "127.0.0.1:0", "ipv4:127.0.0.1:1,127.0.0.1:2", "x y:1"}) {
    rig.a.Follow(hostile);
    Awaited<SessionInfo> session;
    client->OpenSession(0, 0, session.callback());
    ASSERT_TRUE(rig.a.WaitForArrived(asked += 3));
    asked = rig.a.arrived();
    rig.b.Lead();
    EXPECT_TRUE(session.Wait().ok()) << hostile;
    rig.b.Follow("");
    Open(*client).IgnoreError();  // begins the next search
  }
  EXPECT_EQ(rig.Connected(), (std::set<std::string>{rig.a.address(), rig.b.address()}));
}

TEST(LeaderSeeking, EndAnswersHeldAndOpenCallsOnce) {
  OpenCalls held(10), open(10);
  {
    LeaderRig rig;
    auto client = rig.ClientOfBoth();
    held.Make(*client);
    client.reset();
    rig.a.Lead();
    client = rig.ClientOfBoth();
    ASSERT_TRUE(Open(*client).ok());
    const int arrived = rig.a.arrived();
    rig.a.Freeze();
    open.Make(*client);
    ASSERT_TRUE(rig.a.WaitForArrived(arrived + static_cast<int>(open.size())));
    client.reset();
  }
  for (OpenCalls* calls : {&held, &open}) {
    for (const auto& answers : calls->Wait()) {
      ASSERT_EQ(answers.size(), 1u);
      EXPECT_TRUE(absl::IsUnavailable(answers[0])) << answers[0];
    }
  }
}

// Knows one name with two addresses of this machine, as a headless service has.
class TwoAddresses final : public NameResolver {
 public:
  void Resolve(std::string host, std::function<void(Answer)> done) override {
    done(host == "stores.test" ? Answer({"127.0.0.1", "127.0.0.2"})
                               : Answer(absl::UnavailableError("unknown")));
  }
};

TEST(LeaderSeeking, NameWithSeveralAddressesLeadsToTheLeader) {
  LeaderRig rig;
  // A second store at the same port of another address, as in a headless service.
  std::unique_ptr<LedStore> first, second;
  for (int i = 0; i < 20 && (second == nullptr || second->address().empty()); ++i) {
    first = std::make_unique<LedStore>(rig.state);
    const int port = ParseHostPort(first->address()).value().port;
    second = std::make_unique<LedStore>(rig.state, absl::StrCat("127.0.0.2:", port));
  }
  ASSERT_FALSE(second->address().empty());
  second->Lead();

  const int port = ParseHostPort(first->address()).value().port;
  const std::string name = absl::StrCat("stores.test:", port);
  std::atomic<int> named{0};
  LeaderSeekingKvStore::Options options;
  options.addresses = {name};
  options.resolver = std::make_unique<TwoAddresses>();
  options.connect = [&](const StoreAddress& to) {
    ChannelOptions channel;
    channel.authority = to.authority;
    if (to.target == name)
      return NewChannel(first->address(), channel);  // DNS would give this address
    EXPECT_EQ(to.authority, name);
    ++named;
    return NewChannel(to.target, channel);
  };
  const auto client = rig.Client(std::move(options));
  EXPECT_EQ(LeaderAddressOf(Open(*client).status()), "");
  EXPECT_TRUE(Open(*client).ok());
  EXPECT_GE(named, 1);
  // The leader changes; nobody names the new one.
  first->Lead();
  second->Follow("");
  EXPECT_FALSE(Open(*client).ok());
  EXPECT_TRUE(Open(*client).ok());
}

TEST(LeaderSeeking, OneDeadAddressAnswersAtOnce) {
  LeaderRig rig;
  rig.a.Lead();
  const auto client = rig.Client(std::vector<std::string>{rig.a.address()});
  ASSERT_TRUE(Open(*client).ok());
  rig.a.Kill();
  const absl::Status status = Open(*client).status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_EQ(status.message().find("no store leads"), std::string::npos) << status;
}

}  // namespace leader_seeking_test
}  // namespace escapement::kv
