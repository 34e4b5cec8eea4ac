// The store's process is killed with SIGKILL again and again while clients commit. Afterwards every
// acknowledged commit must be there, each group as a whole. The surviving commits must be a prefix
// of their order.

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <deque>
#include <filesystem>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/key_codec.h"
#include "common/kv/wire/grpc_kv_store.h"
#include "common/rpc/channel.h"
#include "gtest/gtest.h"
#include "tests/conformance/rigs/kv_rig.h"

namespace escapement::kv {
namespace kv_kill_test {

constexpr int kKills = 10;
constexpr int kClients = 3;
constexpr size_t kWindow = 16;
constexpr absl::Duration kPatience = absl::Seconds(30);

// The store as a process of its own.
class Child {
 public:
  explicit Child(const std::string& folder) {
    int in[2];
    int out[2];
    if (pipe(in) != 0 || pipe(out) != 0) abort();
    pid_ = fork();
    if (pid_ == 0) {
      dup2(in[0], 0);
      dup2(out[1], 1);
      for (int fd : {in[0], in[1], out[0], out[1]}) close(fd);
      const std::string program =
          absl::StrCat(getenv("TEST_SRCDIR"), "/escapement/tests/conformance/store_child");
      execl(program.c_str(), "store_child", folder.c_str(), nullptr);
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    in_ = in[1];
    char c = 0;
    while (read(out[0], &c, 1) == 1 && c != '\n') address_ += c;
    close(out[0]);
  }
  ~Child() { Kill(); }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    close(in_);
    pid_ = 0;
  }
  const std::string& address() const { return address_; }

 private:
  pid_t pid_ = 0;
  int in_ = -1;
  std::string address_;
};

class Rig final : public KvRig {
 public:
  explicit Rig(const std::string& address) : store_(NewChannel(address)) {}
  KvStore& store() override { return store_; }
  void Restart() override {}

 private:
  GrpcKvStore store_;
};

// Commits a pair of keys for each number, with many commits under way, until the store is gone.
// Then goes on with the next store.
class Client {
 public:
  explicit Client(int index) : index_(index) {}

  void Open(KvRig& rig) { session_ = rig.OpenSession().value().session; }

  // Sends commits of unknown result again, then new commits until an answer fails. Calls `on_ack`
  // for each answer.
  void Run(KvStore& store, const std::function<void()>& on_ack) {
    {
      absl::MutexLock lock(&mu_);
      failed_ = false;
      outstanding_ = 0;
    }
    for (uint64_t number : std::set<uint64_t>(unknown_)) Send(store, number, on_ack);
    while (Await(kWindow - 1)) {
      unknown_.insert(++last_);
      Send(store, last_, on_ack);
    }
    Await(0);
    unknown_ = [this] {
      absl::MutexLock lock(&mu_);
      std::set<uint64_t> left;
      for (uint64_t number : unknown_) {
        if (acked_.count(number) == 0) left.insert(number);
      }
      return left;
    }();
  }

  std::string Key(uint64_t number) const {
    return absl::StrCat("c", index_, "/", 1'000'000 + number);
  }
  std::set<uint64_t> acked() {
    absl::MutexLock lock(&mu_);
    return acked_;
  }
  std::vector<std::string> refusals() {
    absl::MutexLock lock(&mu_);
    return refusals_;
  }

 private:
  // Waits until at most `count` commits are under way. Returns false if the store is gone.
  bool Await(size_t count) {
    absl::MutexLock lock(&mu_);
    auto few = [this, count] { return outstanding_ <= count || (failed_ && outstanding_ == 0); };
    if (!mu_.AwaitWithTimeout(absl::Condition(&few), kPatience)) refusals_.push_back("no answer");
    return !failed_ && refusals_.empty();
  }

  void Send(KvStore& store, uint64_t number, const std::function<void()>& on_ack) {
    {
      absl::MutexLock lock(&mu_);
      ++outstanding_;
    }
    auto request = Request(session_, number,
                           {{{Cond(ColumnFamily::kEvents, Key(number), Condition::Kind::kAbsent)},
                             {Put(ColumnFamily::kEvents, Key(number), std::string(200, 'v')),
                              Put(ColumnFamily::kDone, Key(number), "v")}}});
    store.Commit(std::move(request), [this, number, on_ack](absl::StatusOr<CommitResult> result) {
      {
        absl::MutexLock lock(&mu_);
        --outstanding_;
        if (absl::IsUnavailable(result.status())) {
          failed_ = true;
          return;
        }
        if (!result.ok() || !result->verdicts.at(0).applied) {
          refusals_.push_back(absl::StrCat(number, ": ", result.status().ToString()));
          return;
        }
        acked_.insert(number);
      }
      on_ack();
    });
  }

  const int index_;
  uint64_t session_ = 0;
  uint64_t last_ = 0;
  std::set<uint64_t> unknown_;  // sent at least once, with no answer so far
  absl::Mutex mu_;
  size_t outstanding_ = 0;
  bool failed_ = false;
  std::set<uint64_t> acked_;
  std::vector<std::string> refusals_;
};

std::set<std::string> KeysOf(KvRig& rig, ColumnFamily cf, CommitSeq* seq) {
  std::set<std::string> keys;
  ScanRequest request{.cf = cf, .limit = 1'000'000, .bytes_max = 16 << 20, .keys_only = true};
  while (true) {
    const ScanResult result = rig.Scan(request).value();
    *seq = result.seq;
    for (const Entry& entry : result.entries) keys.insert(entry.key);
    if (!result.more) return keys;
    request.begin = KeyAfter(result.entries.back().key);
  }
}

void CheckWhatSurvived(KvRig& rig, std::vector<std::unique_ptr<Client>>& clients) {
  CommitSeq seq = 0;
  const auto events = KeysOf(rig, ColumnFamily::kEvents, &seq);
  const auto done = KeysOf(rig, ColumnFamily::kDone, &seq);
  EXPECT_EQ(events, done) << "a group was torn";
  EXPECT_EQ(events.size(), seq) << "the commits that survived are no prefix";
  for (auto& client : clients) {
    for (uint64_t number : client->acked()) {
      ASSERT_TRUE(events.count(client->Key(number)))
          << client->Key(number) << " was acknowledged and is gone";
    }
    EXPECT_EQ(client->refusals(), std::vector<std::string>());
  }
}

TEST(KvKillTest, AcknowledgedCommitSurvivesEveryKill) {
  std::string folder = absl::StrCat(getenv("TEST_TMPDIR"), "/kill-XXXXXX");
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  std::mt19937_64 random(20260301);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < kClients; ++i) clients.push_back(std::make_unique<Client>(i));
  for (int life = 0; life <= kKills; ++life) {
    Child child(folder);
    ASSERT_FALSE(child.address().empty()) << "the store does not start";
    Rig rig(child.address());
    for (auto& client : clients) {
      if (life == 0) client->Open(rig);
    }
    CheckWhatSurvived(rig, clients);
    if (life == kKills || testing::Test::HasFailure()) break;
    absl::Mutex mu;
    uint64_t acks = 0;
    const uint64_t acks_until_kill = 1 + random() % 1500;
    std::vector<std::thread> threads;
    for (auto& client : clients) {
      threads.emplace_back([&] {
        client->Run(rig.store(), [&] {
          absl::MutexLock lock(&mu);
          ++acks;
        });
      });
    }
    {
      absl::MutexLock lock(&mu);
      auto enough = [&] { return acks >= acks_until_kill; };
      EXPECT_TRUE(mu.AwaitWithTimeout(absl::Condition(&enough), kPatience));
    }
    child.Kill();
    for (std::thread& thread : threads) thread.join();
  }
  std::filesystem::remove_all(folder);
}

}  // namespace kv_kill_test
}  // namespace escapement::kv
