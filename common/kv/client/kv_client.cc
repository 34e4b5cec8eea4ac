#include "common/kv/client/kv_client.h"

#include <utility>

#include "common/kv/client/kv_client_core.h"

namespace escapement::kv {
namespace {

class WatchHandle final : public Watch {
 public:
  explicit WatchHandle(std::shared_ptr<ClientWatch> watch) : watch_(std::move(watch)) {}
  ~WatchHandle() override { watch_->Close(); }
  void MoveEnd(size_t range, std::string end) override { watch_->MoveEnd(range, std::move(end)); }

 private:
  std::shared_ptr<ClientWatch> watch_;
};

}  // namespace

KvClient::KvClient(KvStore& store, Runtime& runtime, Options options)
    : core_(std::make_shared<Core>(store, runtime, std::move(options))) {
  core_->OpenSession();
  core_->TellClock();
}

KvClient::~KvClient() { core_->Stop(); }

void KvClient::CommitAsync(Commit commit, std::shared_ptr<Executor> on,
                           Callback<CommitResult> done) {
  core_->Commit(std::move(commit), std::move(on), std::move(done));
}

void KvClient::MultiGet(std::vector<Key> keys, std::shared_ptr<Executor> on,
                        Callback<GetResult> done) {
  auto read = std::make_shared<Core::Read<GetResult>>();
  read->send = [keys = std::move(keys)](KvStore& store, KvStore::Callback<GetResult> answer) {
    store.MultiGet(keys, std::move(answer));
  };
  read->on = std::move(on);
  read->done = std::move(done);
  core_->StartRead(std::move(read));
}

void KvClient::Scan(ScanRequest request, std::shared_ptr<Executor> on, Callback<ScanResult> done) {
  auto read = std::make_shared<Core::Read<ScanResult>>();
  read->send = [request = std::move(request)](KvStore& store,
                                              KvStore::Callback<ScanResult> answer) {
    store.Scan(request, std::move(answer));
  };
  read->on = std::move(on);
  read->done = std::move(done);
  core_->StartRead(std::move(read));
}

std::unique_ptr<Watch> KvClient::OpenWatch(WatchRequest request, bool excluding_own,
                                           std::shared_ptr<Executor> on, WatchObserver observer) {
  return std::make_unique<WatchHandle>(
      core_->OpenWatch(std::move(request), excluding_own, std::move(on), std::move(observer)));
}

absl::Time KvClient::NowLow() const { return core_->NowLow(); }

bool KvClient::Connected() const { return core_->Connected(); }

Runtime& KvClient::runtime() const { return core_->runtime(); }

}  // namespace escapement::kv
