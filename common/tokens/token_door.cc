#include "common/tokens/token_door.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/kv/client/kv_client.h"
#include "common/runtime/perturb.h"
#include "common/status/errors.h"
#include "common/tokens/token_batch.h"

namespace escapement {

void TokenApi::OverridePolicy(v1::OverridePolicyRequest /*request*/,
                              ::escapement::Done<v1::ThrottlePolicy> done) {
  done(MakeError(absl::StatusCode::kUnimplemented, "NEEDS_MASTER",
                 "only masters override policies: open the stream at a master"));
}

namespace {

using Results = std::vector<v1::TokenResult::Status>;
using ResultsDone = absl::AnyInvocable<void(absl::StatusOr<Results>)>;
using Entries = std::vector<storage::v1::GrantReportRecord::Entry>;

absl::Status NotReady() {
  return MakeError(absl::StatusCode::kUnavailable, "NOT_READY",
                   "the service is not ready to take tokens");
}

absl::Status Busy() {
  return ResourceExhausted(
      "TOKENS_BUSY", "too many calls give tokens back at once; try again later", kTokenBusyDelay);
}

absl::Status OtherCell(uint32_t cell) {
  return MakeError(absl::StatusCode::kUnavailable, "OTHER_CELL",
                   absl::StrCat("a token is of cells/", cell,
                                ", which is not known here: give it back at a master"));
}

absl::Status Stopped() {
  return MakeError(absl::StatusCode::kUnavailable, "RESULT_UNKNOWN",
                   "the service has ended; the tokens may have been given back");
}

// RESOURCE_EXHAUSTED stays; every other error tells the client that it may repeat the call.
absl::Status StoreFailed(const absl::Status& status) {
  if (absl::IsResourceExhausted(status))
    return ResourceExhausted("STORE_FULL", status.message(), absl::Seconds(1));
  return Annotate(MakeError(absl::StatusCode::kUnavailable, "RESULT_UNKNOWN", status.message()),
                  "store");
}

}  // namespace

// Counts tokens by their result.
class TokenDoor::ResultCounters {
 public:
  ResultCounters(Metrics* metrics, const std::string& method) {
    if (metrics == nullptr) return;
    for (int i = 1; i < v1::TokenResult::Status_ARRAYSIZE; ++i) {
      counters_[i] = metrics->GetCounter(
          "escapement_tokens_given_back_total", "Tokens of consumers' calls by what became of them",
          {{"method", method},
           {"result", v1::TokenResult::Status_Name(static_cast<v1::TokenResult::Status>(i))}});
    }
  }

  void Add(const Results& results) {
    std::array<int, v1::TokenResult::Status_ARRAYSIZE> counts = {};
    for (const v1::TokenResult::Status status : results) ++counts[status];
    for (int i = 1; i < v1::TokenResult::Status_ARRAYSIZE; ++i) {
      if (counters_[i] != nullptr && counts[i] > 0) counters_[i]->Increment(counts[i]);
    }
  }

 private:
  std::array<Counter*, v1::TokenResult::Status_ARRAYSIZE> counters_ = {};
};

// The part of the door that outlives it while an owner still holds a call.
class TokenDoor::Core : public std::enable_shared_from_this<Core> {
 public:
  Core(Options options, kv::KvStore& store, Runtime& runtime)
      : options_(std::move(options)),
        runtime_(runtime),
        completed_(options_.metrics, "complete"),
        released_(options_.metrics, "release"),
        extended_(options_.metrics, "extend"),
        executor_(runtime.NewExecutor(options_.instance + " tokens")),
        client_(std::make_unique<kv::KvClient>(store, runtime, ClientOptions())) {}

  void Start() {
    LoadTokenMint(*client_, executor_, options_.fresh_key(),
                  [core = weak_from_this()](std::shared_ptr<const TokenMint> mint) {
                    const auto self = core.lock();
                    if (self == nullptr) return;
                    self->mint_ = std::move(mint);
                    self->loaded_.store(true, std::memory_order_release);
                  });
  }

  void Stop() {
    executor_->Stop();
    client_.reset();
  }

  bool loaded() const { return loaded_.load(std::memory_order_acquire); }
  const TokenMint& mint() const { return *mint_; }
  kv::KvClient& client() { return *client_; }
  Runtime& runtime() { return runtime_; }
  LocalGrants* local() { return options_.local; }
  const std::shared_ptr<Executor>& executor() { return executor_; }
  ResultCounters* completed() { return &completed_; }
  ResultCounters* released() { return &released_; }
  ResultCounters* extended() { return &extended_; }

  // Every admitted call ends with Leave.
  absl::Status Enter(size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (draining_) return NotReady();
    if (calls_ >= kTokenCallsMax || bytes_ + bytes > kTokenCallBytesMax ||
        Perturb(runtime_, Site::kDoorBusy))
      return Busy();
    ++calls_;
    bytes_ += bytes;
    return absl::OkStatus();
  }
  void Leave(size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    --calls_;
    bytes_ -= bytes;
    PostIfDrained();
  }
  void Drain(Closure done) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    draining_ = true;
    drained_ = std::move(done);
    PostIfDrained();
  }
  bool draining() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return draining_;
  }

 private:
  kv::KvClient::Options ClientOptions() const {
    kv::KvClient::Options options;
    options.name = options_.instance + " tokens";
    options.session_executor = executor_;
    return options;
  }

  void PostIfDrained() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (calls_ > 0 || drained_ == nullptr) return;
    executor_->Post(std::exchange(drained_, nullptr));
  }

  const Options options_;
  Runtime& runtime_;
  ResultCounters completed_;
  ResultCounters released_;
  ResultCounters extended_;
  const std::shared_ptr<Executor> executor_;
  std::unique_ptr<kv::KvClient> client_;
  std::shared_ptr<const TokenMint> mint_;  // set before loaded_
  std::atomic<bool> loaded_ = false;

  mutable absl::Mutex mutex_;
  size_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  Closure drained_ ABSL_GUARDED_BY(mutex_);
};

// One call from its reading to its answer. It goes to the owners in this process first; then it
// reads the grants of the remaining tokens, and stores their reports. Callbacks of the running step
// hold it. If it is destroyed without an answer, it answers. After Begin everything runs on the
// door's executor.
class TokenDoor::Call : public std::enable_shared_from_this<Call> {
 public:
  Call(std::shared_ptr<Core> core, TokenBatch batch, ResultsDone done)
      : core_(std::move(core)), batch_(std::move(batch)), done_(std::move(done)) {}

  ~Call() {
    if (done_ != nullptr) done_(Stopped());
    core_->Leave(batch_.bytes);
  }

  void Begin() {
    LocalGrants* const local = core_->local();
    if (local == nullptr || Perturb(core_->runtime(), Site::kDoorStoresReports)) {
      to_store_ = std::move(batch_.entries);
      batch_.entries.clear();
    }
    if (batch_.entries.empty()) {
      core_->executor()->Post([self = shared_from_this()] { self->ReadGrants(0); });
      return;
    }
    std::vector<std::pair<Part, Entries>> parts = SplitByShard();
    parts_left_ = parts.size();
    for (auto& [part, entries] : parts) {
      // Capture the core separately: a stopped executor destroys the call inside Post.
      local->Apply(
          part.policy_shard, std::move(entries),
          [self = shared_from_this(), core = core_,
           part = part](absl::StatusOr<std::vector<bool>> effects) mutable {
            core->executor()->Post([self = std::move(self), part, effects = std::move(effects)] {
              self->OnApplied(part, effects);
            });
          });
    }
  }

 private:
  // Entries [begin, end) of the batch.
  struct Part {
    uint16_t policy_shard = 0;
    size_t begin = 0;
    size_t end = 0;
  };

  std::vector<std::pair<Part, Entries>> SplitByShard() const {
    std::vector<std::pair<Part, Entries>> parts;
    const std::vector<TokenEntry>& entries = batch_.entries;
    for (size_t begin = 0; begin < entries.size();) {
      Part part = {.policy_shard = entries[begin].token.grant.policy_shard, .begin = begin};
      Entries reports;
      for (part.end = begin; part.end < entries.size() &&
                             entries[part.end].token.grant.policy_shard == part.policy_shard;
           ++part.end) {
        reports.push_back(ReportEntry(entries[part.end]));
      }
      begin = part.end;
      parts.emplace_back(part, std::move(reports));
    }
    return parts;
  }

  void OnApplied(const Part& part, const absl::StatusOr<std::vector<bool>>& effects) {
    if (effects.ok() && effects->size() == part.end - part.begin) {
      for (size_t i = part.begin; i < part.end; ++i) {
        batch_.results[batch_.entries[i].position] =
            (*effects)[i - part.begin] ? v1::TokenResult::DONE : v1::TokenResult::NOT_HELD;
      }
    } else {
      // The owner is elsewhere, or its effect is unknown; a report is harmless.
      for (size_t i = part.begin; i < part.end; ++i)
        to_store_.push_back(std::move(batch_.entries[i]));
    }
    if (--parts_left_ > 0) return;
    // The parts may have returned in any order.
    std::sort(to_store_.begin(), to_store_.end(), [](const TokenEntry& a, const TokenEntry& b) {
      return std::tie(a.token.grant, a.token.index) < std::tie(b.token.grant, b.token.index);
    });
    ReadGrants(0);
  }

  // Reads the grants of to_store_ from entry `begin` on, some at a time, and finds the held tokens.
  void ReadGrants(size_t begin) {
    if (begin == to_store_.size()) return Store();
    const size_t grants_max =
        Perturb(core_->runtime(), Site::kDoorReadsOneGrant) ? 1 : kGrantsReadMax;
    std::vector<kv::Key> keys;
    size_t end = begin;
    for (; end < to_store_.size(); ++end) {
      const GrantId& grant = to_store_[end].token.grant;
      if (end > begin && grant == to_store_[end - 1].token.grant) continue;
      if (keys.size() == grants_max) break;
      keys.push_back({kv::ColumnFamily::kGrants, EncodeGrantKey(grant)});
    }
    core_->client().MultiGet(
        std::move(keys), core_->executor(),
        [self = shared_from_this(), begin, end](absl::StatusOr<kv::GetResult> result) {
          if (!result.ok()) return self->Answer(StoreFailed(result.status()));
          self->OnGrants(begin, end, *result);
          self->ReadGrants(end);
        });
  }

  void OnGrants(size_t begin, size_t end, const kv::GetResult& result) {
    storage::v1::GrantRecord grant;
    bool readable = true;
    size_t next = 0;  // index of the next value
    for (size_t i = begin; i < end; ++i) {
      TokenEntry& entry = to_store_[i];
      if (i == begin || !(entry.token.grant == to_store_[i - 1].token.grant)) {
        const std::optional<std::string>& value = result.values[next++];
        grant.Clear();
        readable = !value.has_value() || grant.ParseFromString(*value);
      }
      // If the record cannot be read, store a report: the owner may know more.
      if (!readable || Holds(grant, entry.token.index)) {
        batch_.results[entry.position] = v1::TokenResult::STORED;
        held_.push_back(i);
      } else {
        batch_.results[entry.position] = v1::TokenResult::NOT_HELD;
      }
    }
  }

  void Store() {
    if (held_.empty()) return Answer(absl::OkStatus());
    std::vector<TokenEntry> held;
    held.reserve(held_.size());
    for (const size_t i : held_) held.push_back(std::move(to_store_[i]));
    Random& random = core_->runtime().random();
    const uint64_t a = random.Next();
    const uint64_t b = random.Next();
    kv::Commit commit;
    commit.groups.push_back(
        {.mutations = ReportRows(std::move(held), core_->client().NowLow(), a, b)});
    core_->client().CommitAsync(
        std::move(commit), core_->executor(),
        [self = shared_from_this()](absl::StatusOr<kv::CommitResult> result) {
          self->Answer(result.ok() ? absl::OkStatus() : StoreFailed(result.status()));
        });
  }

  void Answer(const absl::Status& status) {
    ResultsDone done = std::exchange(done_, nullptr);
    if (!status.ok()) return done(status);
    for (const TokenBatch::Repeat& repeat : batch_.repeats)
      batch_.results[repeat.position] = batch_.results[repeat.first];
    done(std::move(batch_.results));
  }

  const std::shared_ptr<Core> core_;
  TokenBatch batch_;
  ResultsDone done_;
  size_t parts_left_ = 0;             // parts at owners in this process
  std::vector<TokenEntry> to_store_;  // in ascending order
  std::vector<size_t> held_;          // indices in to_store_
};

TokenDoor::TokenDoor(Options options, kv::KvStore& store, Runtime& runtime)
    : core_(std::make_shared<Core>(std::move(options), store, runtime)) {}
TokenDoor::~TokenDoor() { core_->Stop(); }

void TokenDoor::Start() { core_->Start(); }
bool TokenDoor::Ready() const {
  return core_->loaded() && core_->client().Connected() && !core_->draining();
}
void TokenDoor::Drain(Closure done) { core_->Drain(std::move(done)); }

template <typename Request, typename Response>
void TokenDoor::Take(ResultCounters* counters, const Request& request, Done<Response> done) {
  const auto refuse = [&](absl::Status status) {
    core_->executor()->Post([status = std::move(status), done = std::move(done)]() mutable {
      done(std::move(status));
    });
  };
  if (!core_->loaded()) return refuse(NotReady());
  if (absl::Status status = CheckTokens(request); !status.ok()) return refuse(std::move(status));
  TokenBatch batch = ReadTokens(core_->mint(), request);
  if (batch.other_cell.has_value()) return refuse(OtherCell(*batch.other_cell));
  if (absl::Status status = core_->Enter(batch.bytes); !status.ok())
    return refuse(std::move(status));
  auto answer = [counters, done = std::move(done)](absl::StatusOr<Results> results) mutable {
    if (!results.ok()) return done(results.status());
    counters->Add(*results);
    auto response = std::make_unique<Response>();
    response->mutable_results()->Reserve(static_cast<int>(results->size()));
    for (const v1::TokenResult::Status status : *results)
      response->add_results()->set_status(status);
    done(std::move(response));
  };
  std::make_shared<Call>(core_, std::move(batch), std::move(answer))->Begin();
}

void TokenDoor::CompleteTokens(const v1::CompleteTokensRequest& request,
                               Done<v1::CompleteTokensResponse> done) {
  Take(core_->completed(), request, std::move(done));
}
void TokenDoor::ReleaseTokens(const v1::ReleaseTokensRequest& request,
                              Done<v1::ReleaseTokensResponse> done) {
  Take(core_->released(), request, std::move(done));
}
void TokenDoor::ExtendTokens(const v1::ExtendTokensRequest& request,
                             Done<v1::ExtendTokensResponse> done) {
  Take(core_->extended(), request, std::move(done));
}

}  // namespace escapement
