#include "services/handler/claims/takeover.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/runtime/perturb.h"
#include "common/storage/waiting_table.h"
#include "services/handler/base/options.h"

namespace escapement::handler {

namespace {

// ClaimTakeoverRecord.quiet_from_micros of a claim whose last sender is dead.
constexpr int64_t kNothingUnderWay = 1;

struct Seen {
  std::string claim_key;
  std::optional<storage::v1::ClaimRecord> claim;
  std::vector<std::string> end_keys;
  std::map<uint32_t, std::vector<IndexSlice>> ended;  // by entry
  uint32_t ends_written = 0;
  std::string takeover_key;
  storage::v1::ClaimTakeoverRecord takeover;
};

template <typename Ranges>
std::vector<IndexSlice> ToSlices(const Ranges& ranges) {
  std::vector<IndexSlice> slices;
  for (const storage::v1::IndexRange& range : ranges)
    slices.push_back({range.first(), range.count()});
  return slices;
}

void ReadClaim(const kv::Entry& row, Seen& seen) {
  seen.claim_key = row.key;
  storage::v1::ClaimRecord claim;
  if (claim.ParseFromString(row.value)) seen.claim = std::move(claim);
}

void ReadEnd(const kv::Entry& row, const InflightKey& key, Seen& seen) {
  seen.end_keys.push_back(row.key);
  seen.ends_written = std::max(seen.ends_written, key.end_number + 1);
  storage::v1::ClaimEndRecord end;
  if (!end.ParseFromString(row.value)) return;
  for (const auto& entry : end.entries()) {
    for (const IndexSlice& slice : ToSlices(entry.ranges()))
      seen.ended[entry.entry()].push_back(slice);
  }
}

// An unreadable record counts as if there was none: its events are then sent as usual.
void ReadTakeover(const kv::Entry& row, Seen& seen) {
  seen.takeover_key = row.key;
  if (!seen.takeover.ParseFromString(row.value)) seen.takeover.Clear();
}

void Read(const kv::Entry& row, const InflightKey& key, Seen& seen) {
  switch (key.kind) {
    case InflightKey::Kind::kClaim:
      return ReadClaim(row, seen);
    case InflightKey::Kind::kEnd:
      return ReadEnd(row, key, seen);
    case InflightKey::Kind::kTakeover:
      return ReadTakeover(row, seen);
  }
}

}  // namespace

std::vector<IndexSlice> Subtract(std::vector<IndexSlice> from, std::vector<IndexSlice> without) {
  const auto by_first = [](const IndexSlice& a, const IndexSlice& b) { return a.first < b.first; };
  std::sort(from.begin(), from.end(), by_first);
  std::sort(without.begin(), without.end(), by_first);
  std::vector<IndexSlice> rest;
  for (const IndexSlice& slice : from) {
    uint64_t at = slice.first;
    const uint64_t end = slice.first + slice.count;
    for (const IndexSlice& gone : without) {
      if (gone.first + gone.count <= at) continue;
      if (gone.first >= end) break;
      if (gone.first > at) rest.push_back({at, gone.first - at});
      at = gone.first + gone.count;
    }
    if (at < end) rest.push_back({at, end - at});
  }
  return rest;
}

bool NoteFormerOwner(const FormerOwner& former, LeftClaim& claim) {
  storage::v1::ClaimTakeoverRecord& takeover = claim.takeover;
  if (takeover.quiet_from_micros() != 0) return false;
  if (former.lost) {
    takeover.set_lost_claims(std::min(takeover.lost_claims() + 1, kLostClaimsOfSuspect));
    if (takeover.has_trial()) takeover.mutable_trial()->set_lost(true);
  }
  // Without a mark, the claim may belong to an owner before the former one, which may still live.
  // A quarantined event is not sent again, so its consumer may work on it until the attempt times
  // out. It ends, and its token is free, only then.
  takeover.set_quiet_from_micros(former.dead && former.marked && !takeover.trial().lost()
                                     ? kNothingUnderWay
                                     : std::max(ToMicros(former.end), kNothingUnderWay));
  claim.has_takeover_row = true;
  return true;
}

absl::Time QuietFrom(const LeftClaim& claim, absl::Duration margin) {
  const int64_t quiet_from = claim.takeover.quiet_from_micros();
  CHECK_NE(quiet_from, 0);
  if (quiet_from == kNothingUnderWay) return absl::InfinitePast();
  return FromMicros(quiet_from) + absl::Microseconds(claim.timeout_max_micros) + margin;
}

Takeover PlanTakeover(const std::vector<kv::Entry>& inflight) {
  std::map<std::pair<uint64_t, uint64_t>, Seen> claims;
  Takeover plan;
  for (const kv::Entry& row : inflight) {
    const std::optional<InflightKey> key = DecodeInflightKey(row.key);
    if (key.has_value()) Read(row, *key, claims[{key->claim.epoch, key->claim.number}]);
  }
  for (auto& [number, seen] : claims) {
    if (!seen.claim_key.empty() && !seen.claim.has_value()) {
      ++plan.broken;
      continue;
    }
    LeftClaim left;
    if (seen.claim.has_value()) {
      for (int i = 0; i < seen.claim->entries_size(); ++i) {
        auto& entry = *seen.claim->mutable_entries(i);
        std::vector<IndexSlice> open =
            Subtract(ToSlices(entry.ranges()), seen.ended[static_cast<uint32_t>(i)]);
        // Entries keep their indices, because ends refer to them.
        left.entries.push_back({.record = std::move(entry), .open = std::move(open)});
      }
    }
    const bool any_open = std::any_of(left.entries.begin(), left.entries.end(),
                                      [](const LeftEntry& entry) { return !entry.open.empty(); });
    if (!any_open) {
      if (!seen.claim_key.empty()) plan.garbage_keys.push_back(seen.claim_key);
      plan.garbage_keys.insert(plan.garbage_keys.end(), seen.end_keys.begin(), seen.end_keys.end());
      if (!seen.takeover_key.empty()) plan.garbage_keys.push_back(seen.takeover_key);
      continue;
    }
    CHECK(seen.claim.has_value());
    left.id = DecodeInflightKey(seen.claim_key)->claim;
    left.claim_time_micros = seen.claim->claim_time_micros();
    left.timeout_max_micros = seen.claim->delivery_timeout_max_micros();
    left.ends_written = seen.ends_written;
    left.has_takeover_row = !seen.takeover_key.empty();
    left.takeover = std::move(seen.takeover);
    left.takeover.set_lost_claims(std::min(left.takeover.lost_claims(), kLostClaimsOfSuspect));
    plan.claims.push_back(std::move(left));
  }
  return plan;
}

namespace {

struct InflightScan {
  QueueShardState& state;
  InflightScanned done;
  std::vector<kv::Entry> entries = {};
};

// Must be called only while the shard is owned.
void ScanMore(std::shared_ptr<InflightScan> scan, std::string begin) {
  QueueShardState& state = scan->state;
  const bool one = Perturb(state.core.runtime, Site::kInflightScanOfOne);
  state.core.client.Scan({.cf = kv::ColumnFamily::kInflight,
                          .begin = begin,
                          .end = InflightShardEnd(state.shard),
                          .limit = one ? 1u : 1000u,
                          .bytes_max = 4 << 20},
                         state.core.executor,
                         state.WhileOwned([scan, begin](absl::StatusOr<kv::ScanResult> result) {
                           if (!result.ok()) return ScanMore(scan, begin);
                           for (kv::Entry& entry : result->entries)
                             scan->entries.push_back(std::move(entry));
                           if (result->more)
                             return ScanMore(scan, KeyAfter(scan->entries.back().key));
                           scan->done(std::move(scan->entries), result->seq);
                         }));
}

}  // namespace

void ScanInflight(QueueShardState& state, InflightScanned done) {
  auto scan = std::make_shared<InflightScan>(InflightScan{.state = state, .done = std::move(done)});
  ScanMore(std::move(scan), InflightShardBegin(state.shard));
}

}  // namespace escapement::handler
