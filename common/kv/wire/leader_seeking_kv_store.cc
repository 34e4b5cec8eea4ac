#include "common/kv/wire/leader_seeking_kv_store.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/kv/wire/grpc_kv_store.h"
#include "common/kv/wire/leader_search.h"

namespace escapement::kv {
namespace {

// The client of one store.
struct Target {
  Target(StoreAddress at, std::unique_ptr<StoreConnection> connection)
      : address(std::move(at)), store(std::move(connection)) {}

  const StoreAddress address;
  std::atomic<int> open{0};          // calls without an answer
  std::atomic<int64_t> heard_at{0};  // nanoseconds of Elapsed: the last answer, or the first of
                                     // the open calls
  bool probed = false;               // a probe has no answer yet; guarded by Core::mu_
  int users = 0;                     // threads that call `store` now; guarded by Core::mu_
  // The last member: its end waits for callbacks that use the others.
  const std::unique_ptr<StoreConnection> store;
};

}  // namespace

class LeaderSeekingKvStore::Core {
 public:
  Core(Runtime& runtime, Options options)
      : clock_(runtime.clock()),
        random_(runtime.random()),
        options_(std::move(options)),
        timers_(runtime.NewExecutor("store-leader")),
        resolver_(options_.resolver != nullptr ? std::move(options_.resolver)
                                               : std::make_unique<NameResolver>()),
        search_(options_.addresses) {}

  ~Core() ABSL_LOCKS_EXCLUDED(mu_) {
    std::deque<Held> held;
    {
      absl::MutexLock lock(&mu_);
      stopped_ = true;
      held.swap(held_);
    }
    timers_->Stop();
    resolver_.reset();
    for (Held& call : held) call.run(nullptr, Stopped());
    std::map<StoreAddress, std::unique_ptr<Target>> targets;
    {
      // Callbacks may make calls; each is short.
      absl::MutexLock lock(&mu_);
      auto unused = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return users_ == 0; };
      mu_.Await(absl::Condition(&unused));
      targets.swap(targets_);
    }
    targets.clear();
  }

  // `send(store, done)` makes the call.
  template <typename T, typename Send>
  void Call(Callback<T> done, Send send) ABSL_LOCKS_EXCLUDED(mu_) {
    Target* target = nullptr;
    absl::Status refused;
    {
      absl::MutexLock lock(&mu_);
      target = TakeCurrent();
      if (target == nullptr) {
        refused = CannotHold();
        if (refused.ok()) {
          return Hold([this, done = std::move(done), send = std::move(send)](
                          Target* to, const absl::Status& why) mutable {
            if (to == nullptr) return done(why);
            SendTo(*to, std::move(done), std::move(send));
          });
        }
      }
    }
    if (target == nullptr) return done(refused);
    SendTo(*target, std::move(done), std::move(send));
    Release(*target);
  }

  // Returns a callback that gives its answer to `done`, unless the leader's time is over. Then
  // `done` has an error, and the answer is dropped.
  template <typename T>
  Callback<T> InTime(Callback<T> done) {
    struct Once {
      absl::Mutex mu;
      Callback<T> done ABSL_GUARDED_BY(mu);
    };
    auto once = std::make_shared<Once>();
    {
      absl::MutexLock lock(&once->mu);
      once->done = std::move(done);
    }
    Callback<T> give = [once](absl::StatusOr<T> answer) {
      Callback<T> done;
      {
        absl::MutexLock lock(&once->mu);
        done = std::exchange(once->done, nullptr);
      }
      if (done != nullptr) done(std::move(answer));
    };
    timers_->PostAfter(options_.answer_max, [give, limit = options_.answer_max] {
      give(absl::UnavailableError(absl::StrCat("the store that leads has not answered within ",
                                               absl::FormatDuration(limit))));
    });
    return give;
  }

  // The status that the leader gives in time. Without one each store is asked for what it knows.
  void GetStatus(Callback<v1::StoreStatus> done) {
    Callback<v1::StoreStatus> first =
        [this, done = std::move(done)](absl::StatusOr<v1::StoreStatus> status) mutable {
          if (status.ok() ? OfLeader(*status) : !absl::IsUnavailable(status.status()))
            return done(std::move(status));
          AskAll(std::move(status), std::move(done));
        };
    Call(InTime(std::move(first)), [](StoreConnection& store, Callback<v1::StoreStatus> answer) {
      store.GetStatus(std::move(answer));
    });
  }

  std::string TooOld() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    // A store that led before may still be remembered as too old.
    if (search_.current().has_value()) return TargetAt(*search_.current()).store->TooOld();
    for (const auto& [address, target] : targets_) {
      if (std::string reason = target->store->TooOld(); !reason.empty()) return reason;
    }
    return {};
  }

  std::unique_ptr<Watch> OpenWatch(WatchRequest request, WatchObserver observer)
      ABSL_LOCKS_EXCLUDED(mu_) {
    Target* target = nullptr;
    std::shared_ptr<HeldWatch> held;
    absl::Status refused;
    {
      absl::MutexLock lock(&mu_);
      target = TakeCurrent();
      if (target == nullptr) {
        held = std::make_shared<HeldWatch>(std::move(request), std::move(observer));
        refused = CannotHold();
        if (refused.ok()) {
          Hold([held](Target* to, const absl::Status& why) {
            if (to == nullptr) return held->End(why);
            held->Open(*to->store);
          });
        }
      }
    }
    if (target == nullptr) {
      if (!refused.ok()) held->End(refused);
      return HeldWatch::HandleOf(std::move(held));
    }
    auto watch = target->store->OpenWatch(std::move(request), std::move(observer));
    Release(*target);
    return watch;
  }

 private:
  // A call that waits for a leader. `run` sends it to the target, or ends it with the status if
  // that is null.
  using Run = absl::AnyInvocable<void(Target*, const absl::Status&)>;
  struct Held {
    absl::Duration since;
    Run run;
  };

  static absl::Status Stopped() {
    return absl::UnavailableError("the client of the store has stopped");
  }

  // Answers of all candidates, for GetStatus.
  struct Statuses {
    absl::Mutex mu;
    std::vector<StatusAnswer> answers ABSL_GUARDED_BY(mu);
    size_t missing ABSL_GUARDED_BY(mu) = 0;
    Callback<v1::StoreStatus> done ABSL_GUARDED_BY(mu);  // null once it has run
  };

  void AskAll(absl::StatusOr<v1::StoreStatus> first, Callback<v1::StoreStatus> done)
      ABSL_LOCKS_EXCLUDED(mu_) {
    auto all = std::make_shared<Statuses>();
    std::vector<Target*> asked;
    {
      absl::MutexLock lock(&mu_);
      if (!stopped_) {
        for (const StoreAddress& candidate : search_.Candidates())
          asked.push_back(Use(TargetAt(candidate)));
      }
    }
    if (asked.empty()) return done(std::move(first));
    {
      absl::MutexLock lock(&all->mu);
      for (const Target* target : asked)
        all->answers.push_back({target->address, absl::UnavailableError("no answer in time")});
      all->missing = asked.size();
      all->done = std::move(done);
    }
    timers_->PostAfter(options_.held_max, [all] { GiveStatus(*all, /*late=*/true); });
    for (size_t i = 0; i < asked.size(); ++i) {
      asked[i]->store->GetStatus([all, i](absl::StatusOr<v1::StoreStatus> status) {
        {
          absl::MutexLock lock(&all->mu);
          all->answers[i].status = std::move(status);
          --all->missing;
        }
        GiveStatus(*all, /*late=*/false);
      });
      Release(*asked[i]);
    }
  }

  // Once: when all have answered, or it is late.
  static void GiveStatus(Statuses& all, bool late) {
    Callback<v1::StoreStatus> done;
    absl::StatusOr<v1::StoreStatus> joined;
    {
      absl::MutexLock lock(&all.mu);
      if (all.done == nullptr || (all.missing > 0 && !late)) return;
      done = std::exchange(all.done, nullptr);
      joined = JoinStatuses(all.answers);
    }
    done(std::move(joined));
  }

  int64_t NowNanos() const { return absl::ToInt64Nanoseconds(clock_.Elapsed()); }

  // Returns the store to call now; null if the call must be held. Release it after the call.
  Target* TakeCurrent() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (stopped_ || !search_.current().has_value() || flushing_ || !held_.empty()) return nullptr;
    last_used_ = &TargetAt(*search_.current());
    return Use(*last_used_);
  }

  Target* Use(Target& target) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    ++target.users;
    ++users_;
    return &target;
  }

  void Release(Target& target) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    --target.users;
    --users_;
  }

  std::unique_ptr<StoreConnection> Open(const StoreAddress& address) const {
    if (options_.open) return options_.open(address);
    return std::make_unique<GrpcKvStore>(options_.connect(address));
  }

  Target& TargetAt(const StoreAddress& address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (last_used_ != nullptr && last_used_->address == address) return *last_used_;
    std::unique_ptr<Target>& target = targets_[address];
    if (target == nullptr) target = std::make_unique<Target>(address, Open(address));
    return *target;
  }

  absl::Status CannotHold() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (stopped_) return Stopped();
    return held_.size() < kHeldCallsMax ? absl::OkStatus() : search_.NoLeader();
  }

  void Hold(Run run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    held_.push_back({clock_.Elapsed(), std::move(run)});
    if (!search_.current().has_value() && !round_due_) ScheduleRound(absl::ZeroDuration());
  }

  template <typename T, typename Send>
  void SendTo(Target& target, Callback<T> done, Send send) {
    if (target.open.fetch_add(1) == 0) target.heard_at = NowNanos();
    if (!silence_due_.exchange(true)) ScheduleSilenceCheck();
    send(*target.store,
         Callback<T>([this, &target, done = std::move(done)](absl::StatusOr<T> answer) {
           target.heard_at = NowNanos();
           target.open.fetch_sub(1);
           // Before `done`, which may call again.
           if (absl::IsUnavailable(answer.status())) OnCallFailed(target, answer.status());
           done(std::move(answer));
         }));
  }

  void OnCallFailed(Target& target, const absl::Status& error) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (!stopped_ && search_.OnCallFailed(target.address, error)) BeginRounds();
  }

  void BeginRounds() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    rounds_ = 0;
    ScheduleRound(absl::ZeroDuration());
  }

  // A round that is due later is replaced.
  void ScheduleRound(absl::Duration delay) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    round_due_ = true;
    timers_->PostAfter(delay, [this, id = ++round_id_] { Round(id); });
  }

  // Asks every candidate once more. Only this function destroys targets, since that may block.
  void Round(uint64_t id) ABSL_LOCKS_EXCLUDED(mu_) {
    std::vector<Target*> asked;
    std::vector<std::unique_ptr<Target>> unwanted;
    std::vector<Held> expired;
    std::vector<std::string> names;
    absl::Status why;
    {
      absl::MutexLock lock(&mu_);
      if (stopped_ || id != round_id_) return;
      round_due_ = false;
      if (search_.current().has_value() && !search_.doubting()) return;
      search_.BeginRound();
      const std::vector<StoreAddress> candidates = search_.Candidates();
      unwanted = TakeUnwanted(candidates);
      for (const StoreAddress& candidate : candidates) AddProbe(TargetAt(candidate), asked);
      const absl::Duration now = clock_.Elapsed();
      while (!held_.empty() && now - held_.front().since >= options_.held_max &&
             !search_.current().has_value()) {
        if (expired.empty()) why = search_.NoLeader();
        expired.push_back(std::move(held_.front()));
        held_.pop_front();
      }
      if (now - looked_up_at_ >= options_.lookup_every) {
        names = search_.Names();
        looked_up_at_ = now;
      }
      // Without a call nobody needs the leader. The next call goes on.
      if (!held_.empty() || search_.doubting()) {
        ScheduleRound(FullJitterBackoff(options_.round_backoff, ++rounds_, random_.Next()));
      }
    }
    unwanted.clear();
    for (Held& call : expired) call.run(nullptr, why);
    for (Target* target : asked) Probe(*target);
    for (std::string& name : names) {
      resolver_->Resolve(name, [this, name](NameResolver::Answer addresses) {
        if (addresses.ok()) OnAddresses(name, *addresses);
      });
    }
  }

  std::vector<std::unique_ptr<Target>> TakeUnwanted(const std::vector<StoreAddress>& candidates)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    std::vector<std::unique_ptr<Target>> unwanted;
    for (auto it = targets_.begin(); it != targets_.end();) {
      const bool wanted =
          std::find(candidates.begin(), candidates.end(), it->first) != candidates.end();
      if (wanted || it->second->users > 0 || it->second.get() == last_used_) {
        ++it;
      } else {
        unwanted.push_back(std::move(it->second));
        it = targets_.erase(it);
      }
    }
    return unwanted;
  }

  void AddProbe(Target& target, std::vector<Target*>& asked) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (std::exchange(target.probed, true)) return;
    asked.push_back(Use(target));
  }

  // Any call tells whether a store leads. This one is cheap and changes nothing.
  void Probe(Target& target) ABSL_LOCKS_EXCLUDED(mu_) {
    target.store->AskClock({}, [this, &target](const absl::StatusOr<ClockState>& answer) {
      target.heard_at = NowNanos();
      OnProbe(target, answer.status());
    });
    Release(target);
  }

  void OnProbe(Target& target, const absl::Status& answer) ABSL_LOCKS_EXCLUDED(mu_) {
    std::vector<Target*> asked;
    Target* left = nullptr;
    bool arrived = false;
    {
      absl::MutexLock lock(&mu_);
      target.probed = false;
      const auto known = targets_.find(target.address);
      // A target that ends answers its probe as well.
      if (stopped_ || known == targets_.end() || known->second.get() != &target) return;
      if (search_.OnCallFailed(target.address, answer)) return BeginRounds();
      if (search_.doubting() && !IsSilent(options_.silent_after)) search_.Trust();
      const auto named = search_.OnProbe(target.address, answer);
      if (named.has_value()) AddProbe(TargetAt(*named), asked);
      if (search_.current() == target.address) {
        arrived = last_used_ != &target;
        if (arrived && last_used_ != nullptr) left = Use(*last_used_);
        last_used_ = &target;
        if (!held_.empty() && !flushing_) timers_->Post([this] { Flush(); });
      }
    }
    if (left != nullptr) {
      left->store->Disconnect();
      Release(*left);
    }
    if (arrived && options_.on_leader) options_.on_leader(target.address);
    for (Target* next : asked) Probe(*next);
  }

  // Sends held calls in their order. Calls that come now queue behind them.
  void Flush() ABSL_LOCKS_EXCLUDED(mu_) {
    while (true) {
      Target* target = nullptr;
      Run run;
      {
        absl::MutexLock lock(&mu_);
        flushing_ = !stopped_ && search_.current().has_value() && !held_.empty();
        if (!flushing_) return;
        target = Use(TargetAt(*search_.current()));
        run = std::move(held_.front().run);
        held_.pop_front();
      }
      run(target, absl::OkStatus());
      Release(*target);
    }
  }

  void OnAddresses(const std::string& name, const std::vector<std::string>& addresses)
      ABSL_LOCKS_EXCLUDED(mu_) {
    std::vector<Target*> asked;
    {
      absl::MutexLock lock(&mu_);
      if (stopped_) return;
      search_.OnAddresses(name, addresses);
      if (search_.current().has_value() && !search_.doubting()) return;
      for (const StoreAddress& candidate : search_.Candidates())
        AddProbe(TargetAt(candidate), asked);
    }
    for (Target* target : asked) Probe(*target);
  }

  // True if calls wait for the current store and none was answered for `at_least`.
  bool IsSilent(absl::Duration at_least) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return last_used_ != nullptr && last_used_->open > 0 &&
           absl::Nanoseconds(NowNanos() - last_used_->heard_at) >= at_least;
  }

  void ScheduleSilenceCheck() {
    timers_->PostAfter(options_.silent_after / 4, [this] { CheckSilence(); });
  }

  // Runs while calls are open.
  void CheckSilence() ABSL_LOCKS_EXCLUDED(mu_) {
    silence_due_ = false;
    std::vector<Target*> asked;
    {
      absl::MutexLock lock(&mu_);
      if (stopped_ || !search_.current().has_value()) return;
      Target& target = TargetAt(*search_.current());
      if (target.open > 0 && !silence_due_.exchange(true)) ScheduleSilenceCheck();
      if (!IsSilent(options_.silent_after)) {
        search_.Trust();
      } else if (!search_.can_doubt()) {
        return;
      } else if (!IsSilent(options_.doubt_after)) {
        AddProbe(target, asked);
      } else if (!search_.doubting()) {
        search_.Doubt();
        BeginRounds();
      }
    }
    for (Target* next : asked) Probe(*next);
  }

  Clock& clock_;
  Random& random_;
  Options options_;
  const std::shared_ptr<Executor> timers_;
  std::unique_ptr<NameResolver> resolver_;
  std::atomic<bool> silence_due_{false};

  absl::Mutex mu_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  LeaderSearch search_ ABSL_GUARDED_BY(mu_);
  std::map<StoreAddress, std::unique_ptr<Target>> targets_ ABSL_GUARDED_BY(mu_);
  int users_ ABSL_GUARDED_BY(mu_) = 0;  // the sum over all targets
  // The store that led last: the current one, or during a search the one before. It stays in
  // targets_.
  Target* last_used_ ABSL_GUARDED_BY(mu_) = nullptr;
  std::deque<Held> held_ ABSL_GUARDED_BY(mu_);
  bool flushing_ ABSL_GUARDED_BY(mu_) = false;
  bool round_due_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t round_id_ ABSL_GUARDED_BY(mu_) = 0;  // names the round that is due or was last
  uint32_t rounds_ ABSL_GUARDED_BY(mu_) = 0;    // rounds of this search, for the backoff
  absl::Duration looked_up_at_ ABSL_GUARDED_BY(mu_) = -absl::InfiniteDuration();
};

LeaderSeekingKvStore::LeaderSeekingKvStore(Runtime& runtime, Options options)
    : core_(std::make_unique<Core>(runtime, std::move(options))) {}
LeaderSeekingKvStore::~LeaderSeekingKvStore() = default;

std::string LeaderSeekingKvStore::TooOld() { return core_->TooOld(); }

void LeaderSeekingKvStore::OpenSession(uint64_t seen_incarnation, CommitSeq seen,
                                       Callback<SessionInfo> done) {
  core_->Call(std::move(done), [=](KvStore& store, Callback<SessionInfo> answer) {
    store.OpenSession(seen_incarnation, seen, std::move(answer));
  });
}

void LeaderSeekingKvStore::Commit(std::shared_ptr<const CommitRequest> request,
                                  Callback<CommitResult> done) {
  core_->Call(std::move(done), [request = std::move(request)](
                                   KvStore& store, Callback<CommitResult> answer) mutable {
    store.Commit(std::move(request), std::move(answer));
  });
}

void LeaderSeekingKvStore::MultiGet(std::vector<Key> keys, Callback<GetResult> done) {
  core_->Call(std::move(done),
              [keys = std::move(keys)](KvStore& store, Callback<GetResult> answer) mutable {
                store.MultiGet(std::move(keys), std::move(answer));
              });
}

void LeaderSeekingKvStore::Scan(ScanRequest request, Callback<ScanResult> done) {
  core_->Call(std::move(done),
              [request = std::move(request)](KvStore& store, Callback<ScanResult> answer) mutable {
                store.Scan(std::move(request), std::move(answer));
              });
}

void LeaderSeekingKvStore::AskClock(ClockCall call, Callback<ClockState> done) {
  core_->Call(core_->InTime(std::move(done)),
              [call = std::move(call)](KvStore& store, auto answer) mutable {
                store.AskClock(std::move(call), std::move(answer));
              });
}

void LeaderSeekingKvStore::GetStatus(Callback<v1::StoreStatus> done) {
  core_->GetStatus(std::move(done));
}

void LeaderSeekingKvStore::HandOver(Callback<v1::HandOverResponse> done) {
  core_->Call(std::move(done), [](StoreConnection& store, Callback<v1::HandOverResponse> answer) {
    store.HandOver(std::move(answer));
  });
}

std::unique_ptr<Watch> LeaderSeekingKvStore::OpenWatch(WatchRequest request,
                                                       WatchObserver observer) {
  return core_->OpenWatch(std::move(request), std::move(observer));
}

}  // namespace escapement::kv
