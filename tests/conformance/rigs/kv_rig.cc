#include "tests/conformance/rigs/kv_rig.h"

#include <stdlib.h>

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/kv/memory/mem_kv_store.h"
#include "common/kv/rocks/rocks_kv_store.h"
#include "common/kv/wire/grpc_kv_store.h"
#include "common/kv/wire/leader_seeking_kv_store.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_server.h"
#include "common/rpc/rpc_table_grpc.h"
#include "services/store/service/store_grpc.h"
#include "tests/conformance/rigs/awaited.h"
#include "tests/conformance/rigs/led_store.h"

namespace escapement::kv {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(30);

std::string NewFolder() {
  const char* base = getenv("TEST_TMPDIR");
  std::string path = absl::StrCat(base != nullptr ? base : "/tmp", "/kv-XXXXXX");
  return mkdtemp(path.data());
}

class MemRig final : public KvRig {
 public:
  explicit MemRig(RigOptions options) : store_(runtime_, StoreOptions(options)) {}
  KvStore& store() override { return store_; }
  void Restart() override {
    store_.Crash(MemKvStore::Unsynced::kLost);
    store_.Restart();
  }

 private:
  static MemKvStore::Options StoreOptions(RigOptions options) {
    MemKvStore::Options mem;
    mem.lease_ttl = options.lease_ttl;
    mem.recent_slots_log2 = options.recent_slots_log2;
    return mem;
  }
  SystemRuntime runtime_;
  MemKvStore store_;
};

class RocksRig : public KvRig {
 public:
  explicit RocksRig(RigOptions options) : RocksRig(options, NewFolder()) {
    // Copying a new database takes far less time than making one with all its column families.
    static const std::string* const made = [] {
      const std::string folder = NewFolder();
      RocksRig rig(RigOptions(), folder);
      rig.Open();
      rig.store_.reset();
      return new std::string(rig.Leave());
    }();
    std::filesystem::copy(*made, folder_, std::filesystem::copy_options::recursive);
    Open();
  }
  ~RocksRig() override {
    store_.reset();
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }
  KvStore& store() override { return *store_; }
  void Restart() override {
    store_.reset();
    Open();
  }

 private:
  RocksRig(RigOptions options, std::string folder)
      : folder_(std::move(folder)), options_(options) {}
  std::string Leave() { return std::exchange(folder_, ""); }

  void Open() {
    RocksKvStore::Options rocks;
    rocks.data_dir = folder_;
    rocks.lease_ttl = options_.lease_ttl;
    rocks.recent_slots_log2 = options_.recent_slots_log2;
    rocks.watch_history_bytes_max = 1 << 20;
    rocks.block_cache_bytes = 8 << 20;
    rocks.write_buffer_bytes = 4 << 20;
    rocks.free_bytes_min = 0;
    store_ = RocksKvStore::Open(std::move(rocks), runtime_.clock()).value();
  }
  std::string folder_;
  const RigOptions options_;
  SystemRuntime runtime_;
  std::unique_ptr<RocksKvStore> store_;
};

class GrpcRig final : public KvRig {
 public:
  // `among_two`: the client also knows a store that does not lead.
  GrpcRig(RigOptions options, bool among_two) : rocks_(options), among_two_(among_two) { Serve(); }
  ~GrpcRig() override { End(); }
  KvStore& store() override { return *client_; }
  // The port may change, so the client is new, too. The old watches have ended by then.
  void Restart() override {
    server_.reset();
    rpcs_.reset();
    rocks_.Restart();
    old_clients_.push_back(std::move(client_));
    Serve();
  }

 private:
  void Serve() {
    rpcs_ = std::make_unique<RpcTable>();
    store::AddStoreRpcs(rocks_.store(), *rpcs_);
    GrpcServer::Options options;
    options.receive_bytes_max = 64 << 20;
    server_ = GrpcServer::Start(options, *rpcs_).value();
    if (!among_two_) {
      client_ = std::make_unique<GrpcKvStore>(NewChannel(server_->address()));
      return;
    }
    LeaderSeekingKvStore::Options seeking;
    if (follower_ == nullptr) follower_ = std::make_unique<LedStore>(rocks_.store());
    seeking.addresses = {follower_->address(), server_->address()};
    seeking.connect = [](const StoreAddress& to) { return NewChannel(to.target); };
    client_ = std::make_unique<LeaderSeekingKvStore>(runtime_, std::move(seeking));
  }
  void End() {
    client_.reset();
    old_clients_.clear();
    server_.reset();
    rpcs_.reset();
  }
  SystemRuntime runtime_;
  RocksRig rocks_;
  const bool among_two_;
  std::unique_ptr<LedStore> follower_;  // never leads, so it never calls its state
  std::unique_ptr<RpcTable> rpcs_;
  std::unique_ptr<GrpcServer> server_;
  std::vector<std::unique_ptr<KvStore>> old_clients_;
  std::unique_ptr<KvStore> client_;
};

}  // namespace

std::unique_ptr<KvRig> NewMemRig(RigOptions options) { return std::make_unique<MemRig>(options); }
std::unique_ptr<KvRig> NewRocksRig(RigOptions options) {
  return std::make_unique<RocksRig>(options);
}
std::unique_ptr<KvRig> NewGrpcRig(RigOptions options) {
  return std::make_unique<GrpcRig>(options, /*among_two=*/false);
}
std::unique_ptr<KvRig> NewLeaderSeekingRig(RigOptions options) {
  return std::make_unique<GrpcRig>(options, /*among_two=*/true);
}

absl::StatusOr<SessionInfo> KvRig::OpenSession(uint64_t seen_incarnation, CommitSeq seen) {
  Awaited<SessionInfo> answer;
  store().OpenSession(seen_incarnation, seen, answer.callback());
  return answer.Wait();
}

absl::StatusOr<CommitResult> KvRig::Commit(CommitRequest request) {
  Awaited<CommitResult> answer;
  store().Commit(std::move(request), answer.callback());
  return answer.Wait();
}

absl::StatusOr<GetResult> KvRig::Get(std::vector<Key> keys) {
  Awaited<GetResult> answer;
  store().MultiGet(std::move(keys), answer.callback());
  return answer.Wait();
}

absl::StatusOr<ScanResult> KvRig::Scan(ScanRequest request) {
  Awaited<ScanResult> answer;
  store().Scan(std::move(request), answer.callback());
  return answer.Wait();
}

WatchObserver WatchLog::observer() {
  WatchObserver observer;
  observer.on_batch = [state = state_](WatchBatch batch) {
    absl::MutexLock lock(&state->mu);
    state->seqs.push_back(batch.seq);
    for (auto& mutation : batch.mutations) state->mutations.push_back(std::move(mutation));
  };
  observer.on_lagged = [state = state_](absl::Status why) {
    absl::MutexLock lock(&state->mu);
    state->lagged = std::move(why);
  };
  return observer;
}

std::vector<WatchedMutation> WatchLog::WaitFor(size_t count) {
  absl::MutexLock lock(&state_->mu);
  auto here = [this, count] {
    return state_->mutations.size() >= count || state_->lagged.has_value();
  };
  state_->mu.AwaitWithTimeout(absl::Condition(&here), kPatience);
  return state_->mutations;
}

std::optional<absl::Status> WatchLog::WaitForLag() {
  absl::MutexLock lock(&state_->mu);
  auto here = [this] { return state_->lagged.has_value(); };
  state_->mu.AwaitWithTimeout(absl::Condition(&here), kPatience);
  return state_->lagged;
}

std::vector<CommitSeq> WatchLog::seqs() {
  absl::MutexLock lock(&state_->mu);
  return state_->seqs;
}

Mutation Put(ColumnFamily cf, std::string key, std::string value) {
  return {cf, Mutation::Kind::kPut, std::move(key), std::move(value), 0, absl::ZeroDuration()};
}

Mutation Delete(ColumnFamily cf, std::string key) {
  return {cf, Mutation::Kind::kDelete, std::move(key), "", 0, absl::ZeroDuration()};
}

Mutation DeleteRange(ColumnFamily cf, std::string begin, std::string end) {
  return {cf, Mutation::Kind::kDeleteRange, std::move(begin), std::move(end),
          0,  absl::ZeroDuration()};
}

Condition Cond(ColumnFamily cf, std::string key, Condition::Kind kind, std::string value,
               uint64_t number, CommitSeq since) {
  return {cf, std::move(key), kind, std::move(value), number, since};
}

CommitRequest Request(uint64_t session, uint64_t number, std::vector<Group> groups) {
  CommitRequest request;
  request.session = session;
  request.number = number;
  request.groups = std::move(groups);
  return request;
}

}  // namespace escapement::kv
