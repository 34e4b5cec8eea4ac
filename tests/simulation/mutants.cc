#include "tests/simulation/mutants.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "common/kv/forwarding_kv_store.h"

namespace escapement::simulation {
namespace {

bool IsHandler(const sim::SimProcess& process) {
  return absl::StartsWith(process.name(), "handler");
}
bool IsEmitter(const sim::SimProcess& process) {
  return absl::StartsWith(process.name(), "emitter");
}

class LosingKvStore final : public kv::ForwardingKvStore {
 public:
  LosingKvStore(kv::KvStore& inner, int nth) : ForwardingKvStore(inner), nth_(nth) {}

  void Commit(std::shared_ptr<const kv::CommitRequest> request,
              Callback<kv::CommitResult> done) override {
    auto changed = std::make_shared<kv::CommitRequest>(*request);
    for (kv::Group& group : changed->groups) {
      for (auto it = group.mutations.begin(); it != group.mutations.end(); ++it) {
        if (it->cf != kv::ColumnFamily::kEvents || it->kind != kv::Mutation::Kind::kPut) continue;
        if (++rows_commits_ % nth_ == 0) group.mutations.erase(it);
        return inner_.Commit(changed, std::move(done));
      }
    }
    inner_.Commit(std::move(request), std::move(done));
  }

 private:
  const int nth_;
  int rows_commits_ = 0;
};

class AheadKvStore final : public kv::ForwardingKvStore {
 public:
  AheadKvStore(kv::KvStore& inner, absl::Duration ahead)
      : ForwardingKvStore(inner), ahead_(ahead) {}

  void OpenSession(uint64_t incarnation, kv::CommitSeq seen,
                   Callback<kv::SessionInfo> done) override {
    inner_.OpenSession(incarnation, seen, Ahead<kv::SessionInfo>(std::move(done)));
  }
  void Commit(std::shared_ptr<const kv::CommitRequest> request,
              Callback<kv::CommitResult> done) override {
    inner_.Commit(std::move(request), Ahead<kv::CommitResult>(std::move(done)));
  }
  void MultiGet(std::vector<kv::Key> keys, Callback<kv::GetResult> done) override {
    inner_.MultiGet(std::move(keys), Ahead<kv::GetResult>(std::move(done)));
  }
  void Scan(kv::ScanRequest request, Callback<kv::ScanResult> done) override {
    inner_.Scan(std::move(request), Ahead<kv::ScanResult>(std::move(done)));
  }

 private:
  template <typename T>
  Callback<T> Ahead(Callback<T> done) {
    return [ahead = ahead_, done = std::move(done)](absl::StatusOr<T> result) {
      if (result.ok()) result->store_time += ahead;
      done(std::move(result));
    };
  }
  const absl::Duration ahead_;
};

class UnfencedKvStore final : public kv::ForwardingKvStore {
 public:
  using ForwardingKvStore::ForwardingKvStore;

  void Commit(std::shared_ptr<const kv::CommitRequest> request,
              Callback<kv::CommitResult> done) override {
    auto changed = std::make_shared<kv::CommitRequest>(*request);
    changed->fence.clear();
    for (kv::Group& group : changed->groups) {
      for (const kv::Mutation& mutation : group.mutations) {
        if (mutation.cf != kv::ColumnFamily::kInflight) continue;
        group.conditions.clear();
        break;
      }
    }
    inner_.Commit(std::move(changed), std::move(done));
  }
};

class TwiceTransport final : public handler::DeliveryTransport {
 public:
  TwiceTransport(std::unique_ptr<handler::DeliveryTransport> inner, int nth)
      : inner_(std::move(inner)), nth_(nth) {}

  void Send(std::vector<handler::DeliveryAttempt> attempts,
            std::shared_ptr<handler::DeliverySink> sink) override {
    std::vector<handler::DeliveryAttempt> again;
    for (const handler::DeliveryAttempt& attempt : attempts) {
      if (++attempts_ % nth_ == 0) again.push_back(attempt);
    }
    if (!again.empty()) inner_->Send(std::move(again), std::make_shared<Deaf>());
    inner_->Send(std::move(attempts), std::move(sink));
  }

 private:
  struct Deaf final : handler::DeliverySink {
    void OnResult(uint64_t, handler::DeliveryResult) override {}
  };
  const std::unique_ptr<handler::DeliveryTransport> inner_;
  const int nth_;
  int attempts_ = 0;
};

}  // namespace

StoreDecorator LosesAcknowledgedRow(int nth) {
  return [nth](kv::KvStore& inner, sim::SimProcess& process) -> std::unique_ptr<kv::KvStore> {
    if (!IsEmitter(process)) return nullptr;
    return std::make_unique<LosingKvStore>(inner, nth);
  };
}

StoreDecorator ClockOfHandlersRunsAhead(absl::Duration ahead) {
  return [ahead](kv::KvStore& inner, sim::SimProcess& process) -> std::unique_ptr<kv::KvStore> {
    if (!IsHandler(process)) return nullptr;
    return std::make_unique<AheadKvStore>(inner, ahead);
  };
}

StoreDecorator HandlersWriteUnfenced() {
  return [](kv::KvStore& inner, sim::SimProcess& process) -> std::unique_ptr<kv::KvStore> {
    if (!IsHandler(process)) return nullptr;
    return std::make_unique<UnfencedKvStore>(inner);
  };
}

TransportDecorator SendsTwice(int nth) {
  return [nth](std::unique_ptr<handler::DeliveryTransport> inner, sim::SimProcess&) {
    return std::make_unique<TwiceTransport>(std::move(inner), nth);
  };
}

}  // namespace escapement::simulation
