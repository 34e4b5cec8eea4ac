#include "services/master/schedules/definition_sweep_loop.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/kv/group_parts.h"
#include "common/storage/event_table.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"
#include "services/master/base/limits.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;
using storage::v1::SCHEDULE_STATE_KIND_DELETED;

}  // namespace

void DefinitionSweepLoop::Start() { ReadStates({}); }

void DefinitionSweepLoop::StartLater() {
  context_.executor->PostAfter(kDefinitionSweepEvery, [this] { Start(); });
}

void DefinitionSweepLoop::ReadStates(std::string position) {
  kv::ScanRequest scan;
  scan.cf = ColumnFamily::kStates;
  scan.begin = std::move(position);
  scan.limit = kDefinitionSweepRowsMax;
  context_.client.Scan(
      std::move(scan), context_.executor, [this](absl::StatusOr<kv::ScanResult> page) {
        if (!page.ok()) return StartLater();
        position_ = page->more && !page->entries.empty() ? KeyAfter(page->entries.back().key)
                                                         : std::string();
        for (kv::Entry& entry : page->entries) {
          auto swept = std::make_shared<Swept>();
          if (entry.key.size() != Uid::kBytes || !swept->state.ParseFromString(entry.value))
            continue;
          swept->uid = Uid::FromBytes(entry.key);
          swept->state_bytes = std::move(entry.value);
          page_.push_back(std::move(swept));
        }
        absl::c_reverse(page_);
        Next();
      });
}

void DefinitionSweepLoop::Next() {
  while (!page_.empty()) {
    SweptPtr swept = std::move(page_.back());
    page_.pop_back();
    if (swept->state.kind() == SCHEDULE_STATE_KIND_DELETED) return SweepTombstone(std::move(swept));
    if (swept->state.version() > kVersionsKept) return Sweep(std::move(swept));
  }
  if (position_.empty()) return StartLater();
  context_.executor->PostAfter(kDefinitionSweepPause, [this] { ReadStates(position_); });
}

absl::Duration DefinitionSweepLoop::TombstoneKeptFor(const std::string& tenant) const {
  return std::max(tenants_.RetentionOf(tenant), kTombstoneRetentionMin) + kTombstoneEventsEnd;
}

void DefinitionSweepLoop::SweepTombstone(SweptPtr swept) {
  const absl::Time now = context_.client.NowLow();
  kv::Group group;
  const std::string state_key = StateKey(swept->uid);
  group.conditions.push_back(kv::ValueIs(ColumnFamily::kStates, state_key, swept->state_bytes));
  if (swept->state.pause_time_micros() == 0) {
    // When it was deleted is not known: it counts from now.
    swept->state.set_pause_time_micros(ToMicros(now));
    group.mutations.push_back(
        kv::Put(ColumnFamily::kStates, state_key, swept->state.SerializeAsString()));
    return Commit(*swept, std::move(group));
  }
  if (FromMicros(swept->state.pause_time_micros()) + TombstoneKeptFor(swept->state.tenant()) > now)
    return Next();
  kv::ScanRequest scan;
  scan.cf = ColumnFamily::kDefinitions;
  scan.begin = DefinitionKey(swept->uid, 0);
  scan.end = PrefixEnd(state_key);  // the uid, with which the keys of its definitions begin
  scan.limit = kDefinitionSweepVersionsMax;
  scan.keys_only = true;
  context_.client.Scan(
      std::move(scan), context_.executor,
      [this, swept, state_key,
       group = std::move(group)](absl::StatusOr<kv::ScanResult> versions) mutable {
        if (!versions.ok()) return Next();
        for (kv::Entry& version : versions->entries) {
          group.mutations.push_back(kv::Delete(ColumnFamily::kDefinitions, std::move(version.key)));
        }
        // The tombstone goes last: it says that there are definitions to delete.
        if (versions->more) return Commit(*swept, std::move(group));
        group.mutations.push_back(kv::Delete(ColumnFamily::kStates, state_key));
        DeleteCounts(swept, std::move(group));
      });
}

void DefinitionSweepLoop::DeleteCounts(SweptPtr swept, kv::Group group) {
  kv::ScanRequest scan;
  scan.cf = ColumnFamily::kRunParts;
  scan.begin = ScheduleCountsPrefix(swept->uid);
  scan.end = PrefixEnd(scan.begin);
  scan.limit = context_.RunPartsMax();
  scan.keys_only = true;
  context_.client.Scan(
      std::move(scan), context_.executor,
      [this, swept, group = std::move(group)](absl::StatusOr<kv::ScanResult> parts) mutable {
        if (!parts.ok()) return Next();
        for (kv::Entry& part : parts->entries)
          group.mutations.push_back(kv::Delete(ColumnFamily::kRunParts, std::move(part.key)));
        DeleteName(swept, std::move(group));
      });
}

// A later schedule of the same name may have been deleted, too: then the name stands for that one.
void DefinitionSweepLoop::DeleteName(SweptPtr swept, kv::Group group) {
  const std::string key = DeletedScheduleKey(swept->state.tenant(), swept->state.schedule_id());
  context_.client.MultiGet(
      {{ColumnFamily::kSchedules, key}}, context_.executor,
      [this, swept, key, group = std::move(group)](absl::StatusOr<kv::GetResult> result) mutable {
        if (!result.ok()) return Next();
        const std::optional<std::string>& row = result->values[0];
        storage::v1::ScheduleRecord deleted;
        if (row.has_value() && deleted.ParseFromString(*row) &&
            deleted.uid() == swept->uid.bytes()) {
          group.conditions.push_back(kv::ValueIs(ColumnFamily::kSchedules, key, *row));
          group.mutations.push_back(kv::Delete(ColumnFamily::kSchedules, key));
        }
        Commit(*swept, std::move(group));
      });
}

void DefinitionSweepLoop::Sweep(SweptPtr swept) {
  const uint64_t first_kept = swept->state.version() - kVersionsKept + 1;
  kv::ScanRequest scan;
  scan.cf = ColumnFamily::kDefinitions;
  scan.begin = DefinitionKey(swept->uid, 1);
  // With the first one that is kept: it says when the one before was replaced.
  scan.end = DefinitionKey(swept->uid, first_kept + 1);
  scan.limit = kDefinitionSweepVersionsMax;
  scan.bytes_max = kDefinitionSweepBytesMax;
  context_.client.Scan(std::move(scan), context_.executor,
                       [this, swept](absl::StatusOr<kv::ScanResult> versions) {
                         if (!versions.ok()) return Next();
                         OnVersions(swept, *versions);
                       });
}

void DefinitionSweepLoop::AddPrefixes(const storage::v1::DefinitionRecord& definition,
                                      Swept& swept) const {
  if (!definition.has_throttle()) return;
  const auto [shard, policy] = WaitingPlaceOf(definition.tenant(), definition.throttle(), swept.uid,
                                              context_.layout.policy_shards);
  std::string prefix =
      WaitingGroupPrefix(shard, policy, static_cast<uint8_t>(definition.priority()), swept.uid);
  if (!absl::c_linear_search(swept.prefixes, prefix)) swept.prefixes.push_back(std::move(prefix));
}

void DefinitionSweepLoop::OnVersions(const SweptPtr& swept, const kv::ScanResult& versions) {
  const absl::Time oldest_kept = context_.client.NowLow() - kVersionKeptFor;
  swept->prefixes.push_back(ParkedPrefix(swept->uid));
  for (size_t i = 0; i + 1 < versions.entries.size(); ++i) {
    storage::v1::DefinitionRecord definition, next;
    if (!definition.ParseFromString(versions.entries[i].value) ||
        !next.ParseFromString(versions.entries[i + 1].value))
      return Next();
    if (FromMicros(next.create_time_micros()) >= oldest_kept) break;
    swept->old_keys.push_back(versions.entries[i].key);
    AddPrefixes(definition, *swept);
    // A change moves rows to where the next version wants them.
    AddPrefixes(next, *swept);
  }
  if (swept->old_keys.empty()) return Next();
  context_.client.MultiGet(
      {{ColumnFamily::kDefinitions, DefinitionKey(swept->uid, swept->state.version())}},
      context_.executor, [this, swept](absl::StatusOr<kv::GetResult> result) {
        storage::v1::DefinitionRecord current;
        if (!result.ok() || !result->values[0].has_value() ||
            !current.ParseFromString(*result->values[0]))
          return Next();
        AddPrefixes(current, *swept);
        CheckRows(swept, 0);
      });
}

void DefinitionSweepLoop::CheckRows(SweptPtr swept, size_t i) {
  if (i == swept->prefixes.size()) {
    kv::Group group;
    group.conditions.push_back(
        kv::ValueIs(ColumnFamily::kStates, StateKey(swept->uid), swept->state_bytes));
    for (const std::string& key : swept->old_keys)
      group.mutations.push_back(kv::Delete(ColumnFamily::kDefinitions, key));
    return Commit(*swept, std::move(group));
  }
  kv::ScanRequest scan;
  scan.cf = i == 0 ? ColumnFamily::kParked : ColumnFamily::kWaiting;
  scan.begin = swept->prefixes[i];
  scan.end = PrefixEnd(scan.begin);
  scan.limit = 1;
  scan.keys_only = true;
  context_.client.Scan(std::move(scan), context_.executor,
                       [this, swept, i](absl::StatusOr<kv::ScanResult> rows) {
                         if (!rows.ok() || !rows->entries.empty()) return Next();
                         CheckRows(swept, i + 1);
                       });
}

void DefinitionSweepLoop::Commit(const Swept& swept, kv::Group group) {
  kv::Commit commit;
  const size_t definitions = static_cast<size_t>(absl::c_count_if(
      group.mutations, [](const kv::Mutation& m) { return m.cf == ColumnFamily::kDefinitions; }));
  commit.groups.push_back(std::move(group));
  context_.client.CommitAsync(std::move(commit), context_.executor,
                              [this, definitions](const absl::StatusOr<kv::CommitResult>& result) {
                                if (result.ok() && result->verdicts[0].applied)
                                  context_.metrics.definitions_collected.Increment(definitions);
                                Next();
                              });
}

}  // namespace escapement::master
