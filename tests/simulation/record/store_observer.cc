#include "tests/simulation/record/store_observer.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/storage/waiting_table.h"

namespace escapement::simulation {

namespace {

// More commits than a client may have outstanding.
constexpr size_t kOpenMax = 4 * kv::kSessionWindow;

// The claims whose events this commit ends.
std::set<ClaimId> EndedClaims(const kv::CommitRequest& request) {
  std::set<ClaimId> claims;
  for (const kv::Group& group : request.groups) {
    for (const kv::Mutation& mutation : group.mutations) {
      if (mutation.cf != kv::ColumnFamily::kInflight) continue;
      const bool range = mutation.kind == kv::Mutation::Kind::kDeleteRange;
      const bool put = mutation.kind == kv::Mutation::Kind::kPut;
      // The prefix of a claim's keys is the key without its last byte.
      const auto key = range ? DecodeInflightKey(absl::StrCat(mutation.key, std::string(1, '\0')))
                             : DecodeInflightKey(mutation.key);
      if (key.has_value() && (key->is_end() || !put))
        claims.insert({key->claim.shard, key->claim.epoch, key->claim.number});
    }
  }
  return claims;
}

}  // namespace

uint64_t HashOfVerdicts(const std::vector<kv::Verdict>& verdicts) {
  uint64_t hash = 14695981039346656037u;
  for (const kv::Verdict& verdict : verdicts)
    hash = (hash ^ (verdict.applied ? 2u : 1u)) * 1099511628211u;
  return hash;
}

struct StoreObserver::State {
  struct Open {
    Acknowledged told;
    std::shared_ptr<const kv::CommitRequest> request;
  };
  using Name = std::pair<uint64_t, uint64_t>;  // session, number

  void NoteUnknown(const kv::CommitRequest& request) {
    for (const ClaimId& claim : EndedClaims(request))
      out->unknown_ends.push_back({process, now(), claim});
  }

  void OnAnswer(const Name& name, const absl::StatusOr<kv::CommitResult>& result) {
    const auto it = open.find(name);
    if (it == open.end()) return;
    Acknowledged& told = it->second.told;
    if (!result.ok()) {
      NoteUnknown(*it->second.request);
      // The commit was refused, or its session was. The client does not send it again.
      if (absl::IsResourceExhausted(result.status()) || absl::IsAborted(result.status()))
        open.erase(it);
      return;
    }
    told.seq = result->seq;
    told.verdicts = HashOfVerdicts(result->verdicts);
    told.applied = std::any_of(result->verdicts.begin(), result->verdicts.end(),
                               [](const kv::Verdict& verdict) { return verdict.applied; });
    told.answered = now();
    out->acknowledged.push_back(std::move(told));
    open.erase(it);
  }

  std::string process;
  std::function<absl::Time()> now;
  StoreObservations* out = nullptr;
  std::map<Name, Open> open;  // unanswered, or of unknown result and sent again
};

StoreObserver::StoreObserver(kv::KvStore& inner, std::string process,
                             std::function<absl::Time()> now, StoreObservations* out)
    : ForwardingKvStore(inner),
      state_(std::make_shared<State>(State{std::move(process), std::move(now), out, {}})) {}

StoreObserver::~StoreObserver() {
  for (const auto& [name, open] : state_->open) state_->NoteUnknown(*open.request);
  state_->open.clear();
}

void StoreObserver::Commit(std::shared_ptr<const kv::CommitRequest> request,
                           Callback<kv::CommitResult> done) {
  const State::Name name{request->session, request->number};
  State::Open& open = state_->open[name];
  Acknowledged& told = open.told;
  if (open.request == nullptr) {
    open.request = request;
    told.process = state_->process;
    told.session = name.first;
    told.number = name.second;
    told.called = state_->now();
    told.tries = 0;
  }
  ++told.tries;
  told.last_called = state_->now();
  // Drops a commit that was never answered, because its session was given up.
  if (state_->open.size() > kOpenMax) state_->open.erase(state_->open.begin());
  inner_.Commit(std::move(request), [state = state_, name, done = std::move(done)](
                                        absl::StatusOr<kv::CommitResult> result) {
    state->OnAnswer(name, result);
    done(std::move(result));
  });
}

template <typename T>
kv::KvStore::Callback<T> StoreObserver::Noted(Callback<T> done) {
  return
      [state = state_, called = state_->now(), done = std::move(done)](absl::StatusOr<T> answer) {
        if (answer.ok())
          state->out->reads.push_back({state->process, called, state->now(), answer->seq});
        done(std::move(answer));
      };
}

void StoreObserver::MultiGet(std::vector<kv::Key> keys, Callback<kv::GetResult> done) {
  inner_.MultiGet(std::move(keys), Noted(std::move(done)));
}

void StoreObserver::Scan(kv::ScanRequest request, Callback<kv::ScanResult> done) {
  inner_.Scan(std::move(request), Noted(std::move(done)));
}

size_t StoreTimes::FirstAfter(absl::Time t) const {
  return std::upper_bound(commits_.begin(), commits_.end(), t,
                          [](absl::Time at, const Commit& commit) { return at < commit.time; }) -
         commits_.begin();
}

absl::Time StoreTimes::Low(absl::Time t) const {
  const size_t after = FirstAfter(t);
  return after == 0 ? t : commits_[after - 1].store_time;
}

// The next durable commit may have been decided before `t`. A commit that is decided later has a
// later stamp.
absl::Time StoreTimes::High(absl::Time t) const {
  const size_t next = FirstAfter(t);
  for (size_t i = next; i < commits_.size(); ++i) {
    if (commits_[i].store_time > commits_[next].store_time) return commits_[i].store_time;
  }
  return commits_.empty()
             ? t
             : commits_.back().store_time + (t - commits_.back().time) + absl::Seconds(10);
}

absl::Time StoreTimes::NotBefore(absl::Time store_time) const {
  const auto after =
      std::lower_bound(commits_.begin(), commits_.end(), store_time,
                       [](const Commit& commit, absl::Time at) { return commit.store_time < at; });
  return after == commits_.begin() ? store_time : std::prev(after)->time;
}

absl::Time StoreTimes::ShownBy(absl::Time store_time) const {
  if (commits_.empty()) return store_time;
  const auto after =
      std::lower_bound(commits_.begin(), commits_.end(), store_time,
                       [](const Commit& commit, absl::Time at) { return commit.store_time < at; });
  const Commit& nearest = after == commits_.begin() ? *after : *std::prev(after);
  const absl::Time told = nearest.time + (store_time - nearest.store_time);
  return after == commits_.end() ? told : std::min(told, after->time);
}

History InStoreTime(const History& history) {
  const StoreTimes times(history.commits);
  History told = history;
  told.end = times.Low(history.end);
  for (ScheduleLife& life : told.schedules) {
    for (ScheduleChange& change : life.changes) {
      change.called = times.Low(change.called);
      change.answered = times.High(change.answered);
    }
    for (TriggeredRun& run : life.triggered) run.called = times.Low(run.called);
    for (CancelledRun& run : life.cancels) run.called = times.Low(run.called);
  }
  for (Receipt& receipt : told.receipts) receipt.time = times.High(receipt.time);
  return told;
}

History InTrueTime(const History& history) {
  const StoreTimes times(history.commits);
  History told = history;
  for (Receipt& receipt : told.receipts) receipt.launch = times.NotBefore(receipt.launch);
  for (Commit& commit : told.commits) commit.store_time = commit.time;
  return told;
}

}  // namespace escapement::simulation
