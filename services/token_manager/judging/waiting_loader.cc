#include "services/token_manager/judging/waiting_loader.h"

#include <utility>

#include "common/base/key_codec.h"
#include "common/runtime/perturb.h"
#include "common/storage/waiting_table.h"

namespace escapement::token_manager {

namespace {

using kv::ColumnFamily;
using kv::Mutation;

constexpr uint32_t kScanRows = 1000;
constexpr uint32_t kScanBytes = 1 << 20;
constexpr size_t kGroupScansMax = 16;  // under way
constexpr size_t kReadRows = 100;      // rows that one request reads one by one

}  // namespace

WaitingLoader::WaitingLoader(PolicyShardState& state, std::function<void()> on_lagged)
    : state_(state),
      watch_(state.core.client, state.core.executor, /*excluding_own=*/true,
             {.on_open =
                  [this](const kv::ScanResult&) {
                    phase_ = Phase::kGrants;
                    Load(GrantShardPrefix(state_.shard));
                  },
              .on_batch = [this](const kv::WatchBatch& batch) { OnBatch(batch); },
              .on_lagged = std::move(on_lagged)}) {
  // For a snapshot at which the watch begins; everything is read after it.
  const std::string begin = WaitingShardPrefix(state_.shard);
  watch_.Start({.cf = ColumnFamily::kWaiting,
                .begin = begin,
                .end = PrefixEnd(begin),
                .limit = 1,
                .keys_only = true});
}

void WaitingLoader::OnBatch(const kv::WatchBatch& batch) {
  const bool none_told = Perturb(state_.core.runtime, Site::kWaitingRowNotTold);
  for (const kv::WatchedMutation& mutation : batch.mutations) {
    if (mutation.kind == Mutation::Kind::kDelete) RemoveWatched(mutation.key);
    // Stale: read, acted upon and deleted before the watch told of it.
    if (mutation.kind == Mutation::Kind::kPut && !state_.reads.Stale(mutation.key, batch.seq))
      AddWatched(mutation.key, mutation.value_omitted || none_told ? nullptr : &mutation.value);
  }
  state_.reads.WatchedTo(batch.seq);
  state_.core.wake();
}

// The row must be read if the watch leaves out the value (null), or reports another version than
// the one in memory, because another version of the schedule has written the row again. (The report
// may also be older than the row in memory.)
void WaitingLoader::AddWatched(const std::string& key, const std::string* value) {
  const auto [policy, row] = state_.FindRow(key);
  if (row == nullptr) {
    // The read under way may be older than this report, or newer.
    if (value == nullptr || state_.reads.Pending(key)) return state_.reads.Want(key);
    return Add(key, *value, /*read_seq=*/0);
  }
  storage::v1::EventRecord told;
  if (value != nullptr &&
      (!told.ParseFromString(*value) || told.version() == row->source()->event.version()))
    return Add(key, *value, /*read_seq=*/0);
  if (!row->busy()) return state_.ReadBack(*policy, key);
  policy->waiting.NoteRewritten(*row);
}

void WaitingLoader::Add(const std::string& key, const std::string& value, kv::CommitSeq read_seq) {
  if (IsReportKey(key)) return state_.reports.Add(key, {.value = value, .read_seq = read_seq});
  if (!state_.AddRow(key, value, read_seq)) state_.core.metrics.broken_rows.Increment();
}

// Only the owner deletes waiting rows. If another process does it, the rows are gone.
void WaitingLoader::RemoveWatched(const std::string& key) {
  state_.reads.NoteDeletion(key);
  state_.reports.rows().erase(key);
  const auto [policy, row] = state_.FindRow(key);
  if (row == nullptr || row->busy()) return;
  policy->waiting.Remove(key);
  state_.MakeReady(*policy);
}

void WaitingLoader::ReadRows() {
  RowReads::Read read = state_.reads.Begin(kReadRows);
  std::vector<kv::Key> keys;
  keys.reserve(read.keys.size());
  for (const std::string& key : read.keys)
    keys.push_back({.cf = ColumnFamily::kWaiting, .key = key});
  state_.core.client.MultiGet(
      std::move(keys), state_.core.executor,
      state_.WhileOwned(
          [this, read = std::move(read)](const absl::StatusOr<kv::GetResult>& result) {
            for (size_t i = 0; i < read.keys.size(); ++i) {
              const std::string& key = read.keys[i];
              if (!state_.reads.End(key, read.number)) continue;
              if (!result.ok()) {
                state_.reads.Want(key);
              } else if (result->values[i].has_value() && !state_.reads.Stale(key, result->seq)) {
                Add(key, *result->values[i], result->seq);
                WaitingRow* row = state_.FindRow(key).second;
                if (row != nullptr && row->read_seq() == result->seq)
                  WaitingRows::NoteReadAgain(*row);
              }
            }
            state_.core.wake();
          }));
}

// Scans the keys with the prefix, from `begin` on.
template <typename Then>
void WaitingLoader::Scan(ColumnFamily cf, std::string begin, const std::string& prefix,
                         uint32_t limit, Then then) {
  state_.core.client.Scan({.cf = cf,
                           .begin = std::move(begin),
                           .end = PrefixEnd(prefix),
                           .limit = limit,
                           .bytes_max = kScanBytes},
                          state_.core.executor, state_.WhileOwned(std::move(then)));
}

uint32_t WaitingLoader::RowsToScan() const {
  return Perturb(state_.core.runtime, Site::kWaitingScanOfOne) ? 1 : kScanRows;
}

void WaitingLoader::Load(std::string from) {
  const bool grants = phase_ == Phase::kGrants;
  Scan(grants ? ColumnFamily::kGrants : ColumnFamily::kWaiting, from,
       grants ? GrantShardPrefix(state_.shard) : WaitingRowsPrefix(state_.shard), RowsToScan(),
       [this, from, grants](const absl::StatusOr<kv::ScanResult>& result) {
         if (!result.ok()) return Load(from);
         std::string next;
         for (const kv::Entry& entry : result->entries) {
           if (grants) AddGrant(entry.key, entry.value);
           next = grants ? KeyAfter(entry.key) : AddFirst(entry, result->seq);
         }
         if (result->more && !result->entries.empty()) return Load(std::move(next));
         phase_ = grants ? Phase::kRows : Phase::kRecords;
         if (grants) return Load(WaitingRowsPrefix(state_.shard));
         state_.core.wake();
       });
}

void WaitingLoader::AddGrant(const std::string& key, const std::string& value) {
  const std::optional<GrantId> id = DecodeGrantKey(key);
  if (const std::optional<Uid> rated = DecodeKeyRateKey(key); rated.has_value()) {
    storage::v1::KeyRateRecord rate;
    if (!rate.ParseFromString(value)) return state_.core.metrics.broken_rows.Increment();
    PolicyState& policy = state_.At(*rated);
    policy.key_rates.Load(rate);
    return state_.Plan(policy);
  }
  if (!id.has_value()) return;  // counts and last hour: read when they are needed
  std::optional<Grant> grant = DecodeGrant(state_.shard, id->epoch, id->number, value);
  if (!grant.has_value()) return state_.core.metrics.broken_rows.Increment();
  PolicyState& policy = state_.At(id->policy);
  if (!policy.named) {
    policy.SetName(grant->source->event.tenant(), grant->source->event.throttle().policy_id());
    if (!policy.known) state_.WantRecord(policy);
  }
  for (const FurtherLimit& limit : grant->source->further())
    state_.FurtherPolicy(*grant->source, limit);
  state_.PinCounts(*grant->source);
  policy.grants.Add(*std::move(grant));
  state_.Plan(policy);
}

// Rows of a group that is full are not kept: what remains of it is skipped.
std::string WaitingLoader::AddFirst(const kv::Entry& row, kv::CommitSeq seq) {
  const std::string next = KeyAfter(row.key);
  const std::optional<WaitingKey> key = DecodeWaitingKey(row.key);
  if (!key.has_value() || !state_.AddRow(row.key, row.value, seq)) {
    state_.core.metrics.broken_rows.Increment();
    return next;
  }
  state_.core.metrics.rows_loaded.Increment();
  WaitingRows& waiting = state_.At(key->policy).waiting;
  const GroupKey group{key->priority, key->uid};
  if (waiting.CutIfFull(group, next)) state_.MayBeHungry(key->policy, group);
  if (!waiting.IsBeyond(group, next)) return next;
  return PrefixEnd(WaitingGroupPrefix(key->policy_shard, key->policy, key->priority, key->uid));
}

void WaitingLoader::Step() {
  if (phase_ == Phase::kNew || phase_ == Phase::kGrants) return;
  state_.ReadRecords();
  if (state_.reports.hungry()) ScanReports();
  while (state_.reads.wanted()) ReadRows();
  if (phase_ == Phase::kRecords && state_.records_read() && state_.reports.loaded())
    phase_ = Phase::kReady;
  if (phase_ == Phase::kReady) ScanGroups();
}

void WaitingLoader::ScanReports() {
  const auto [from, number] = state_.reports.BeginScan();
  Scan(ColumnFamily::kWaiting, from, ReportsPrefix(state_.shard), RowsToScan(),
       [this, number = number](absl::StatusOr<kv::ScanResult> result) {
         state_.reports.OnScanned(number, std::move(result));
         state_.core.wake();
       });
}

void WaitingLoader::ScanGroups() {
  while (group_scans_ < kGroupScansMax) {
    const auto hungry = state_.TakeHungry();
    if (!hungry.has_value()) return;
    const auto& [uid, group] = *hungry;
    PolicyState* policy = state_.Find(uid);
    if (policy == nullptr) continue;
    std::optional<std::string> from = policy->waiting.BeginReadOn(group, ++scans_);
    if (!from.has_value()) continue;
    ++group_scans_;
    Scan(ColumnFamily::kWaiting, *std::move(from),
         WaitingGroupPrefix(state_.shard, uid, group.first, group.second),
         static_cast<uint32_t>(state_.group_rows_max),
         [this, uid = uid, group = group,
          scan = scans_](const absl::StatusOr<kv::ScanResult>& result) {
           --group_scans_;
           PolicyState* policy = state_.Find(uid);
           if (policy == nullptr || !policy->waiting.OnRead(group, scan, result)) return;
           if (result.ok()) state_.core.metrics.rows_loaded.Increment(result->entries.size());
           state_.MayBeHungry(uid, group);
           state_.Revisit(*policy);
           state_.DropIfIdle(*policy);
           state_.core.wake();
         });
  }
}

}  // namespace escapement::token_manager
