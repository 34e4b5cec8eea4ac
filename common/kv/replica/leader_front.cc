#include "common/kv/replica/leader_front.h"

#include <utility>

#include "common/kv/engine/observer_gate.h"
#include "common/kv/engine/pending_answer.h"
#include "common/kv/not_leader.h"

namespace escapement::kv {
namespace {

// A watch that has ended before it began.
class NoWatch final : public Watch {
 public:
  explicit NoWatch(std::shared_ptr<ObserverGate> gate) : gate_(std::move(gate)) {}
  ~NoWatch() override { gate_->Close(); }
  void MoveEnd(size_t range, std::string end) override {}

 private:
  const std::shared_ptr<ObserverGate> gate_;
};

}  // namespace

LeaderFront::LeaderFront(Runtime& runtime, std::function<std::shared_ptr<KvStore>()> store,
                         std::function<std::string()> leader_address)
    : store_(std::move(store)),
      leader_address_(std::move(leader_address)),
      answers_(runtime.NewExecutor("replica-answers")) {}

LeaderFront::~LeaderFront() { Stop(); }

void LeaderFront::Stop() { answers_->Stop(); }

template <typename T>
void LeaderFront::TurnAway(Callback<T> done) {
  // Never on the caller's thread: it may hold locks that the callback wants.
  answers_->Post([answer = PendingAnswer<T>(std::move(done)),
                  status = NotLeader(leader_address_())]() mutable { answer.Give(status); });
}

void LeaderFront::OpenSession(uint64_t seen_incarnation, CommitSeq seen,
                              Callback<SessionInfo> done) {
  const auto store = store_();
  if (store == nullptr) return TurnAway<SessionInfo>(std::move(done));
  store->OpenSession(seen_incarnation, seen, std::move(done));
}

void LeaderFront::Commit(std::shared_ptr<const CommitRequest> request,
                         Callback<CommitResult> done) {
  const auto store = store_();
  if (store == nullptr) return TurnAway<CommitResult>(std::move(done));
  store->Commit(std::move(request), std::move(done));
}

void LeaderFront::MultiGet(std::vector<Key> keys, Callback<GetResult> done) {
  const auto store = store_();
  if (store == nullptr) return TurnAway<GetResult>(std::move(done));
  store->MultiGet(std::move(keys), std::move(done));
}

void LeaderFront::Scan(ScanRequest request, Callback<ScanResult> done) {
  const auto store = store_();
  if (store == nullptr) return TurnAway<ScanResult>(std::move(done));
  store->Scan(std::move(request), std::move(done));
}

void LeaderFront::AskClock(ClockCall call, Callback<ClockState> done) {
  const auto store = store_();
  if (store == nullptr) return TurnAway<ClockState>(std::move(done));
  store->AskClock(std::move(call), std::move(done));
}

std::unique_ptr<Watch> LeaderFront::OpenWatch(WatchRequest request, WatchObserver observer) {
  const auto store = store_();
  if (store != nullptr) return store->OpenWatch(std::move(request), std::move(observer));
  auto gate = std::make_shared<ObserverGate>(std::move(observer));
  answers_->Post([gate, status = NotLeader(leader_address_())] { gate->Lagged(status); });
  return std::make_unique<NoWatch>(std::move(gate));
}

}  // namespace escapement::kv
