#include "services/handler/retention/retention_loop.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/check.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/kv/group_parts.h"
#include "common/kv/layout.h"
#include "common/storage/event_table.h"
#include "common/storage/name_tables.h"
#include "common/storage/run_table.h"
#include "escapement/storage/v1/access_records.pb.h"
#include "services/handler/base/options.h"

namespace escapement::handler {

void Retentions::Add(const std::string& value) {
  storage::v1::TenantRecord tenant;
  if (!tenant.ParseFromString(value) || tenant.retention_micros() <= 0) return;
  const absl::Duration retention = absl::Microseconds(tenant.retention_micros());
  of_tenant_[tenant.tenant()] = retention;
  shortest_ = std::min(shortest_, retention);
}

namespace {

using kv::ColumnFamily;
using kv::Mutation;

constexpr uint32_t kPageRows = 1000;

absl::Time BeginOfDay(uint32_t day) {
  return absl::UnixEpoch() + absl::Hours(24) * static_cast<int64_t>(day);
}

void Delete(kv::Group& group, ColumnFamily cf, std::string key) {
  group.mutations.push_back({.cf = cf, .kind = Mutation::Kind::kDelete, .key = std::move(key)});
}

// False for a batch that only deletes, as this loop does.
bool PutsAny(const kv::WatchBatch& batch) {
  return std::any_of(
      batch.mutations.begin(), batch.mutations.end(),
      [](const kv::WatchedMutation& mutation) { return mutation.kind == Mutation::Kind::kPut; });
}

}  // namespace

bool RetentionLoop::Due() const {
  return !busy_ &&
         (!swept_.has_value() || core_.runtime.clock().Elapsed() >= *swept_ + kSweepEvery);
}

void RetentionLoop::Begin(absl::Time now, std::vector<SweptShard> shards) {
  if (shards.empty() || now == absl::InfinitePast()) return;
  swept_ = core_.runtime.clock().Elapsed();
  CHECK(!std::exchange(busy_, true));
  auto sweep = std::make_shared<Sweep>(core_.options.retention);
  sweep->now = now;
  sweep->shards = std::move(shards);
  ReadTenants(std::move(sweep), TenantKey(""));
}

void RetentionLoop::ReadTenants(SweepPtr sweep, std::string from) {
  Scan(sweep, {.cf = ColumnFamily::kTenants, .begin = std::move(from), .limit = kPageRows},
       [this, sweep](const kv::ScanResult& page) {
         for (const kv::Entry& tenant : page.entries) sweep->retentions.Add(tenant.value);
         if (page.more && !page.entries.empty())
           return ReadTenants(sweep, KeyAfter(page.entries.back().key));
         ForgetKept(*sweep);
         FindDay(sweep);
       });
}

// Forgets what is over, and everything if a retention has changed.
void RetentionLoop::ForgetKept(const Sweep& sweep) {
  if (retentions_ != sweep.retentions) kept_.clear();
  retentions_ = sweep.retentions;
  std::map<uint16_t, std::map<uint32_t, absl::Time>> kept;
  for (const SweptShard& swept : sweep.shards) {
    auto& days = kept[swept.shard] = std::move(kept_[swept.shard]);
    std::erase_if(days, [&](const auto& day) { return day.second <= sweep.now; });
  }
  kept_ = std::move(kept);
}

void RetentionLoop::Scan(SweepPtr sweep, kv::ScanRequest request,
                         std::function<void(kv::ScanResult)> then) {
  core_.client.Scan(std::move(request), core_.executor,
                    [this, then = std::move(then)](absl::StatusOr<kv::ScanResult> result) {
                      if (!result.ok()) return Finish();
                      then(*std::move(result));
                    });
}

void RetentionLoop::Commit(SweepPtr sweep, std::vector<kv::Group> groups,
                           std::function<void()> then) {
  kv::Commit commit;
  commit.fence = {sweep->shard().fence};
  commit.groups = std::move(groups);
  core_.client.CommitAsync(
      std::move(commit), core_.executor,
      [this, sweep, then = std::move(then)](const absl::StatusOr<kv::CommitResult>& result) {
        // A lost lease or session ends the sweep of this shard. The next owner sweeps it.
        if (!result.ok()) return NextShard(sweep);
        then();
      });
}

void RetentionLoop::NextShard(SweepPtr sweep) {
  sweep->watch.reset();
  sweep->from_day = 0;
  if (++sweep->at == sweep->shards.size()) return Finish();
  FindDay(std::move(sweep));
}

void RetentionLoop::NextDay(SweepPtr sweep) {
  sweep->watch.reset();
  sweep->from_day = sweep->day + 1;
  FindDay(std::move(sweep));
}

void RetentionLoop::FindDay(SweepPtr sweep) {
  const uint16_t shard = sweep->shard().shard;
  while (kept_[shard].contains(sweep->from_day)) ++sweep->from_day;
  Scan(sweep,
       {.cf = ColumnFamily::kDone,
        .begin = DoneDayKey(shard, sweep->from_day),
        .end = PrefixEnd(KeyWriter().U16(shard).Take()),
        .limit = 1,
        .keys_only = true},
       [this, sweep](kv::ScanResult result) {
         const std::optional<DoneKey> key =
             result.entries.empty() ? std::nullopt : DecodeDoneKey(result.entries[0].key);
         if (!key.has_value() ||
             BeginOfDay(key->day + 1) + sweep->retentions.shortest() > sweep->now) {
           return NextShard(sweep);
         }
         sweep->day = key->day;
         if (kept_[sweep->shard().shard].contains(key->day)) return NextDay(sweep);
         sweep->lane = 0;
         CheckLane(sweep);
       });
}

void RetentionLoop::CheckLane(SweepPtr sweep) {
  const uint16_t shard = sweep->shard().shard;
  // Day 0 also has all times before it.
  const absl::Time begin = sweep->day == 0 ? absl::InfinitePast() : BeginOfDay(sweep->day);
  Scan(sweep,
       {.cf = ColumnFamily::kEvents,
        .begin = EventLaneKey(shard, sweep->lane, begin),
        .end = EventLaneKey(shard, sweep->lane, BeginOfDay(sweep->day + 1)),
        .limit = 1,
        .keys_only = true},
       [this, sweep](kv::ScanResult result) {
         if (!result.entries.empty()) return NextDay(sweep);
         if (++sweep->lane <= kLaneLimited) return CheckLane(sweep);
         BeginDay(sweep, result.seq);
       });
}

void RetentionLoop::BeginDay(SweepPtr sweep, kv::CommitSeq seq) {
  const std::string begin = DoneDayKey(sweep->shard().shard, sweep->day);
  sweep->dropping = Dropping::kNothing;
  sweep->dropped.clear();
  sweep->blind = false;
  sweep->newest.clear();
  sweep->written = absl::InfinitePast();
  sweep->cursor = begin;
  const std::weak_ptr<Sweep> weak = sweep;
  // Calls of the watch over an earlier day may still be posted: they are ignored.
  const auto present = [weak, shard = sweep->at, day = sweep->day]() -> SweepPtr {
    SweepPtr sweep = weak.lock();
    return sweep != nullptr && sweep->at == shard && sweep->day == day ? sweep : nullptr;
  };
  sweep->watch = core_.client.OpenWatch(
      {.cf = ColumnFamily::kDone, .begin = begin, .end = PrefixEnd(begin), .from_seq = seq},
      /*excluding_own=*/false, core_.executor,
      {.on_batch =
           [present](const kv::WatchBatch& batch) {
             const SweepPtr sweep = present();
             if (sweep == nullptr || !PutsAny(batch)) return;
             sweep->written = std::max(sweep->written, batch.store_time);
           },
       .on_lagged =
           [present](const absl::Status&) {
             if (const SweepPtr sweep = present()) sweep->blind = true;
           }});
  ReadDay(sweep);
}

void RetentionLoop::ReadDay(SweepPtr sweep) {
  Scan(sweep,
       {.cf = ColumnFamily::kDone,
        .begin = sweep->cursor,
        .end = DoneDayKey(sweep->shard().shard, sweep->day + 1),
        .limit = kPageRows},
       [this, sweep](kv::ScanResult page) { OnDayRead(sweep, std::move(page)); });
}

void RetentionLoop::OnDayRead(SweepPtr sweep, kv::ScanResult page) {
  std::vector<DoneName> names;
  std::vector<DoneRun> runs;
  std::set<std::string> seen;
  for (const kv::Entry& entry : page.entries) {
    storage::v1::DoneRecord done;
    const std::optional<DoneKey> key = DecodeDoneKey(entry.key);
    if (!key.has_value() || !done.ParseFromString(entry.value)) continue;
    const absl::Duration retention = sweep->retentions.Of(done.tenant());
    if (sweep->dropping == Dropping::kSome) {
      if (!sweep->dropped.contains(retention)) continue;
      sweep->old.push_back(entry.key);
    }
    NoteEnd(*sweep, retention, done.complete_time_micros());
    if (sweep->dropping != Dropping::kNothing && !done.event_id().empty()) {
      names.push_back({.key = EventNameKey(done.tenant(), done.event_id()), .event = key->uid});
    }
    const RunKey run{.uid = key->uid, .occurrence = key->occurrence};
    const bool has_run = done.run_count() > 1 || done.run_kept();
    if (!has_run || !seen.insert(EncodeRunKey(run)).second) continue;
    runs.push_back({.run = run, .shard = key->shard});
  }
  if (!page.entries.empty()) sweep->cursor = KeyAfter(page.entries.back().key);
  DropNames(sweep, std::move(names), [this, sweep, runs = std::move(runs), more = page.more] {
    if (runs.empty()) return GoOnWithDay(sweep, kv::Group(), more);
    ReadRuns(sweep, runs, more);
  });
}

// Drops the names of this day's events. A name may belong to another event by now: then it stays.
void RetentionLoop::DropNames(SweepPtr sweep, std::vector<DoneName> names,
                              std::function<void()> then) {
  if (names.empty()) return then();
  std::vector<kv::Key> keys;
  for (const DoneName& name : names)
    keys.push_back({.cf = ColumnFamily::kEventNames, .key = name.key});
  core_.client.MultiGet(
      std::move(keys), core_.executor,
      [this, sweep, names, then = std::move(then)](absl::StatusOr<kv::GetResult> result) {
        if (!result.ok()) return Finish();
        if (!MayDrop(*sweep)) return KeepDay(sweep);
        std::vector<kv::Group> groups;
        for (size_t i = 0; i < names.size(); ++i) {
          storage::v1::EventNameRecord name;
          std::optional<std::string>& value = result->values[i];
          if (!value.has_value() || !name.ParseFromString(*value) ||
              DoneDay(FromMicros(name.launch_time_micros())) != sweep->day)
            continue;
          const std::optional<EventKey> named = DecodeEventKey(name.event_key());
          if (named.has_value() && named->uid != names[i].event) continue;
          kv::Group& group = groups.emplace_back();
          group.conditions.push_back(
              kv::ValueIs(ColumnFamily::kEventNames, names[i].key, *std::move(value), result->seq));
          Delete(group, ColumnFamily::kEventNames, names[i].key);
        }
        if (groups.empty()) return then();
        Commit(sweep, std::move(groups), then);
      });
}

// Runs that are not closed keep their counts, because the owner of their partition still sums them.
void RetentionLoop::ReadRuns(SweepPtr sweep, std::vector<DoneRun> runs, bool more) {
  std::vector<kv::Key> keys;
  for (const DoneRun& run : runs)
    keys.push_back({.cf = ColumnFamily::kRuns, .key = EncodeRunKey(run.run)});
  core_.client.MultiGet(
      keys, core_.executor,
      [this, sweep, runs = std::move(runs), more](absl::StatusOr<kv::GetResult> result) {
        if (!result.ok()) return Finish();
        kv::Group group;
        std::vector<RunKey> ended;
        for (size_t i = 0; i < runs.size(); ++i) {
          storage::v1::RunRecord run;
          const bool there =
              result->values[i].has_value() && run.ParseFromString(*result->values[i]);
          if (there && run.complete_time_micros() == 0) continue;
          if (there) {
            NoteEnd(*sweep, sweep->retentions.Of(run.tenant()), run.complete_time_micros());
            Delete(group, ColumnFamily::kRuns, EncodeRunKey(runs[i].run));
            ended.push_back(runs[i].run);
          }
          Delete(group, ColumnFamily::kRunParts, RunPartKey(runs[i].run, runs[i].shard));
        }
        if (sweep->dropping == Dropping::kNothing || !MayDrop(*sweep))
          return GoOnWithDay(sweep, kv::Group(), more);
        DropOwnerlessParts(sweep, std::move(group), std::move(ended), more);
      });
}

// The counts of masters and of policy shards have no Done day. They are deleted with the run
// record.
void RetentionLoop::DropOwnerlessParts(SweepPtr sweep, kv::Group group, std::vector<RunKey> ended,
                                       bool more) {
  if (ended.empty()) return GoOnWithDay(sweep, std::move(group), more);
  const RunKey run = std::move(ended.back());
  ended.pop_back();
  Scan(sweep,
       {.cf = ColumnFamily::kRunParts,
        .begin = RunPartKey(run, PolicyRunPart(0)),
        .end = PrefixEnd(RunPartPrefix(run)),
        .limit = kv::kLayoutNumberMax + 1,  // all policy shards, and the masters
        .keys_only = true},
       [this, sweep, group = std::move(group), ended = std::move(ended),
        more](const kv::ScanResult& parts) mutable {
         for (const kv::Entry& part : parts.entries)
           Delete(group, ColumnFamily::kRunParts, part.key);
         DropOwnerlessParts(sweep, std::move(group), std::move(ended), more);
       });
}

void RetentionLoop::GoOnWithDay(SweepPtr sweep, kv::Group group, bool more) {
  if (!MayDrop(*sweep)) return KeepDay(sweep);
  for (std::string& key : std::exchange(sweep->old, {}))
    Delete(group, ColumnFamily::kDone, std::move(key));
  const auto go_on = [this, sweep, more] { more ? ReadDay(sweep) : EndReading(sweep); };
  if (group.mutations.empty()) return go_on();
  Commit(sweep, {std::move(group)}, go_on);
}

void RetentionLoop::EndReading(SweepPtr sweep) {
  if (sweep->blind) return NextDay(sweep);
  if (sweep->dropping == Dropping::kSome) return KeepDay(sweep);
  if (sweep->dropping == Dropping::kDay) return AllOld(*sweep) ? DropDay(sweep) : KeepDay(sweep);
  if (AllOld(*sweep)) {
    sweep->dropping = Dropping::kDay;
  } else {
    for (const auto& [retention, newest] : sweep->newest) {
      if (OldFrom(*sweep, retention) <= sweep->now) sweep->dropped.insert(retention);
    }
    if (sweep->dropped.empty()) return KeepDay(sweep);
    sweep->dropping = Dropping::kSome;
  }
  sweep->cursor = DoneDayKey(sweep->shard().shard, sweep->day);
  ReadDay(sweep);
}

void RetentionLoop::NoteEnd(Sweep& sweep, absl::Duration retention, int64_t end_micros) {
  absl::Time& newest = sweep.newest.try_emplace(retention, absl::InfinitePast()).first->second;
  newest = std::max(newest, FromMicros(end_micros));
}

absl::Time RetentionLoop::OldFrom(const Sweep& sweep, absl::Duration retention) {
  return std::max(sweep.newest.at(retention), sweep.written) + retention;
}

bool RetentionLoop::AllOld(const Sweep& sweep) {
  return std::all_of(sweep.newest.begin(), sweep.newest.end(),
                     [&](const auto& newest) { return OldFrom(sweep, newest.first) <= sweep.now; });
}

bool RetentionLoop::MayDrop(const Sweep& sweep) {
  if (sweep.dropping == Dropping::kNothing) return true;
  if (sweep.dropping == Dropping::kDay) return AllOld(sweep);
  return std::all_of(sweep.dropped.begin(), sweep.dropped.end(), [&](absl::Duration retention) {
    return OldFrom(sweep, retention) <= sweep.now;
  });
}

void RetentionLoop::KeepDay(SweepPtr sweep) {
  sweep->old.clear();
  auto& days = kept_[sweep->shard().shard];
  // Without room to remember the day, every sweep would read it again.
  if (days.size() >= core_.options.kept_days_max) return NextShard(sweep);
  absl::Time until = absl::InfiniteFuture();
  for (const auto& [retention, newest] : sweep->newest) {
    // These were dropped.
    if (sweep->dropped.contains(retention) && sweep->written == absl::InfinitePast()) continue;
    // An end in the future of store time counts as now.
    until = std::min(until, std::min(std::max(newest, sweep->written), sweep->now) + retention);
  }
  days[sweep->day] = until;
  NextDay(sweep);
}

void RetentionLoop::DropDay(SweepPtr sweep) {
  const uint16_t shard = sweep->shard().shard;
  kv::Group group;
  group.mutations.push_back({.cf = ColumnFamily::kDone,
                             .kind = Mutation::Kind::kDeleteRange,
                             .key = DoneDayKey(shard, sweep->day),
                             .value = PrefixEnd(DoneDayKey(shard, sweep->day))});
  Commit(sweep, {std::move(group)}, [this, sweep] { NextDay(sweep); });
}

}  // namespace escapement::handler
