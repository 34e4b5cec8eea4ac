#include "tests/simulation/mutants.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "common/kv/forwarding_kv_store.h"
#include "common/storage/children_table.h"
#include "common/storage/waiting_table.h"
#include "escapement/storage/v1/records.pb.h"

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

bool IsTokenManager(const sim::SimProcess& process) {
  return absl::StartsWith(process.name(), "token_manager");
}

class GenerousKvStore final : public kv::ForwardingKvStore {
 public:
  using ForwardingKvStore::ForwardingKvStore;

  void Commit(std::shared_ptr<const kv::CommitRequest> request,
              Callback<kv::CommitResult> done) override {
    auto changed = std::make_shared<kv::CommitRequest>(*request);
    for (kv::Group& group : changed->groups) {
      group.conditions.erase(std::remove_if(group.conditions.begin(), group.conditions.end(),
                                            [](const kv::Condition& condition) {
                                              return condition.cf == kv::ColumnFamily::kPolicies;
                                            }),
                             group.conditions.end());
    }
    inner_.Commit(std::move(changed), std::move(done));
  }
  void MultiGet(std::vector<kv::Key> keys, Callback<kv::GetResult> done) override {
    std::vector<kv::Key> asked = keys;
    inner_.MultiGet(std::move(keys), [asked = std::move(asked), done = std::move(done)](
                                         absl::StatusOr<kv::GetResult> result) {
      for (size_t i = 0; result.ok() && i < result->values.size(); ++i) {
        if (asked[i].cf == kv::ColumnFamily::kPolicies && result->values[i].has_value())
          Raise(&*result->values[i]);
      }
      done(std::move(result));
    });
  }
  void Scan(kv::ScanRequest request, Callback<kv::ScanResult> done) override {
    const bool policies = request.cf == kv::ColumnFamily::kPolicies;
    inner_.Scan(std::move(request),
                [policies, done = std::move(done)](absl::StatusOr<kv::ScanResult> result) {
                  for (size_t i = 0; policies && result.ok() && i < result->entries.size(); ++i)
                    Raise(&result->entries[i].value);
                  done(std::move(result));
                });
  }
  std::unique_ptr<kv::Watch> OpenWatch(kv::WatchRequest request,
                                       kv::WatchObserver observer) override {
    if (request.cf == kv::ColumnFamily::kPolicies) {
      observer.on_batch = [on_batch = std::move(observer.on_batch)](kv::WatchBatch batch) {
        for (kv::WatchedMutation& mutation : batch.mutations) {
          if (mutation.kind == kv::Mutation::Kind::kPut && !mutation.value_omitted)
            Raise(&mutation.value);
        }
        on_batch(std::move(batch));
      };
    }
    return inner_.OpenWatch(std::move(request), std::move(observer));
  }

 private:
  static void Raise(std::string* value) {
    storage::v1::PolicyRecord record;
    if (!record.ParseFromString(*value) || record.max_concurrent() == 0) return;
    record.set_max_concurrent(record.max_concurrent() + 1);
    *value = record.SerializeAsString();
  }
};

class OutcomeLosingKvStore final : public kv::ForwardingKvStore {
 public:
  OutcomeLosingKvStore(kv::KvStore& inner, int nth) : ForwardingKvStore(inner), nth_(nth) {}

  void Commit(std::shared_ptr<const kv::CommitRequest> request,
              Callback<kv::CommitResult> done) override {
    auto changed = std::make_shared<kv::CommitRequest>(*request);
    for (kv::Group& group : changed->groups) {
      for (auto it = group.mutations.begin(); it != group.mutations.end(); ++it) {
        if (it->cf != kv::ColumnFamily::kDone) continue;
        if (++outcomes_ % nth_ == 0) group.mutations.erase(it);
        return inner_.Commit(std::move(changed), std::move(done));
      }
    }
    inner_.Commit(std::move(request), std::move(done));
  }

 private:
  const int nth_;
  int outcomes_ = 0;
};

class SlowKvStore final : public kv::ForwardingKvStore {
 public:
  SlowKvStore(kv::KvStore& inner, sim::SimProcess& process, absl::Duration delay)
      : ForwardingKvStore(inner), executor_(process.NewExecutor("slow")), delay_(delay) {}

  void Commit(std::shared_ptr<const kv::CommitRequest> request,
              Callback<kv::CommitResult> done) override {
    executor_->PostAfter(delay_, [this, request, done = std::move(done)]() mutable {
      inner_.Commit(std::move(request), std::move(done));
    });
  }

 private:
  const std::shared_ptr<Executor> executor_;
  const absl::Duration delay_;
};

class ReturningKvStore final : public kv::ForwardingKvStore {
 public:
  ReturningKvStore(kv::KvStore& inner, int nth) : ForwardingKvStore(inner), nth_(nth) {}

  void Commit(std::shared_ptr<const kv::CommitRequest> request,
              Callback<kv::CommitResult> done) override {
    auto changed = std::make_shared<kv::CommitRequest>(*request);
    for (kv::Group& group : changed->groups) {
      for (kv::Mutation& mutation : group.mutations) {
        if (mutation.cf == kv::ColumnFamily::kWaiting && IsReportKey(mutation.key) &&
            mutation.kind == kv::Mutation::Kind::kPut)
          Spoil(&mutation.value);
      }
    }
    inner_.Commit(std::move(changed), std::move(done));
  }

 private:
  void Spoil(std::string* value) {
    storage::v1::GrantReportRecord record;
    if (!record.ParseFromString(*value)) return;
    for (auto& entry : *record.mutable_entries()) {
      if (entry.kind() == storage::v1::GrantReportRecord::DELIVERED && ++delivered_ % nth_ == 0)
        entry.set_kind(storage::v1::GrantReportRecord::RETURNED);
    }
    *value = record.SerializeAsString();
  }

  const int nth_;
  int delivered_ = 0;
};

// An emitter's commits go out changed.
class ChangingKvStore final : public kv::ForwardingKvStore {
 public:
  using Change = std::function<void(kv::Group*)>;
  ChangingKvStore(kv::KvStore& inner, Change change)
      : ForwardingKvStore(inner), change_(std::move(change)) {}

  void Commit(std::shared_ptr<const kv::CommitRequest> request,
              Callback<kv::CommitResult> done) override {
    auto changed = std::make_shared<kv::CommitRequest>(*request);
    for (kv::Group& group : changed->groups) change_(&group);
    inner_.Commit(std::move(changed), std::move(done));
  }

 private:
  const Change change_;
};

StoreDecorator OfEmitters(std::function<ChangingKvStore::Change()> make) {
  return [make](kv::KvStore& inner, sim::SimProcess& process) -> std::unique_ptr<kv::KvStore> {
    if (!IsEmitter(process)) return nullptr;
    return std::make_unique<ChangingKvStore>(inner, make());
  };
}

template <typename Predicate>
void EraseMutations(kv::Group* group, Predicate predicate) {
  group->mutations.erase(
      std::remove_if(group->mutations.begin(), group->mutations.end(), predicate),
      group->mutations.end());
}

// A record of skipped occurrences; nullopt for every other mutation.
std::optional<storage::v1::DoneRecord> SkippedBy(const kv::Mutation& mutation) {
  storage::v1::DoneRecord record;
  if (mutation.cf != kv::ColumnFamily::kDone || mutation.kind != kv::Mutation::Kind::kPut ||
      !record.ParseFromString(mutation.value) || !record.run_skipped())
    return std::nullopt;
  return record;
}

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

StoreDecorator TokenManagersGrantOneMore() {
  return [](kv::KvStore& inner, sim::SimProcess& process) -> std::unique_ptr<kv::KvStore> {
    if (!IsTokenManager(process)) return nullptr;
    return std::make_unique<GenerousKvStore>(inner);
  };
}

StoreDecorator TokenManagersLoseOutcome(int nth) {
  return [nth](kv::KvStore& inner, sim::SimProcess& process) -> std::unique_ptr<kv::KvStore> {
    if (!IsTokenManager(process)) return nullptr;
    return std::make_unique<OutcomeLosingKvStore>(inner, nth);
  };
}

StoreDecorator TokenManagersAreSlow(absl::Duration delay) {
  return [delay](kv::KvStore& inner, sim::SimProcess& process) -> std::unique_ptr<kv::KvStore> {
    if (!IsTokenManager(process)) return nullptr;
    return std::make_unique<SlowKvStore>(inner, process, delay);
  };
}

StoreDecorator HandlersReportReturned(int nth) {
  return [nth](kv::KvStore& inner, sim::SimProcess& process) -> std::unique_ptr<kv::KvStore> {
    if (!IsHandler(process)) return nullptr;
    return std::make_unique<ReturningKvStore>(inner, nth);
  };
}

StoreDecorator EmittersLeaveIntervals() {
  return OfEmitters([] {
    return [](kv::Group* group) {
      EraseMutations(group, [](const kv::Mutation& mutation) {
        return mutation.cf == kv::ColumnFamily::kChildren &&
               DecodeInstantChildKey(mutation.key).has_value();
      });
    };
  });
}

StoreDecorator EmittersForgetSkipped(int nth) {
  return OfEmitters([nth] {
    return [nth, skipped = 0](kv::Group* group) mutable {
      EraseMutations(group, [&](const kv::Mutation& mutation) {
        const auto record = SkippedBy(mutation);
        return record.has_value() && record->reason() == "misfire" &&
               record->skipped_occurrences() == 0 && ++skipped % nth == 0;
      });
    };
  });
}

StoreDecorator EmittersForgetActiveRuns() {
  return OfEmitters([] {
    return [](kv::Group* group) {
      EraseMutations(group, [](const kv::Mutation& mutation) {
        return mutation.cf == kv::ColumnFamily::kCheckpoints &&
               mutation.kind == kv::Mutation::Kind::kPut &&
               DecodeActiveRunKey(mutation.key).has_value();
      });
    };
  });
}

StoreDecorator EmittersMiscountSummaries() {
  return OfEmitters([] {
    return [](kv::Group* group) {
      for (kv::Mutation& mutation : group->mutations) {
        auto record = SkippedBy(mutation);
        if (!record.has_value() || record->skipped_occurrences() < 2) continue;
        record->set_skipped_occurrences(record->skipped_occurrences() - 1);
        mutation.value = record->SerializeAsString();
      }
    };
  });
}

TransportDecorator SendsTwice(int nth) {
  return [nth](std::unique_ptr<handler::DeliveryTransport> inner, sim::SimProcess&) {
    return std::make_unique<TwiceTransport>(std::move(inner), nth);
  };
}

}  // namespace escapement::simulation
