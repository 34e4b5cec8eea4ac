// ForwardingKvStore: passes every call to another store. Test doubles and CommitMeter derive from
// it and override the calls that they change.
//
// Threads: as the inner store.

#ifndef COMMON_KV_FORWARDING_KV_STORE_H_
#define COMMON_KV_FORWARDING_KV_STORE_H_

#include <memory>
#include <utility>
#include <vector>

#include "common/kv/kv_store.h"

namespace escapement::kv {

class ForwardingKvStore : public KvStore {
 public:
  // `inner` must outlive this object.
  explicit ForwardingKvStore(KvStore& inner) : inner_(inner) {}

  void OpenSession(uint64_t seen_incarnation, CommitSeq seen, Callback<SessionInfo> done) override {
    inner_.OpenSession(seen_incarnation, seen, std::move(done));
  }
  using KvStore::Commit;
  void Commit(std::shared_ptr<const CommitRequest> request, Callback<CommitResult> done) override {
    inner_.Commit(std::move(request), std::move(done));
  }
  void MultiGet(std::vector<Key> keys, Callback<GetResult> done) override {
    inner_.MultiGet(std::move(keys), std::move(done));
  }
  void Scan(ScanRequest request, Callback<ScanResult> done) override {
    inner_.Scan(std::move(request), std::move(done));
  }
  std::unique_ptr<Watch> OpenWatch(WatchRequest request, WatchObserver observer) override {
    return inner_.OpenWatch(std::move(request), std::move(observer));
  }
  void AskClock(ClockCall call, Callback<ClockState> done) override {
    inner_.AskClock(std::move(call), std::move(done));
  }

 protected:
  KvStore& inner_;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_FORWARDING_KV_STORE_H_
