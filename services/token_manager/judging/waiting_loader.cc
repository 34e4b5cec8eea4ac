#include "services/token_manager/judging/waiting_loader.h"

#include <algorithm>
#include <utility>

#include "common/base/key_codec.h"
#include "common/runtime/perturb.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"

namespace escapement::token_manager {

namespace {

constexpr absl::Duration kAgain = absl::Milliseconds(100);

// The policies' records; behind them is who refers to them.
std::string Begin() { return std::string(1, '\0'); }
std::string End() { return std::string(1, '\1'); }

}  // namespace

PolicyWatch::PolicyWatch(kv::KvClient& client, std::shared_ptr<Executor> executor,
                         Callbacks callbacks)
    : client_(client), executor_(std::move(executor)), callbacks_(std::move(callbacks)) {}

PolicyWatch::~PolicyWatch() = default;

void PolicyWatch::Start() {
  alive_ = std::make_shared<int>();
  watch_.reset();
  client_.Scan({.cf = kv::ColumnFamily::kPolicies,
                .begin = Begin(),
                .end = End(),
                .limit = 1,
                .keys_only = true},
               executor_,
               [this, alive = std::weak_ptr<int>(alive_)](absl::StatusOr<kv::ScanResult> result) {
                 if (alive.expired()) return;
                 if (!result.ok()) return Start();
                 OpenWatch(result->seq);
                 callbacks_.on_open();
               });
}

void PolicyWatch::OpenWatch(kv::CommitSeq from) {
  watch_ = client_.OpenWatch(
      {.cf = kv::ColumnFamily::kPolicies, .begin = Begin(), .end = End(), .from_seq = from},
      /*excluding_own=*/false, executor_,
      {.on_batch =
           [this, alive = std::weak_ptr<int>(alive_)](const kv::WatchBatch& batch) {
             if (!alive.expired()) OnBatch(batch);
           },
       .on_lagged =
           [this, alive = std::weak_ptr<int>(alive_)](const absl::Status&) {
             if (alive.expired()) return;
             executor_->PostAfter(kAgain, [this, alive] {
               if (!alive.expired()) Start();
             });
           }});
}

void PolicyWatch::OnBatch(const kv::WatchBatch& batch) {
  const bool none_told = Perturb(client_.runtime(), Site::kPolicyChangeNotTold);
  for (const kv::WatchedMutation& mutation : batch.mutations) {
    const std::optional<PolicyName> name = DecodePolicyKey(mutation.key);
    if (!name.has_value()) continue;
    const Uid policy = PolicyUid(name->tenant, name->policy_id);
    if (mutation.kind == kv::Mutation::Kind::kDelete) {
      callbacks_.on_policy(policy, std::nullopt, batch.seq);
    } else if (mutation.value_omitted || none_told) {
      callbacks_.on_large(policy);
    } else if (mutation.kind == kv::Mutation::Kind::kPut) {
      callbacks_.on_policy(policy, mutation.value, batch.seq);
    }
  }
}

namespace {

using kv::ColumnFamily;
using kv::Mutation;

constexpr uint32_t kScanRows = 1000;
constexpr uint32_t kScanBytes = 1 << 20;
constexpr size_t kGroupScansMax = 16;  // under way
constexpr size_t kReadRows = 100;      // rows that one request reads one by one

uint32_t RowsToScan(PolicyShardState& state) {
  return Perturb(state.core.runtime, Site::kWaitingScanOfOne) ? 1 : kScanRows;
}

}  // namespace

WaitingLoader::WaitingLoader(std::weak_ptr<PolicyShardState> state, RecordReader& reader,
                             std::function<void()> on_lagged)
    : state_(std::move(state)), reader_(reader), on_lagged_(std::move(on_lagged)) {}

void WaitingLoader::Start() {
  const std::shared_ptr<PolicyShardState> state = state_.lock();
  // A snapshot for the watch to begin at; everything is read after it.
  const std::string begin = WaitingShardPrefix(state->shard);
  state->core.client.Scan({.cf = ColumnFamily::kWaiting,
                           .begin = begin,
                           .end = KeyAfter(begin),
                           .limit = 1,
                           .keys_only = true},
                          state->core.executor,
                          [this, weak = state_](absl::StatusOr<kv::ScanResult> result) {
                            const std::shared_ptr<PolicyShardState> state = weak.lock();
                            if (state == nullptr) return;
                            if (!result.ok()) return Start();
                            OpenWatch(result->seq);
                          });
}

void WaitingLoader::OpenWatch(kv::CommitSeq from) {
  const std::shared_ptr<PolicyShardState> state = state_.lock();
  const std::string begin = WaitingShardPrefix(state->shard);
  watch_ = state->core.client.OpenWatch(
      {.cf = ColumnFamily::kWaiting, .begin = begin, .end = PrefixEnd(begin), .from_seq = from},
      /*excluding_own=*/true, state->core.executor,
      {.on_batch =
           [this, weak = state_](const kv::WatchBatch& batch) {
             const std::shared_ptr<PolicyShardState> state = weak.lock();
             if (state != nullptr) OnBatch(*state, batch);
           },
       .on_lagged =
           [this, weak = state_](const absl::Status&) {
             if (weak.lock() != nullptr) on_lagged_();
           }});
  phase_ = Phase::kGrants;
  ScanGrants(GrantShardPrefix(state->shard));
}

void WaitingLoader::OnBatch(PolicyShardState& state, const kv::WatchBatch& batch) {
  const bool none_told = Perturb(state.core.runtime, Site::kWaitingRowNotTold);
  for (const kv::WatchedMutation& mutation : batch.mutations) {
    if (mutation.kind == Mutation::Kind::kDelete) {
      RemoveWatched(state, mutation.key);
      continue;
    }
    if (mutation.kind != Mutation::Kind::kPut) continue;
    // Read, acted upon and deleted before the watch told of it.
    if (state.ToldLate(mutation.key, batch.seq)) continue;
    const std::string* value = mutation.value_omitted || none_told ? nullptr : &mutation.value;
    if (!ReadWatched(state, mutation.key, value))
      AddWatched(state, mutation.key, *value, /*read_seq=*/0);
  }
  state.WatchedTo(batch.seq);
  state.core.wake();
}

// True if the row must be read: the watch leaves out the value, or reports another version than the
// one in memory, because another version of the schedule has written the row again. (The report may
// also be older than the row in memory.)
bool WaitingLoader::ReadWatched(PolicyShardState& state, const std::string& key,
                                const std::string* value) {
  const std::optional<WaitingKey> decoded = DecodeWaitingKey(key);
  PolicyState* policy = decoded.has_value() ? state.Find(decoded->policy) : nullptr;
  WaitingRow* row = policy == nullptr ? nullptr : policy->waiting.RowOf(key);
  if (row == nullptr) {
    // The reading may be older than the report, or newer.
    if (value != nullptr && !state.to_read.contains(key) && !state.reading.contains(key))
      return false;
    state.ReadAnew(key);
    return true;
  }
  storage::v1::EventRecord told;
  if (value != nullptr &&
      (!told.ParseFromString(*value) || told.version() == row->source()->event.version()))
    return false;
  if (row->busy()) {
    policy->waiting.NoteRewritten(*row);
  } else {
    state.ReadBack(*policy, key);
  }
  return true;
}

void WaitingLoader::AddWatched(PolicyShardState& state, const std::string& key,
                               const std::string& value, kv::CommitSeq read_seq) {
  if (IsReportKey(key)) return state.reports.Add(key, {.value = value, .read_seq = read_seq});
  if (!state.AddRow(key, value, read_seq)) state.core.metrics.broken_rows.Increment();
}

// Only the owner deletes waiting rows. If another process does it, the rows are gone.
void WaitingLoader::RemoveWatched(PolicyShardState& state, const std::string& key) {
  if (state.reading.erase(key) > 0) state.to_read.insert(key);  // it may be of after this
  if (IsReportKey(key)) {
    state.reports.rows().erase(key);
    return;
  }
  const std::optional<WaitingKey> decoded = DecodeWaitingKey(key);
  PolicyState* policy = decoded.has_value() ? state.Find(decoded->policy) : nullptr;
  if (policy == nullptr) return;
  const WaitingRow* row = policy->waiting.RowOf(key);
  if (row == nullptr || row->busy()) return;
  policy->waiting.Remove(key);
  state.MakeReady(*policy);
}

void WaitingLoader::OnOwnRow(const std::string& key) {
  // It may long have been read, granted and ended: the answer to the commit came late.
  if (phase_ != Phase::kNew) state_.lock()->ReadAnew(key);
}

void WaitingLoader::ReadRows(PolicyShardState& state, std::vector<std::string> keys) {
  const uint64_t number = ++readings_;
  std::vector<kv::Key> of_store;
  of_store.reserve(keys.size());
  for (const std::string& key : keys) {
    state.reading[key] = number;
    of_store.push_back({.cf = ColumnFamily::kWaiting, .key = key});
  }
  state.core.client.MultiGet(std::move(of_store), state.core.executor,
                             [this, weak = state_, number, keys = std::move(keys)](
                                 absl::StatusOr<kv::GetResult> result) mutable {
                               const std::shared_ptr<PolicyShardState> state = weak.lock();
                               if (state == nullptr) return;
                               for (size_t i = 0; i < keys.size(); ++i) {
                                 const auto reading = state->reading.find(keys[i]);
                                 if (reading == state->reading.end() || reading->second != number)
                                   continue;
                                 state->reading.erase(reading);
                                 if (result.ok()) {
                                   OnRowRead(*state, keys[i], result->values[i], result->seq);
                                 } else {
                                   state->to_read.insert(std::move(keys[i]));
                                 }
                               }
                               state->core.wake();
                             });
}

void WaitingLoader::OnRowRead(PolicyShardState& state, const std::string& key,
                              const std::optional<std::string>& value, kv::CommitSeq seq) {
  if (!value.has_value() || state.ToldLate(key, seq)) return;
  AddWatched(state, key, *value, seq);
  const std::optional<WaitingKey> decoded = DecodeWaitingKey(key);
  PolicyState* policy = decoded.has_value() ? state.Find(decoded->policy) : nullptr;
  WaitingRow* row = policy == nullptr ? nullptr : policy->waiting.RowOf(key);
  if (row != nullptr && row->read_seq() == seq) WaitingRows::NoteReadAgain(*row);
}

void WaitingLoader::ScanGrants(std::string from) {
  const std::shared_ptr<PolicyShardState> state = state_.lock();
  state->core.client.Scan({.cf = ColumnFamily::kGrants,
                           .begin = from,
                           .end = PrefixEnd(GrantShardPrefix(state->shard)),
                           .limit = RowsToScan(*state),
                           .bytes_max = kScanBytes},
                          state->core.executor,
                          [this, weak = state_, from](absl::StatusOr<kv::ScanResult> result) {
                            const std::shared_ptr<PolicyShardState> state = weak.lock();
                            if (state == nullptr) return;
                            if (!result.ok()) return ScanGrants(from);
                            for (const kv::Entry& entry : result->entries)
                              AddGrant(*state, entry.key, entry.value);
                            if (result->more && !result->entries.empty())
                              return ScanGrants(KeyAfter(result->entries.back().key));
                            phase_ = Phase::kRows;
                            ScanRows(WaitingRowsPrefix(state->shard));
                          });
}

void WaitingLoader::AddGrant(PolicyShardState& state, const std::string& key,
                             const std::string& value) {
  const std::optional<GrantId> id = DecodeGrantKey(key);
  if (const std::optional<Uid> rated = DecodeKeyRateKey(key); rated.has_value()) {
    storage::v1::KeyRateRecord rate;
    if (!rate.ParseFromString(value)) return state.core.metrics.broken_rows.Increment();
    PolicyState& policy = state.At(*rated);
    policy.key_rates.Load(rate);
    return state.Plan(policy);
  }
  if (!id.has_value()) return;  // counts and last hour: read when they are needed
  std::optional<Grant> grant = DecodeGrant(state.shard, id->epoch, id->number, value);
  if (!grant.has_value()) return state.core.metrics.broken_rows.Increment();
  PolicyState& policy = state.At(id->policy);
  if (!policy.named) {
    policy.SetName(grant->source->event.tenant(), grant->source->event.throttle().policy_id());
    if (!policy.known) state.unread.insert(policy.uid);
  }
  for (const FurtherLimit& limit : grant->source->further)
    state.FurtherPolicy(*grant->source, limit);
  state.PinCounts(*grant->source);
  policy.grants.Add(*std::move(grant));
  state.Plan(policy);
}

void WaitingLoader::ScanRows(std::string from) {
  const std::shared_ptr<PolicyShardState> state = state_.lock();
  state->core.client.Scan({.cf = ColumnFamily::kWaiting,
                           .begin = from,
                           .end = PrefixEnd(WaitingRowsPrefix(state->shard)),
                           .limit = RowsToScan(*state),
                           .bytes_max = kScanBytes},
                          state->core.executor,
                          [this, weak = state_, from](absl::StatusOr<kv::ScanResult> result) {
                            const std::shared_ptr<PolicyShardState> state = weak.lock();
                            if (state == nullptr) return;
                            if (!result.ok()) return ScanRows(from);
                            std::string next = AddRows(*state, *result);
                            if (result->more && !result->entries.empty())
                              return ScanRows(std::move(next));
                            phase_ = Phase::kRecords;
                            state->core.wake();
                          });
}

// Rows of a group that is full are not kept: what remains of it is skipped.
std::string WaitingLoader::AddRows(PolicyShardState& state, const kv::ScanResult& result) {
  std::string next;
  for (const kv::Entry& entry : result.entries) {
    next = KeyAfter(entry.key);
    const std::optional<WaitingKey> key = DecodeWaitingKey(entry.key);
    if (!key.has_value() || !state.AddRow(entry.key, entry.value, result.seq)) {
      state.core.metrics.broken_rows.Increment();
      continue;
    }
    state.core.metrics.rows_loaded.Increment();
    PolicyState& policy = state.At(key->policy);
    const GroupKey group{key->priority, key->uid};
    if (policy.waiting.CutIfFull(group, next)) state.hungry.insert({key->policy, group});
    if (policy.waiting.IsBeyond(group, next))
      next = PrefixEnd(WaitingGroupPrefix(key->policy_shard, key->policy, key->priority, key->uid));
  }
  return next;
}

void WaitingLoader::Step() {
  const std::shared_ptr<PolicyShardState> state = state_.lock();
  if (phase_ == Phase::kNew || phase_ == Phase::kGrants) return;
  reader_.Step();
  if (state->reports.hungry()) ScanReports(*state);
  while (!state->to_read.empty()) {
    std::vector<std::string> keys;
    while (keys.size() < kReadRows && !state->to_read.empty())
      keys.push_back(std::move(state->to_read.extract(state->to_read.begin()).value()));
    ReadRows(*state, std::move(keys));
  }
  if (phase_ == Phase::kRecords && reader_.idle() && state->unread.empty() &&
      !state->parts.wanted() && state->reports.loaded())
    phase_ = Phase::kReady;
  if (phase_ == Phase::kReady) ScanGroups(*state);
}

void WaitingLoader::ScanReports(PolicyShardState& state) {
  const ReportQueue::Scan scan = state.reports.BeginScan();
  state.core.client.Scan({.cf = ColumnFamily::kWaiting,
                          .begin = scan.from,
                          .end = PrefixEnd(ReportsPrefix(state.shard)),
                          .limit = RowsToScan(state),
                          .bytes_max = kScanBytes},
                         state.core.executor,
                         [weak = state_, scan](absl::StatusOr<kv::ScanResult> result) {
                           const std::shared_ptr<PolicyShardState> state = weak.lock();
                           if (state == nullptr) return;
                           if (result.ok()) {
                             state->reports.OnScanned(scan.number, *std::move(result));
                           } else {
                             state->reports.OnScanFailed(scan.number);
                           }
                           state->core.wake();
                         });
}

void WaitingLoader::ScanGroups(PolicyShardState& state) {
  const size_t rows_max = state.group_rows_max;
  while (group_scans_ < kGroupScansMax && !state.hungry.empty()) {
    // In turn: some may be read on and on.
    auto next = state.hungry.upper_bound(last_read_on_);
    if (next == state.hungry.end()) next = state.hungry.begin();
    last_read_on_ = *next;
    const auto [uid, group_key] = state.hungry.extract(next).value();
    PolicyState* policy = state.Find(uid);
    if (policy == nullptr) continue;
    const std::optional<std::string> from = policy->waiting.BeginReadOn(group_key, scans_ + 1);
    if (!from.has_value()) continue;
    ++scans_;
    ++group_scans_;
    const std::string prefix =
        WaitingGroupPrefix(state.shard, uid, group_key.first, group_key.second);
    state.core.client.Scan({.cf = ColumnFamily::kWaiting,
                            .begin = *from,
                            .end = PrefixEnd(prefix),
                            .limit = static_cast<uint32_t>(rows_max),
                            .bytes_max = kScanBytes},
                           state.core.executor,
                           [this, weak = state_, uid = uid, group_key = group_key,
                            scan = scans_](absl::StatusOr<kv::ScanResult> result) {
                             const std::shared_ptr<PolicyShardState> state = weak.lock();
                             if (state == nullptr) return;
                             --group_scans_;
                             PolicyState* policy = state->Find(uid);
                             if (policy == nullptr) return;
                             if (!policy->waiting.AwaitsScan(group_key, scan)) return;
                             if (result.ok()) {
                               state->core.metrics.rows_loaded.Increment(result->entries.size());
                               policy->waiting.OnRead(group_key, *result);
                             } else {
                               policy->waiting.OnReadFailed(group_key);
                             }
                             state->hungry.insert({uid, group_key});
                             state->MakeReady(*policy);
                             state->Plan(*policy);
                             state->DropIfIdle(*policy);
                             state->core.wake();
                           });
  }
}

}  // namespace escapement::token_manager
