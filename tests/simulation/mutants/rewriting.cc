#include "tests/simulation/mutants/rewriting.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "common/kv/forwarding_kv_store.h"

namespace escapement::simulation {
namespace {

constexpr absl::Duration kResendAfter = absl::Milliseconds(50);
// This many commits are remembered, to recognise resends.
constexpr size_t kSentMax = 2 * kv::kSessionWindow;

class RewritingKvStore final : public kv::ForwardingKvStore {
 public:
  RewritingKvStore(kv::KvStore& inner, sim::SimProcess& process, Rewrite rewrite)
      : ForwardingKvStore(inner),
        rewrite_(std::move(rewrite)),
        executor_(process.NewExecutor("mutant")) {
    if (!rewrite_.split && !rewrite_.resends_anew) return;
    kv::KvClient::Options options;
    options.name = "mutant";
    options.on_session_lost = [] {};
    options.session_executor = executor_;
    own_ = std::make_unique<kv::KvClient>(inner, process, std::move(options));
  }

  void OpenSession(uint64_t incarnation, kv::CommitSeq seen,
                   Callback<kv::SessionInfo> done) override {
    inner_.OpenSession(incarnation, seen, Heard<kv::SessionInfo>(std::move(done)));
  }

  void AskClock(kv::ClockCall call, Callback<kv::ClockState> done) override {
    inner_.AskClock(std::move(call),
                    [this, done = std::move(done)](absl::StatusOr<kv::ClockState> state) {
                      if (state.ok()) {
                        state->store_time += rewrite_.ahead;
                        IgnoreSlowPhase(&*state);
                      }
                      done(std::move(state));
                    });
  }

  using KvStore::Commit;
  void Commit(std::shared_ptr<const kv::CommitRequest> request,
              Callback<kv::CommitResult> done) override {
    if (rewrite_.delay == absl::ZeroDuration()) return Send(std::move(request), std::move(done));
    executor_->PostAfter(rewrite_.delay, [this, request, done = std::move(done)]() mutable {
      Send(std::move(request), std::move(done));
    });
  }

  void MultiGet(std::vector<kv::Key> keys, Callback<kv::GetResult> done) override {
    auto asked = rewrite_.value ? keys : std::vector<kv::Key>();
    inner_.MultiGet(std::move(keys),
                    [this, asked = std::move(asked), done = Heard<kv::GetResult>(std::move(done))](
                        absl::StatusOr<kv::GetResult> result) {
                      for (size_t i = 0; result.ok() && i < asked.size(); ++i) {
                        if (result->values[i].has_value())
                          rewrite_.value(asked[i].cf, asked[i].key, &*result->values[i]);
                      }
                      done(std::move(result));
                    });
  }

  void Scan(kv::ScanRequest request, Callback<kv::ScanResult> done) override {
    const kv::ScanRequest asked = request;
    inner_.Scan(std::move(request), [this, asked, done = Heard<kv::ScanResult>(std::move(done))](
                                        absl::StatusOr<kv::ScanResult> result) {
      if (result.ok()) {
        for (kv::Entry& entry : result->entries) {
          if (rewrite_.value && !asked.keys_only) rewrite_.value(asked.cf, entry.key, &entry.value);
        }
        if (rewrite_.scan) rewrite_.scan(asked, &*result);
      }
      done(std::move(result));
    });
  }

  std::unique_ptr<kv::Watch> OpenWatch(kv::WatchRequest request,
                                       kv::WatchObserver observer) override {
    if (rewrite_.watch) rewrite_.watch(&request);
    observer.on_batch = [this, cf = request.cf,
                         on_batch = std::move(observer.on_batch)](kv::WatchBatch batch) {
      if (rewrite_.hears && !rewrite_.hears(cf)) return;
      for (kv::WatchedMutation& mutation : batch.mutations) {
        if (rewrite_.value && mutation.kind == kv::Mutation::Kind::kPut && !mutation.value_omitted)
          rewrite_.value(cf, mutation.key, &mutation.value);
      }
      batch.store_time += rewrite_.ahead;
      on_batch(std::move(batch));
    };
    if (rewrite_.ignores_lag) observer.on_lagged = [](absl::Status) {};
    return inner_.OpenWatch(std::move(request), std::move(observer));
  }

 private:
  // A commit as it was sent, and the commit that follows it, if any.
  struct Sent {
    std::shared_ptr<const kv::CommitRequest> request;
    std::optional<kv::Commit> second;
  };

  template <typename T>
  Callback<T> Heard(Callback<T> done) {
    return [this, done = std::move(done)](absl::StatusOr<T> result) {
      if (result.ok()) {
        seq_ = std::max(seq_, result->seq);
        store_time_ = std::max(store_time_, result->store_time);
        result->store_time += rewrite_.ahead;
        IgnoreSlowPhase(&*result);
      }
      done(std::move(result));
    };
  }

  template <typename T>
  void IgnoreSlowPhase(T* result) const {
    if constexpr (requires { result->pace; }) {
      if (rewrite_.ignores_slow_phase) result->pace = {};
    }
  }

  const Sent& Rewritten(const std::shared_ptr<const kv::CommitRequest>& request) {
    const std::pair<uint64_t, uint64_t> name{request->session, request->number};
    const auto known = sent_.find(name);
    if (known != sent_.end()) return known->second;
    while (sent_.size() >= kSentMax) sent_.erase(sent_.begin());
    auto changed = std::make_shared<kv::CommitRequest>(*request);
    if (rewrite_.commit) rewrite_.commit(changed.get());
    std::optional<kv::Commit> second =
        rewrite_.split ? rewrite_.split(changed.get()) : std::nullopt;
    return sent_[name] = {std::move(changed), std::move(second)};
  }

  void Send(std::shared_ptr<const kv::CommitRequest> request, Callback<kv::CommitResult> done) {
    const Sent& sent = Rewritten(request);
    if (rewrite_.unawaited && rewrite_.unawaited(*sent.request)) {
      executor_->PostAfter(rewrite_.gap,
                           [this, request = sent.request] { SendUntilKnown(request); });
      executor_->Post([this, groups = sent.request->groups.size(), done = std::move(done)] {
        done(kv::CommitResult{seq_, store_time_, std::vector<kv::Verdict>(groups, {true})});
      });
      return;
    }
    inner_.Commit(sent.request, [this, sent, done = Heard<kv::CommitResult>(std::move(done))](
                                    absl::StatusOr<kv::CommitResult> result) {
      Answered(sent, std::move(result), done);
    });
  }

  void SendUntilKnown(const std::shared_ptr<const kv::CommitRequest>& request) {
    inner_.Commit(request, [this, request](absl::StatusOr<kv::CommitResult> result) {
      if (absl::IsUnavailable(result.status()))
        executor_->PostAfter(kResendAfter, [this, request] { SendUntilKnown(request); });
    });
  }

  void Answered(const Sent& sent, absl::StatusOr<kv::CommitResult> result,
                const Callback<kv::CommitResult>& done) {
    if (absl::IsUnavailable(result.status()) && rewrite_.resends_anew) {
      return own_->CommitAsync({sent.request->fence, sent.request->groups}, executor_, done);
    }
    if (absl::IsUnavailable(result.status()) && rewrite_.refuses_unknown)
      return done(absl::ResourceExhaustedError("taken for refused"));
    if (!result.ok() || !sent.second.has_value()) return done(std::move(result));
    executor_->PostAfter(rewrite_.gap, [this, second = *sent.second, result, done] {
      own_->CommitAsync(second, executor_,
                        [result, done](absl::StatusOr<kv::CommitResult>) { done(result); });
    });
  }

  const Rewrite rewrite_;
  const std::shared_ptr<Executor> executor_;
  std::unique_ptr<kv::KvClient> own_;
  std::map<std::pair<uint64_t, uint64_t>, Sent> sent_;  // by session and number; the latest ones
  kv::CommitSeq seq_ = 0;
  absl::Time store_time_ = absl::InfinitePast();
};

}  // namespace

StoreDecorator Rewriting(std::string service, std::function<Rewrite()> make) {
  return [service = std::move(service), make = std::move(make)](
             kv::KvStore& inner, sim::SimProcess& process) -> std::unique_ptr<kv::KvStore> {
    if (!absl::StartsWith(process.name(), service)) return nullptr;
    return std::make_unique<RewritingKvStore>(inner, process, make());
  };
}

StoreDecorator Unfenced(std::string service, int n) {
  return Rewriting(std::move(service), [n] {
    return Rewrite{.commit = [every = Every(n)](kv::CommitRequest* request) mutable {
      if (!every()) return;
      WaiveConditions(request, [](const kv::Condition& condition) {
        return condition.cf == kv::ColumnFamily::kLeases &&
               condition.kind == kv::Condition::Kind::kValuePrefix;
      });
    }};
  });
}

}  // namespace escapement::simulation
