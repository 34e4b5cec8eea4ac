#include "services/store/service/store_grpc.h"

#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/kv/wire/kv_wire.h"
#include "common/kv/wire/message_queue.h"
#include "common/rpc/ordered_stream_grpc.h"
#include "common/rpc/rpc_table_grpc.h"
#include "escapement/internal/v1/store.pb.h"

namespace escapement::store {
namespace {

namespace wire = ::escapement::internal::v1;

// The stream of one client. Reads run one after the other, so the client's calls reach the store in
// their order.
class Connection final : public grpc::ServerGenericBidiReactor {
 public:
  // The part that answers need. It outlives the reactor while the store still holds callbacks.
  class Outlet {
   public:
    explicit Outlet(Connection* connection) : connection_(connection) {}

    // Adds the message that `fill` makes of an answer. Returns false if the connection is over or
    // if, with a bound, too many bytes are waiting.
    template <typename Fill>
    bool Send(uint64_t call_id, size_t bytes, size_t backlog_bytes_max, Fill fill)
        ABSL_LOCKS_EXCLUDED(mu_) {
      absl::MutexLock lock(&mu_);
      if (connection_ == nullptr || outgoing_.bytes() + bytes > backlog_bytes_max) return false;
      wire::StoreAnswer* answer = outgoing_.Next(bytes)->add_answers();
      answer->set_call_id(call_id);
      fill(answer);
      WriteNext();
      return true;
    }

    void OnWriteDone(bool ok) ABSL_LOCKS_EXCLUDED(mu_) {
      absl::MutexLock lock(&mu_);
      writing_ = false;
      if (!ok) ending_ = true;
      outgoing_.PopSent();
      WriteNext();
    }

    // No more calls will come: ends the stream once the running write is done.
    void End() ABSL_LOCKS_EXCLUDED(mu_) {
      absl::MutexLock lock(&mu_);
      ending_ = true;
      WriteNext();
    }

    // Called just before the reactor is destroyed.
    void Detach() ABSL_LOCKS_EXCLUDED(mu_) {
      absl::MutexLock lock(&mu_);
      connection_ = nullptr;
    }

   private:
    void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      if (connection_ == nullptr || writing_ || finished_) return;
      if (ending_) {
        finished_ = true;
        connection_->Finish(grpc::Status::OK);
        return;
      }
      if (outgoing_.empty()) return;
      writing_ = true;
      WriteMessage(*outgoing_.Front(), &connection_->written_);
      connection_->StartWrite(&connection_->written_);
    }

    absl::Mutex mu_;
    Connection* connection_ ABSL_GUARDED_BY(mu_);  // null once the reactor is destroyed
    kv::MessageQueue<wire::StoreResponse> outgoing_ ABSL_GUARDED_BY(mu_);
    bool writing_ ABSL_GUARDED_BY(mu_) = false;
    bool ending_ ABSL_GUARDED_BY(mu_) = false;
    bool finished_ ABSL_GUARDED_BY(mu_) = false;
  };

  Connection(kv::KvStore& store, kv::StoreAdmin* admin, uint32_t protocol, AdmittedCall call)
      : call_(std::move(call)),
        store_(store),
        admin_(admin),
        protocol_(protocol),
        outlet_(std::make_shared<Outlet>(this)) {
    StartRead(&read_);
  }

  void OnReadDone(bool ok) override {
    if (!ok || !ReadMessage(read_, &incoming_).ok()) return outlet_->End();
    for (wire::StoreCall& call : *incoming_.mutable_calls()) Take(call);
    StartRead(&read_);
  }
  void OnWriteDone(bool ok) override { outlet_->OnWriteDone(ok); }
  void OnCancel() override { outlet_->End(); }
  void OnDone() override {
    outlet_->Detach();
    delete this;
  }

 private:
  static constexpr size_t kNoBound = ~size_t{0} / 2;

  void Take(wire::StoreCall& call);
  void AskClock(uint64_t id, kv::ClockCall call);
  void OpenWatch(uint64_t id, kv::WatchRequest request);
  void Refuse(uint64_t id);

  // Makes a callback that sends the store's result as the answer of call `id`.
  template <typename T>
  kv::KvStore::Callback<T> Answer(uint64_t id) {
    return [outlet = outlet_, id](absl::StatusOr<T> result) {
      const size_t bytes = BytesOf(result);
      outlet->Send(id, bytes, kNoBound,
                   [&](wire::StoreAnswer* answer) { kv::ToWire(std::move(result), *answer); });
    };
  }

  static size_t BytesOf(const absl::StatusOr<kv::SessionInfo>&) { return 32; }
  static size_t BytesOf(const absl::StatusOr<kv::CommitResult>&) { return 32; }
  static size_t BytesOf(const absl::StatusOr<v1::StoreStatus>&) { return 512; }
  static size_t BytesOf(const absl::StatusOr<v1::HandOverResponse>&) { return 32; }
  static size_t BytesOf(const absl::StatusOr<kv::GetResult>& result) {
    size_t bytes = 32;
    if (!result.ok()) return bytes;
    for (const auto& value : result->values) bytes += 4 + (value.has_value() ? value->size() : 0);
    return bytes;
  }
  static size_t BytesOf(const absl::StatusOr<kv::ScanResult>& result) {
    size_t bytes = 32;
    if (!result.ok()) return bytes;
    for (const auto& entry : result->entries) bytes += 8 + entry.key.size() + entry.value.size();
    return bytes;
  }

  const AdmittedCall call_;
  kv::KvStore& store_;
  kv::StoreAdmin* const admin_;  // may be null
  const uint32_t protocol_;
  const std::shared_ptr<Outlet> outlet_;
  grpc::ByteBuffer read_;     // the read under way
  grpc::ByteBuffer written_;  // the write under way; the outlet's
  wire::StoreRequest incoming_;
  std::map<uint64_t, std::unique_ptr<kv::Watch>> watches_;  // touched only by reads and by the end
};

void Connection::Take(wire::StoreCall& call) {
  const uint64_t id = call.call_id();
  switch (call.call_case()) {
    case wire::StoreCall::kOpenSession:
      store_.OpenSession(call.open_session().seen_incarnation(), call.open_session().seen_seq(),
                         Answer<kv::SessionInfo>(id));
      break;
    case wire::StoreCall::kCommit:
      store_.Commit(kv::FromWire(*call.mutable_commit()), Answer<kv::CommitResult>(id));
      break;
    case wire::StoreCall::kMultiGet:
      store_.MultiGet(kv::FromWire(*call.mutable_multi_get()), Answer<kv::GetResult>(id));
      break;
    case wire::StoreCall::kScan:
      store_.Scan(kv::FromWire(*call.mutable_scan()), Answer<kv::ScanResult>(id));
      break;
    case wire::StoreCall::kOpenWatch:
      OpenWatch(id, kv::FromWire(*call.mutable_open_watch()));
      break;
    case wire::StoreCall::kMoveWatchEnd: {
      auto watch = watches_.find(call.move_watch_end().watch_id());
      if (watch != watches_.end())
        watch->second->MoveEnd(call.move_watch_end().range(),
                               std::move(*call.mutable_move_watch_end()->mutable_end()));
      break;
    }
    case wire::StoreCall::kCloseWatch:
      watches_.erase(call.close_watch().watch_id());
      break;
    case wire::StoreCall::kClock:
      AskClock(id, kv::FromWire(*call.mutable_clock()));
      break;
    case wire::StoreCall::kStatus:
      if (admin_ == nullptr) return Refuse(id);
      admin_->GetStatus(Answer<v1::StoreStatus>(id));
      break;
    case wire::StoreCall::kHandOver:
      if (admin_ == nullptr) return Refuse(id);
      admin_->HandOver(Answer<v1::HandOverResponse>(id));
      break;
    case wire::StoreCall::CALL_NOT_SET:
      Refuse(id);
      break;
  }
}

void Connection::Refuse(uint64_t id) {
  outlet_->Send(id, 64, kNoBound, [](wire::StoreAnswer* answer) {
    kv::ToWire(absl::InvalidArgumentError("a call this store does not know"), *answer);
  });
}

void Connection::AskClock(uint64_t id, kv::ClockCall call) {
  store_.AskClock(std::move(call), [outlet = outlet_, id, protocol = protocol_](
                                       const absl::StatusOr<kv::ClockState>& state) {
    outlet->Send(id, 64, kNoBound, [&](wire::StoreAnswer* answer) {
      kv::ToWire(state, *answer);
      if (state.ok()) answer->mutable_clock()->set_protocol(protocol);
    });
  });
}

void Connection::OpenWatch(uint64_t id, kv::WatchRequest request) {
  kv::WatchObserver observer;
  auto lagged = std::make_shared<bool>(false);  // safe: calls of one observer never overlap
  observer.on_batch = [outlet = outlet_, id, lagged](kv::WatchBatch batch) {
    if (*lagged) return;
    size_t bytes = 32;
    for (const auto& mutation : batch.mutations)
      bytes += 16 + mutation.key.size() + mutation.value.size();
    auto fill = [&](wire::StoreAnswer* answer) { kv::ToWire(std::move(batch), *answer); };
    if (outlet->Send(id, bytes, kWatchBacklogBytesMax, fill)) return;
    *lagged = true;
    outlet->Send(id, 64, kNoBound, [](wire::StoreAnswer* answer) {
      kv::ToWire(absl::ResourceExhaustedError("the watcher does not keep up"), *answer);
    });
  };
  observer.on_lagged = [outlet = outlet_, id, lagged](absl::Status why) {
    if (*lagged) return;
    *lagged = true;
    outlet->Send(id, 64, kNoBound, [&](wire::StoreAnswer* answer) { kv::ToWire(why, *answer); });
  };
  watches_[id] = store_.OpenWatch(std::move(request), std::move(observer));
}

}  // namespace

void AddStoreRpcs(kv::KvStore& store, RpcTable& table, kv::StoreAdmin* admin, uint32_t protocol) {
  table.AddStream("escapement.internal.v1.StoreService.Connect",
                  [&store, admin, protocol](AdmittedCall call) {
                    return new Connection(store, admin, protocol, std::move(call));
                  });
}

}  // namespace escapement::store
