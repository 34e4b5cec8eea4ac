#include "common/kv/wire/grpc_kv_store.h"

#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/log.h"
#include "common/kv/engine/observer_gate.h"
#include "common/kv/wire/kv_wire.h"
#include "common/kv/wire/message_queue.h"
#include "escapement/internal/v1/store.grpc.pb.h"
#include "grpcpp/grpcpp.h"

namespace escapement::kv {

namespace {

// Which stores answer a call.
enum class By {
  kLeader,  // a leader that speaks enough
  kAny,     // every store, also of a former version
};

}  // namespace

// One connection. It lives from its first call until gRPC is done with it.
class GrpcKvStore::Stream final
    : public grpc::ClientBidiReactor<wire::StoreRequest, wire::StoreResponse> {
 public:
  using Answer = absl::AnyInvocable<void(absl::StatusOr<wire::StoreAnswer*>)>;

  // `on_leader` is called with each answer about the protocol: why calls are not sent to this store
  // though it leads; otherwise empty.
  Stream(uint32_t needs, absl::AnyInvocable<void(std::string)> on_leader)
      : needs_(needs), on_leader_(std::move(on_leader)), admitted_(needs == 0) {}

  // `self` keeps the stream alive until OnDone. `on_done` runs last.
  void Start(wire::StoreService::Stub& stub, std::shared_ptr<Stream> self,
             absl::AnyInvocable<void()> on_done) {
    self_ = std::move(self);
    on_done_ = std::move(on_done);
    stub.async()->Connect(&context_, this);
    AddHold();  // writes start outside the reactions
    StartRead(&incoming_);
    StartCall();
  }

  bool alive() const ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return alive_;
  }

  // Makes a call with `fill` and sends it. `answer` receives the result; it may be null if no
  // answer is expected. Returns the call's id, or 0 if the stream is over; then `answer` is not
  // called.
  template <typename Fill>
  uint64_t Call(By by, size_t bytes, Answer* answer, Fill fill) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (!alive_) return 0;
    const uint64_t id = ++last_call_;
    const bool any = by == By::kAny;
    if (answer != nullptr) (any ? calls_of_any_ : calls_).emplace(id, std::move(*answer));
    wire::StoreCall* call = (any ? outgoing_to_any_ : outgoing_).Next(bytes)->add_calls();
    call->set_call_id(id);
    fill(call);
    WriteNext();
    return id;
  }

  uint64_t OpenWatch(const WatchRequest& request, std::shared_ptr<ObserverGate> gate)
      ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (!alive_) return 0;
    const uint64_t id = ++last_call_;
    watches_.emplace(id, std::move(gate));
    wire::StoreCall* call = outgoing_.Next(request.begin.size() + request.end.size())->add_calls();
    call->set_call_id(id);
    ToWire(request, *call->mutable_open_watch());
    WriteNext();
    return id;
  }

  void CloseWatch(uint64_t id) ABSL_LOCKS_EXCLUDED(mu_) {
    {
      absl::MutexLock lock(&mu_);
      if (watches_.erase(id) == 0) return;
    }
    Call(By::kLeader, 0, nullptr,
         [id](wire::StoreCall* call) { call->mutable_close_watch()->set_watch_id(id); });
  }

  void Cancel() { context_.TryCancel(); }

  void OnReadDone(bool ok) override ABSL_LOCKS_EXCLUDED(mu_) {
    if (!ok) {
      absl::MutexLock lock(&mu_);
      End();
      return;
    }
    for (wire::StoreAnswer& answer : *incoming_.mutable_answers()) Dispatch(answer);
    StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) override ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    writing_ = false;
    if (!ok) return End();
    // Null: the question was written.
    if (written_ != nullptr) written_->PopSent();
    WriteNext();
  }

  void OnDone(const grpc::Status& status) override ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::Status lost = absl::UnavailableError(absl::StrCat(
        "the connection to the store has ended; the result is unknown: ", status.error_message()));
    Open open;
    {
      absl::MutexLock lock(&mu_);
      alive_ = false;
      open = TakeOpen();
      MoveTo(open, calls_of_any_);
    }
    open.End(lost);
    // Drop the context before the owner may go on. It holds the channel, whose end waits for gRPC's
    // threads: so its last reference must not be dropped on one of them.
    auto on_done = std::move(on_done_);
    auto self = std::move(self_);
    self.reset();
    on_done();
  }

 private:
  // Calls of By::kLeader and watches, without an end.
  struct Open {
    void End(const absl::Status& why) {
      for (auto& [id, gate] : watches) gate->Lagged(why);
      for (auto& [id, answer] : calls) answer(why);
    }
    std::map<uint64_t, Answer> calls;
    std::map<uint64_t, std::shared_ptr<ObserverGate>> watches;
  };
  static void MoveTo(Open& open, std::unordered_map<uint64_t, Answer>& calls) {
    open.calls.insert(std::make_move_iterator(calls.begin()), std::make_move_iterator(calls.end()));
    calls.clear();
  }
  Open TakeOpen() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    Open open;
    MoveTo(open, calls_);
    open.watches.swap(watches_);
    return open;
  }

  // The answer about the protocol.
  void OnAsked(const wire::StoreAnswer& answer) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::Status refused = StatusFromWire(answer);
    const bool leads = refused.ok();
    if (leads && answer.clock().protocol() < needs_)
      refused = LeaderTooOld(answer.clock().protocol(), needs_);
    // Set the reason before the calls fail, so that their callers can read it.
    on_leader_(leads ? std::string(refused.message()) : std::string());
    Open open;
    {
      absl::MutexLock lock(&mu_);
      asked_ = 0;
      admitted_ = refused.ok();
      if (admitted_) return WriteNext();
      outgoing_ = {};
      open = TakeOpen();
    }
    open.End(refused);
  }

  void Dispatch(wire::StoreAnswer& answer) ABSL_LOCKS_EXCLUDED(mu_) {
    Answer call;
    std::shared_ptr<ObserverGate> gate;
    bool asked = false;
    {
      absl::MutexLock lock(&mu_);
      asked = asked_ != 0 && answer.call_id() == asked_;
      if (auto it = calls_.find(answer.call_id()); it != calls_.end()) {
        call = std::move(it->second);
        calls_.erase(it);
      } else if (auto any = calls_of_any_.find(answer.call_id()); any != calls_of_any_.end()) {
        call = std::move(any->second);
        calls_of_any_.erase(any);
      } else if (auto watch = watches_.find(answer.call_id()); watch != watches_.end()) {
        gate = watch->second;
        if (!answer.has_watch_batch()) watches_.erase(watch);
      }
    }
    if (asked) return OnAsked(answer);
    if (call) return call(&answer);
    if (gate == nullptr) return;
    if (answer.has_watch_batch()) {
      gate->Batch(WatchBatchFromWire(*answer.mutable_watch_batch()));
    } else {
      gate->Lagged(StatusFromWire(answer));
    }
  }

  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (!alive_ || writing_) return;
    MessageQueue<wire::StoreRequest>& next =
        outgoing_to_any_.empty() ? outgoing_ : outgoing_to_any_;
    if (next.empty()) return;
    if (&next == &outgoing_ && !admitted_) {
      if (asked_ != 0) return;
      writing_ = true;
      written_ = nullptr;
      asked_ = ++last_call_;
      question_.Clear();
      wire::StoreCall* call = question_.add_calls();
      call->set_call_id(asked_);
      call->mutable_clock();
      StartWrite(&question_);
      return;
    }
    writing_ = true;
    written_ = &next;
    StartWrite(written_->Front());
  }

  // Starts no further write; OnDone does the rest.
  void End() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (!alive_) return;
    alive_ = false;
    RemoveHold();
  }

  const uint32_t needs_;
  absl::AnyInvocable<void(std::string)> on_leader_;
  grpc::ClientContext context_;
  wire::StoreRequest question_;
  wire::StoreResponse incoming_;
  std::shared_ptr<Stream> self_;
  absl::AnyInvocable<void()> on_done_;

  mutable absl::Mutex mu_;
  bool alive_ ABSL_GUARDED_BY(mu_) = true;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool admitted_ ABSL_GUARDED_BY(mu_);       // the leader speaks enough: calls are sent
  uint64_t asked_ ABSL_GUARDED_BY(mu_) = 0;  // the question without an answer; 0: none
  uint64_t last_call_ ABSL_GUARDED_BY(mu_) = 0;
  MessageQueue<wire::StoreRequest> outgoing_ ABSL_GUARDED_BY(mu_);
  MessageQueue<wire::StoreRequest> outgoing_to_any_ ABSL_GUARDED_BY(mu_);
  // Where the write under way is from; null: question_.
  MessageQueue<wire::StoreRequest>* written_ ABSL_GUARDED_BY(mu_) = nullptr;
  std::unordered_map<uint64_t, Answer> calls_ ABSL_GUARDED_BY(mu_);
  std::unordered_map<uint64_t, Answer> calls_of_any_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, std::shared_ptr<ObserverGate>> watches_ ABSL_GUARDED_BY(mu_);
};

class GrpcKvStore::Core {
 public:
  Core(std::shared_ptr<grpc::Channel> channel, uint32_t needs)
      : stub_(wire::StoreService::NewStub(channel)), needs_(needs) {}

  // Returns the living stream or a new one; null once stopped.
  std::shared_ptr<Stream> Current() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (stopped_) return nullptr;
    if (stream_ != nullptr && stream_->alive()) return stream_;
    stream_ = std::make_shared<Stream>(
        needs_, [this](std::string too_old) { SetTooOld(std::move(too_old)); });
    ++open_;
    // Stop waits for this stream, and so does the destructor.
    stream_->Start(*stub_, stream_, [this] {
      absl::MutexLock lock(&mu_);
      too_old_.clear();  // it was said of the store that was connected
      --open_;
    });
    return stream_;
  }

  void Disconnect() ABSL_LOCKS_EXCLUDED(mu_) {
    std::shared_ptr<Stream> stream;
    {
      absl::MutexLock lock(&mu_);
      stream = std::move(stream_);
    }
    if (stream != nullptr) stream->Cancel();
  }

  std::string TooOld() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return too_old_;
  }

  void Stop() ABSL_LOCKS_EXCLUDED(mu_) {
    {
      absl::MutexLock lock(&mu_);
      stopped_ = true;
    }
    Disconnect();
    absl::MutexLock lock(&mu_);
    auto all_done = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return open_ == 0; };
    mu_.Await(absl::Condition(&all_done));
  }

  // Makes one call on the current stream; `read` takes the result out of the answer.
  template <typename T, typename Fill>
  void Call(By by, size_t bytes, Callback<T> done, absl::StatusOr<T> (*read)(wire::StoreAnswer&),
            Fill fill) {
    auto stream = Current();
    Stream::Answer answer = [done, read](absl::StatusOr<wire::StoreAnswer*> got) {
      done(got.ok() ? read(**got) : absl::StatusOr<T>(got.status()));
    };
    if (stream != nullptr && stream->Call(by, bytes, &answer, fill) != 0) return;
    done(absl::UnavailableError("the connection to the store has just ended"));
  }

 private:
  void SetTooOld(std::string too_old) ABSL_LOCKS_EXCLUDED(mu_) {
    {
      absl::MutexLock lock(&mu_);
      if (too_old == too_old_) return;
      too_old_ = too_old;
    }
    if (!too_old.empty()) Log(LogLevel::kError, "store.client", too_old);
  }

  const std::unique_ptr<wire::StoreService::Stub> stub_;
  const uint32_t needs_;
  absl::Mutex mu_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  int open_ ABSL_GUARDED_BY(mu_) = 0;  // streams that gRPC still uses
  std::shared_ptr<Stream> stream_ ABSL_GUARDED_BY(mu_);
  std::string too_old_ ABSL_GUARDED_BY(mu_);
};

class GrpcKvStore::Handle final : public Watch {
 public:
  Handle(std::weak_ptr<Stream> stream, uint64_t id, std::shared_ptr<ObserverGate> gate)
      : stream_(std::move(stream)), id_(id), gate_(std::move(gate)) {}
  ~Handle() override {
    gate_->Close();
    if (auto stream = stream_.lock()) stream->CloseWatch(id_);
  }

  void MoveEnd(size_t range, std::string end) override {
    auto stream = stream_.lock();
    if (stream == nullptr) return;
    stream->Call(By::kLeader, end.size(), nullptr, [&](wire::StoreCall* call) {
      call->mutable_move_watch_end()->set_watch_id(id_);
      call->mutable_move_watch_end()->set_range(static_cast<uint32_t>(range));
      call->mutable_move_watch_end()->set_end(std::move(end));
    });
  }

 private:
  std::weak_ptr<Stream> stream_;
  const uint64_t id_;
  std::shared_ptr<ObserverGate> gate_;
};

GrpcKvStore::GrpcKvStore(std::shared_ptr<grpc::Channel> channel, uint32_t needs)
    : core_(std::make_shared<Core>(std::move(channel), needs)) {}
GrpcKvStore::~GrpcKvStore() { core_->Stop(); }

void GrpcKvStore::Disconnect() { core_->Disconnect(); }
std::string GrpcKvStore::TooOld() { return core_->TooOld(); }

void GrpcKvStore::OpenSession(uint64_t seen_incarnation, CommitSeq seen,
                              Callback<SessionInfo> done) {
  core_->Call<SessionInfo>(By::kLeader, 0, std::move(done), SessionFromWire,
                           [&](wire::StoreCall* call) {
                             call->mutable_open_session()->set_seen_incarnation(seen_incarnation);
                             call->mutable_open_session()->set_seen_seq(seen);
                           });
}

void GrpcKvStore::Commit(std::shared_ptr<const CommitRequest> request,
                         Callback<CommitResult> done) {
  size_t bytes = 0;
  for (const Group& group : request->groups) {
    for (const Mutation& mutation : group.mutations)
      bytes += mutation.key.size() + mutation.value.size();
  }
  core_->Call<CommitResult>(
      By::kLeader, bytes, std::move(done), CommitFromWire,
      [&](wire::StoreCall* call) { ToWire(*request, *call->mutable_commit()); });
}

void GrpcKvStore::MultiGet(std::vector<Key> keys, Callback<GetResult> done) {
  core_->Call<GetResult>(By::kLeader, 32 * keys.size(), std::move(done), GetFromWire,
                         [&](wire::StoreCall* call) { ToWire(keys, *call->mutable_multi_get()); });
}

void GrpcKvStore::Scan(ScanRequest request, Callback<ScanResult> done) {
  core_->Call<ScanResult>(By::kLeader, 64, std::move(done), ScanFromWire,
                          [&](wire::StoreCall* call) { ToWire(request, *call->mutable_scan()); });
}

void GrpcKvStore::AskClock(ClockCall call, Callback<ClockState> done) {
  core_->Call<ClockState>(By::kLeader, 64, std::move(done), ClockFromWire,
                          [&](wire::StoreCall* out) { ToWire(call, *out->mutable_clock()); });
}

void GrpcKvStore::GetStatus(Callback<v1::StoreStatus> done) {
  core_->Call<v1::StoreStatus>(By::kAny, 16, std::move(done), StoreStatusFromWire,
                               [](wire::StoreCall* call) { call->mutable_status(); });
}

void GrpcKvStore::HandOver(Callback<v1::HandOverResponse> done) {
  core_->Call<v1::HandOverResponse>(By::kAny, 16, std::move(done), HandedOverFromWire,
                                    [](wire::StoreCall* call) { call->mutable_hand_over(); });
}

std::unique_ptr<Watch> GrpcKvStore::OpenWatch(WatchRequest request, WatchObserver observer) {
  auto gate = std::make_shared<ObserverGate>(std::move(observer));
  auto stream = core_->Current();
  const uint64_t id = stream == nullptr ? 0 : stream->OpenWatch(request, gate);
  if (id == 0) gate->Lagged(absl::UnavailableError("the connection to the store has just ended"));
  return std::make_unique<Handle>(stream, id, gate);
}

}  // namespace escapement::kv
