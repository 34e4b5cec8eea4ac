#include "tests/conformance/rigs/led_store.h"

#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/kv/engine/observer_gate.h"
#include "common/kv/not_leader.h"
#include "common/rpc/grpc_server.h"
#include "common/rpc/rpc_table_grpc.h"
#include "services/store/service/store_grpc.h"

namespace escapement::kv {

class LedStore::Gate final : public KvStore {
 public:
  enum class Mode { kLeads, kFollows, kFrozen };

  explicit Gate(KvStore& state) : state_(state) {}

  void Become(Mode mode, std::string leader, bool lose_commit_answers) ABSL_LOCKS_EXCLUDED(mu_) {
    std::vector<absl::AnyInvocable<void()>> frozen;
    std::vector<std::shared_ptr<ObserverGate>> watches;
    {
      absl::MutexLock lock(&mu_);
      mode_ = mode;
      leader_ = std::move(leader);
      lose_commit_answers_ = lose_commit_answers;
      if (mode != Mode::kFrozen) frozen.swap(frozen_);
      if (mode == Mode::kFollows) watches.swap(watches_);
    }
    for (auto& call : frozen) call();
    for (const auto& watch : watches) watch->Lagged(NotLeader(""));
  }

  int arrived() const ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return arrived_;
  }
  int calls() const ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return calls_;
  }

  bool WaitForArrived(int count) const ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    auto here = [this, count]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return arrived_ >= count; };
    return mu_.AwaitWithTimeout(absl::Condition(&here), absl::Seconds(30));
  }

  void OpenSession(uint64_t seen_incarnation, CommitSeq seen, Callback<SessionInfo> done) override {
    Take<SessionInfo>(std::move(done), [=](KvStore& state, Callback<SessionInfo> answer) {
      state.OpenSession(seen_incarnation, seen, std::move(answer));
    });
  }
  using KvStore::Commit;
  void Commit(std::shared_ptr<const CommitRequest> request, Callback<CommitResult> done) override {
    Take<CommitResult>(std::move(done), [=, this](KvStore& state, Callback<CommitResult> answer) {
      {
        absl::MutexLock lock(&mu_);
        if (lose_commit_answers_) answer = [](const absl::StatusOr<CommitResult>&) {};
      }
      state.Commit(request, std::move(answer));
    });
  }
  void MultiGet(std::vector<Key> keys, Callback<GetResult> done) override {
    Take<GetResult>(std::move(done), [=](KvStore& state, Callback<GetResult> answer) {
      state.MultiGet(keys, std::move(answer));
    });
  }
  void Scan(ScanRequest request, Callback<ScanResult> done) override {
    Take<ScanResult>(std::move(done), [=](KvStore& state, Callback<ScanResult> answer) {
      state.Scan(request, std::move(answer));
    });
  }
  void AskClock(ClockCall call, Callback<ClockState> done) override {
    Take<ClockState>(std::move(done), [=](KvStore& state, Callback<ClockState> answer) {
      state.AskClock(call, std::move(answer));
    });
  }

  // The watch of a frozen process is never opened.
  std::unique_ptr<Watch> OpenWatch(WatchRequest request, WatchObserver observer) override {
    auto gate = std::make_shared<ObserverGate>(std::move(observer));
    std::string leader;
    {
      absl::MutexLock lock(&mu_);
      ++arrived_;
      ++calls_;
      watches_.push_back(gate);
      leader = leader_;
      if (mode_ == Mode::kFrozen) return std::make_unique<Handle>(gate, nullptr);
      if (mode_ == Mode::kLeads) {
        WatchObserver inner;
        inner.on_batch = [gate](WatchBatch batch) { gate->Batch(std::move(batch)); };
        inner.on_lagged = [gate](const absl::Status& why) { gate->Lagged(why); };
        return std::make_unique<Handle>(gate,
                                        state_.OpenWatch(std::move(request), std::move(inner)));
      }
    }
    gate->Lagged(NotLeader(leader));
    return std::make_unique<Handle>(gate, nullptr);
  }

 private:
  class Handle final : public Watch {
   public:
    Handle(std::shared_ptr<ObserverGate> gate, std::unique_ptr<Watch> inner)
        : gate_(std::move(gate)), inner_(std::move(inner)) {}
    ~Handle() override { gate_->Close(); }
    void MoveEnd(size_t range, std::string end) override {
      if (inner_ != nullptr) inner_->MoveEnd(range, std::move(end));
    }

   private:
    const std::shared_ptr<ObserverGate> gate_;
    const std::unique_ptr<Watch> inner_;
  };

  template <typename T>
  void Take(Callback<T> done, std::function<void(KvStore&, Callback<T>)> send, bool again = false)
      ABSL_LOCKS_EXCLUDED(mu_) {
    std::string leader;
    {
      absl::MutexLock lock(&mu_);
      if (!again) {
        ++arrived_;
        if (!std::is_same_v<T, ClockState>) ++calls_;
      }
      if (mode_ == Mode::kFrozen) {
        frozen_.push_back([this, done = std::move(done), send = std::move(send)]() mutable {
          Take<T>(std::move(done), std::move(send), /*again=*/true);
        });
        return;
      }
      leader = leader_;
      if (mode_ == Mode::kFollows) send = nullptr;
    }
    if (send == nullptr) return done(NotLeader(leader));
    send(state_, std::move(done));
  }

  KvStore& state_;
  mutable absl::Mutex mu_;
  Mode mode_ ABSL_GUARDED_BY(mu_) = Mode::kFollows;
  std::string leader_ ABSL_GUARDED_BY(mu_);
  bool lose_commit_answers_ ABSL_GUARDED_BY(mu_) = false;
  int arrived_ ABSL_GUARDED_BY(mu_) = 0;
  int calls_ ABSL_GUARDED_BY(mu_) = 0;  // those of arrived_ but AskClock
  std::vector<absl::AnyInvocable<void()>> frozen_ ABSL_GUARDED_BY(mu_);
  std::vector<std::shared_ptr<ObserverGate>> watches_ ABSL_GUARDED_BY(mu_);
};

struct LedStore::Server {
  RpcTable rpcs;
  std::unique_ptr<GrpcServer> grpc;
};

LedStore::LedStore(KvStore& state, const std::string& listen, uint32_t protocol)
    : gate_(std::make_unique<Gate>(state)), server_(std::make_unique<Server>()) {
  store::AddStoreRpcs(*gate_, server_->rpcs, /*admin=*/nullptr, protocol);
  GrpcServer::Options options;
  options.listen = listen;
  options.receive_bytes_max = 64 << 20;
  auto started = GrpcServer::Start(options, server_->rpcs);
  if (!started.ok()) return;
  server_->grpc = *std::move(started);
  address_ = server_->grpc->address();
}

LedStore::~LedStore() { Kill(); }

const std::string& LedStore::address() const { return address_; }
void LedStore::Lead() { gate_->Become(Gate::Mode::kLeads, "", false); }
void LedStore::Follow(const std::string& leader) {
  gate_->Become(Gate::Mode::kFollows, leader, false);
}
void LedStore::Freeze() { gate_->Become(Gate::Mode::kFrozen, "", false); }
void LedStore::LoseCommitAnswers() { gate_->Become(Gate::Mode::kLeads, "", true); }

void LedStore::Kill() {
  if (server_ == nullptr) return;
  if (server_->grpc != nullptr) server_->grpc->Shutdown(absl::ZeroDuration());
  server_.reset();
}

int LedStore::arrived() const { return gate_->arrived(); }
int LedStore::calls() const { return gate_->calls(); }
bool LedStore::WaitForArrived(int count) const { return gate_->WaitForArrived(count); }

}  // namespace escapement::kv
