#include "common/kv/replica/replicated_kv_store.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/kv/engine/observer_gate.h"
#include "common/kv/engine/pending_answer.h"
#include "common/kv/layout.h"
#include "common/kv/not_leader.h"
#include "common/kv/replica/rocks_replica.h"
#include "common/kv/replica/snapshot_keeper.h"

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

absl::StatusOr<std::unique_ptr<ReplicatedKvStore>> ReplicatedKvStore::Open(Options options,
                                                                           Runtime& runtime,
                                                                           SharedLog& log) {
  const std::string folder = options.rocks.data_dir;
  if (std::filesystem::exists(absl::StrCat(folder, "/", kDatabaseFolder))) {
    return absl::FailedPreconditionError(absl::StrCat(
        folder,
        " has a store that is not replicated: use an empty data folder for a replica, or "
        "begin the log with this store by --move_into_log"));
  }
  options.rocks.data_dir = absl::StrCat(folder, "/", kReplicaFolder);
  options.replica.accept_loss = options.rocks.accept_loss;
  std::unique_ptr<ReplicatedKvStore> store(new ReplicatedKvStore(std::move(options), runtime));
  ASSIGN_OR_RETURN(auto copy, RocksReplica::Open(
                                  store->options_.rocks, runtime.clock(),
                                  [store = store.get()] { return store->LeaderAddress(); },
                                  store->options_.on_append));
  store->copy_ = std::move(copy);
  store->snapshots_ = std::make_unique<SnapshotKeeper>(runtime, log, *store->copy_);
  store->loop_ = std::make_unique<ReplicaLoop>(runtime, log, *store->copy_, *store->snapshots_,
                                               store->options_.replica);
  store->loop_->Start();
  return store;
}

ReplicatedKvStore::ReplicatedKvStore(Options options, Runtime& runtime)
    : options_(std::move(options)),
      front_(
          runtime, [this] { return copy_->store(); }, [this] { return LeaderAddress(); }) {}

ReplicatedKvStore::~ReplicatedKvStore() {
  if (copy_ != nullptr) copy_->EndWaits();
  if (loop_ != nullptr) loop_->Stop();
  front_.Stop();
}

void ReplicatedKvStore::HandOver(Closure done) { loop_->HandOver(std::move(done)); }

ReplicaStatus ReplicatedKvStore::status() const { return loop_->status(); }

RocksKvStore::Info ReplicatedKvStore::info() const {
  const auto store = copy_->store();
  return store == nullptr ? RocksKvStore::Info() : store->info();
}

StoreSize ReplicatedKvStore::size() const {
  const auto store = copy_->store();
  return store == nullptr ? StoreSize() : store->size();
}

absl::Status ReplicatedKvStore::MakeCheckpoint(const std::string& folder) {
  const auto store = copy_->store();
  return store == nullptr ? NotLeader(LeaderAddress()) : store->MakeCheckpoint(folder);
}

std::string ReplicatedKvStore::LeaderAddress() const {
  ReplicaStatus status = loop_->status();
  // This replica is asked because it does not lead, or no longer.
  return status.leader.owner == options_.replica.owner ? "" : status.leader_address;
}

void ReplicatedKvStore::OpenSession(uint64_t seen_incarnation, CommitSeq seen,
                                    Callback<SessionInfo> done) {
  front_.OpenSession(seen_incarnation, seen, std::move(done));
}

void ReplicatedKvStore::Commit(std::shared_ptr<const CommitRequest> request,
                               Callback<CommitResult> done) {
  front_.Commit(std::move(request), std::move(done));
}

void ReplicatedKvStore::MultiGet(std::vector<Key> keys, Callback<GetResult> done) {
  front_.MultiGet(std::move(keys), std::move(done));
}

void ReplicatedKvStore::Scan(ScanRequest request, Callback<ScanResult> done) {
  front_.Scan(std::move(request), std::move(done));
}

void ReplicatedKvStore::AskClock(ClockCall call, Callback<ClockState> done) {
  front_.AskClock(std::move(call), std::move(done));
}

std::unique_ptr<Watch> ReplicatedKvStore::OpenWatch(WatchRequest request, WatchObserver observer) {
  return front_.OpenWatch(std::move(request), std::move(observer));
}

}  // namespace escapement::kv
