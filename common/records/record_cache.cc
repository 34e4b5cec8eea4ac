#include "common/records/record_cache.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/records/row_judge.h"
#include "common/runtime/perturb.h"
#include "common/secrets/record_secrets.h"
#include "common/storage/children_table.h"
#include "common/storage/schedule_table.h"

namespace escapement {
namespace {

using kv::ColumnFamily;

constexpr size_t kStatesMax = 200'000;             // about 50 MB
constexpr size_t kDefinitionBytesMax = 128 << 20;  // mostly payloads
constexpr absl::Duration kWatchAgain = absl::Milliseconds(100);
constexpr size_t kFetchKeysMax = 8000;  // per fetch
// Definitions per read and per fetch. Each may have the largest payload and all headers, and an
// answer of the store must fit into 64 MB.
constexpr size_t kDefinitionsAtOnce = 100;
constexpr size_t kFetchDefinitionsMax = 1000;

std::shared_ptr<const CachedState> MakeState(std::optional<std::string> bytes, kv::CommitSeq seq) {
  auto state = std::make_shared<CachedState>();
  state->seq = seq;
  if (bytes.has_value()) {
    state->record.emplace();
    // A record that cannot be read is treated as one that is not there.
    if (!state->record->ParseFromString(*bytes)) state->record.reset();
    state->bytes = *std::move(bytes);
  }
  return state;
}

// True if this state may end waiting rows before they are due.
bool EndsRuns(const kv::WatchedMutation& mutation) {
  if (mutation.kind != kv::Mutation::Kind::kPut || mutation.value_omitted) return true;
  storage::v1::StateRecord state;
  return !state.ParseFromString(mutation.value) ||
         state.kind() == storage::v1::SCHEDULE_STATE_KIND_DELETED ||
         state.cancelled_before_micros() != 0 || !state.cancelled_runs().empty();
}

}  // namespace

kv::Condition StateUnchanged(const Uid& uid, const CachedState& state) {
  kv::Condition condition{
      .cf = kv::ColumnFamily::kStates, .key = StateKey(uid), .since = state.seq};
  if (state.bytes.empty()) {
    condition.kind = kv::Condition::Kind::kAbsent;
  } else {
    condition.kind = kv::Condition::Kind::kValueEquals;
    condition.value = state.bytes;
  }
  return condition;
}

const cron::Timetable* LazyTimetable::get() const {
  if (definition_ != nullptr) {
    auto timetable = TimetableOf(*std::exchange(definition_, nullptr));
    if (timetable.ok()) timetable_ = std::make_unique<const cron::Timetable>(*std::move(timetable));
  }
  return timetable_.get();
}

RecordCache::RecordCache(kv::KvClient& client, std::shared_ptr<Executor> executor,
                         std::function<void()> on_fetched)
    : client_(client), executor_(std::move(executor)), on_fetched_(std::move(on_fetched)) {}

RecordCache::~RecordCache() = default;

void RecordCache::Start() { Restart(); }

void RecordCache::Restart() {
  alive_ = std::make_shared<int>();
  ForgetStates();
  wanted_states_.clear();
  wanted_definitions_.clear();
  reads_ = 0;
  OpenWatch();
}

void RecordCache::OpenWatch() {
  std::weak_ptr<int> alive = alive_;
  watch_ = client_.OpenWatch({.cf = ColumnFamily::kStates, .from_seq = kv::kWatchFromNow},
                             /*excluding_own=*/false, executor_,
                             {.on_batch =
                                  [this, alive](const kv::WatchBatch& batch) {
                                    if (!alive.expired()) OnBatch(batch);
                                  },
                              .on_lagged =
                                  [this, alive](const absl::Status&) {
                                    if (alive.expired()) return;
                                    ForgetStates();
                                    // Not at once: an unreachable store ends every watch.
                                    executor_->PostAfter(kWatchAgain, [this, alive] {
                                      if (alive.expired()) return;
                                      ForgetStates();
                                      OpenWatch();
                                    });
                                  }});
}

// Ignores the answers of reads under way too: they may be older than the watch.
void RecordCache::ForgetStates() {
  states_.clear();
  reading_.clear();
}

// One commit may write a state several times (launches of one schedule). Only the last value
// counts, so the callbacks run after all mutations.
void RecordCache::OnBatch(const kv::WatchBatch& batch) {
  std::vector<std::string> changed;
  std::vector<std::string> ended;
  const bool none_told = Perturb(client_.runtime(), Site::kCacheChangeNotTold);
  for (const kv::WatchedMutation& mutation : batch.mutations) {
    if (on_runs_ended_ && mutation.key.size() == Uid::kBytes && EndsRuns(mutation))
      ended.push_back(mutation.key);
    const auto known = states_.find(mutation.key);
    if (known == states_.end() || known->second->seq > batch.seq) continue;
    if (mutation.kind == kv::Mutation::Kind::kPut && (mutation.value_omitted || none_told)) {
      states_.erase(known);
    } else if (mutation.kind == kv::Mutation::Kind::kPut) {
      known->second = MakeState(mutation.value, batch.seq);
    } else {
      known->second = MakeState(std::nullopt, batch.seq);
    }
    if (mutation.key.size() == Uid::kBytes) changed.push_back(mutation.key);
  }
  for (const std::string& key : changed) {
    if (on_changed_) on_changed_(Uid::FromBytes(key));
  }
  for (const std::string& key : ended) on_runs_ended_(Uid::FromBytes(key));
}

std::shared_ptr<const CachedDefinition> RecordCache::DefinitionIfKnown(const Uid& uid,
                                                                       uint64_t version) const {
  const auto known = definitions_.find(DefinitionKey(uid, version));
  return known == definitions_.end() ? nullptr : known->second;
}

std::shared_ptr<const CachedState> RecordCache::StateIfKnown(const Uid& uid) const {
  const auto known = states_.find(uid.bytes());
  return known == states_.end() ? nullptr : known->second;
}

std::shared_ptr<const CachedState> RecordCache::State(const Uid& uid) {
  std::shared_ptr<const CachedState> known = StateIfKnown(uid);
  if (known == nullptr && reading_.try_emplace(uid.bytes(), kWanted).second)
    wanted_states_.push_back(StateKey(uid));
  return known;
}

std::shared_ptr<const CachedDefinition> RecordCache::Definition(const Uid& uid, uint64_t version) {
  if (found_.definition != nullptr && found_.uid == uid && found_.version == version)
    return found_.definition;
  std::string key = DefinitionKey(uid, version);
  const auto known = definitions_.find(key);
  if (known != definitions_.end()) {
    found_ = {.uid = uid, .version = version, .definition = known->second};
    return known->second;
  }
  if (reading_.try_emplace(key, kWanted).second) wanted_definitions_.push_back(std::move(key));
  return nullptr;
}

void RecordCache::ForgetState(const Uid& uid) {
  const std::string key = StateKey(uid);
  states_.erase(key);
  reading_.erase(key);
}

void RecordCache::Fetch() {
  if (reads_ > 0 || (wanted_states_.empty() && wanted_definitions_.empty())) return;
  const auto take = [](ColumnFamily cf, std::deque<std::string>& wanted, size_t keys_max) {
    std::vector<kv::Key> keys;
    while (!wanted.empty() && keys.size() < keys_max) {
      keys.push_back({.cf = cf, .key = std::move(wanted.front())});
      wanted.pop_front();
    }
    return keys;
  };
  const bool one = Perturb(client_.runtime(), Site::kCacheFetchOfOne);
  const size_t definitions_max = one ? 1 : kFetchDefinitionsMax;
  std::vector<std::vector<kv::Key>> reads;
  if (!wanted_states_.empty())
    reads.push_back(take(ColumnFamily::kStates, wanted_states_, one ? 1 : kFetchKeysMax));
  for (size_t taken = 0; taken < definitions_max && !wanted_definitions_.empty();) {
    reads.push_back(take(ColumnFamily::kDefinitions, wanted_definitions_,
                         std::min(definitions_max, kDefinitionsAtOnce)));
    taken += reads.back().size();
  }
  reads_ = reads.size();
  for (std::vector<kv::Key>& keys : reads) Read(std::move(keys));
}

void RecordCache::Read(std::vector<kv::Key> keys) {
  std::weak_ptr<int> alive = alive_;
  const uint64_t reading = ++readings_;
  for (const kv::Key& key : keys) reading_[key.key] = reading;
  auto asked = std::make_unique<const std::vector<kv::Key>>(keys);
  client_.MultiGet(
      std::move(keys), executor_,
      [this, alive, reading, asked = std::move(asked)](absl::StatusOr<kv::GetResult> result) {
        if (!alive.expired()) OnRead(reading, *asked, std::move(result));
      });
}

void RecordCache::OnRead(uint64_t reading, const std::vector<kv::Key>& keys,
                         absl::StatusOr<kv::GetResult> result) {
  const auto none_waits = [&](const kv::Key& key) {
    const auto found = reading_.find(key.key);
    if (found == reading_.end() || found->second != reading) return true;
    reading_.erase(found);
    return false;
  };
  if (result.ok()) {
    if (states_.size() + keys.size() > kStatesMax ||
        Perturb(client_.runtime(), Site::kCacheStatesForgotten))
      states_.clear();
    for (size_t i = 0; i < keys.size(); ++i) {
      if (none_waits(keys[i])) continue;
      std::optional<std::string>& value = result->values[i];
      if (keys[i].cf == ColumnFamily::kDefinitions) {
        KeepDefinition(keys[i].key, value);
        continue;
      }
      std::shared_ptr<const CachedState>& known = states_[keys[i].key];
      if (known == nullptr || known->seq <= result->seq)
        known = MakeState(std::move(value), result->seq);
    }
  } else {
    std::for_each(keys.begin(), keys.end(), none_waits);
  }
  TakeFrom<size_t>(reads_, 1);
  if (reads_ > 0) return;
  on_fetched_();
  Fetch();
}

std::string RecordCache::OpenDelivery(storage::v1::DefinitionRecord& record) const {
  if (!opens_secrets_) return "";
  storage::v1::TargetRecord& target = *record.mutable_delivery()->mutable_target();
  if (target.tenant().empty()) return "";  // there are none
  absl::Status opened;
  if (sealer_ == nullptr) {
    opened = absl::FailedPreconditionError("--secret_keys_file is not set");
  } else if (!record.tenant().empty() && record.tenant() != target.tenant()) {
    opened = absl::DataLossError("they belong to another tenant");
  } else {
    opened = OpenSecrets(*sealer_, target.tenant(), target);
  }
  return opened.ok() ? "" : absl::StrCat(kSecretsClosed, ": ", opened.message());
}

void RecordCache::KeepDefinition(const std::string& key, const std::optional<std::string>& value) {
  found_ = {};
  if (definition_bytes_ > kDefinitionBytesMax ||
      Perturb(client_.runtime(), Site::kCacheDefinitionsForgotten)) {
    definitions_.clear();
    definition_bytes_ = 0;
  }
  auto kept = std::make_shared<CachedDefinition>();
  auto record = std::make_shared<storage::v1::DefinitionRecord>();
  if (value.has_value() && record->ParseFromString(*value)) {
    kept->closed = OpenDelivery(*record);
    kept->payload = std::shared_ptr<const std::string>(record, &record->payload());
    kept->target_key = TargetKeyOf(record->delivery().target());
    kept->timeout = absl::Microseconds(record->delivery().delivery_timeout_micros());
    if (record->version() != 0) kept->timetable.Use(*record);
    kept->record = std::move(record);
  }
  definition_bytes_ += 2 * key.size() + 2 * (value.has_value() ? value->size() : 0) + 200;
  definitions_[key] = std::move(kept);
}

}  // namespace escapement
