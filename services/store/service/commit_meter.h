// CommitMeter: a store that tells how long each commit took, and passes all calls on.
//
// Threads: as the inner store.

#ifndef SERVICES_STORE_SERVICE_COMMIT_METER_H_
#define SERVICES_STORE_SERVICE_COMMIT_METER_H_

#include <functional>
#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "common/kv/forwarding_kv_store.h"
#include "common/runtime/runtime.h"

namespace escapement::store {

class CommitMeter final : public kv::ForwardingKvStore {
 public:
  // From the call to its answer: the commit is durable then, or refused.
  using OnCommit = std::function<void(absl::Duration took)>;

  // `inner` and `clock` must outlive it. `on_commit` runs on the thread of the answer.
  CommitMeter(kv::KvStore& inner, const Clock& clock, OnCommit on_commit)
      : ForwardingKvStore(inner),
        clock_(clock),
        on_commit_(std::make_shared<OnCommit>(std::move(on_commit))) {}

  using KvStore::Commit;
  void Commit(std::shared_ptr<const kv::CommitRequest> request,
              Callback<kv::CommitResult> done) override {
    inner_.Commit(std::move(request),
                  [&clock = clock_, on_commit = on_commit_, began = clock_.Elapsed(),
                   done = std::move(done)](absl::StatusOr<kv::CommitResult> result) mutable {
                    (*on_commit)(clock.Elapsed() - began);
                    done(std::move(result));
                  });
  }

 private:
  const Clock& clock_;
  const std::shared_ptr<const OnCommit> on_commit_;
};

}  // namespace escapement::store

#endif  // SERVICES_STORE_SERVICE_COMMIT_METER_H_
