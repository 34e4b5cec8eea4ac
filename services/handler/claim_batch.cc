#include "services/handler/claim_batch.h"

#include <algorithm>
#include <utility>

#include "common/storage/schedule_table.h"

namespace escapement::handler {

using kv::ColumnFamily;
using kv::Condition;
using kv::Mutation;

ClaimBatch::ClaimBatch(std::shared_ptr<Claim> claim, uint64_t events_max)
    : events_max_(events_max) {
  pending_.claim = std::move(claim);
}

void ClaimBatch::Add(QueuedRow row, ClaimedEntry entry, uint64_t count, const CachedState* state) {
  group_.conditions.push_back({.cf = ColumnFamily::kEvents,
                               .key = row.key,
                               .kind = Condition::Kind::kPresent,
                               .since = row.seq});
  // Rows of one schedule mostly follow one another; a condition twice does no harm.
  if (state != nullptr && (last_state_ != entry.key.uid || rows() == 0)) {
    group_.conditions.push_back(StateUnchanged(entry.key.uid, *state));
    last_state_ = entry.key.uid;
  }
  if (entry.row_stays) {
    has_one_off_ = true;
  } else {
    TakeFromRow(entry, count);
  }
  auto& recorded = *record_.add_entries();
  recorded.set_event_key(entry.event_key);
  *recorded.mutable_event() = entry.event;
  recorded.set_row_stays(entry.row_stays);
  recorded.set_claimed_version(entry.claimed_version);
  auto& range = *recorded.add_ranges();
  range.set_first(entry.key.first);
  range.set_count(count);

  Claim& claim = *pending_.claim;
  claim.open += count;
  claim.timeout_max = std::max(claim.timeout_max, entry.context->timeout);
  events_ += count;
  bytes_ += 2 * row.key.size() + 128 + entry.event.tenant().size() + entry.event.event_id().size();
  pending_.taken.push_back({.first = entry.key.first, .count = count});
  pending_.rows.push_back(std::move(row));
  claim.entries.push_back(std::move(entry));
}

void ClaimBatch::TakeFromRow(const ClaimedEntry& entry, uint64_t count) {
  group_.mutations.push_back(
      {.cf = ColumnFamily::kEvents, .kind = Mutation::Kind::kDelete, .key = entry.event_key});
  if (count >= entry.event.count()) return;
  EventKey rest_key = entry.key;
  rest_key.first += count;
  storage::v1::EventRecord rest = entry.event;
  rest.set_count(entry.event.count() - count);
  QueuedRow remainder{.key = EncodeEventKey(rest_key), .value = rest.SerializeAsString()};
  group_.mutations.push_back(
      {.cf = ColumnFamily::kEvents, .key = remainder.key, .value = remainder.value});
  pending_.remainders.push_back(std::move(remainder));
}

kv::Group ClaimBatch::TakeGroup(int64_t now_micros) {
  Claim& claim = *pending_.claim;
  claim.claim_time_micros = now_micros;
  record_.set_claim_time_micros(now_micros);
  record_.set_delivery_timeout_max_micros(absl::ToInt64Microseconds(claim.timeout_max));
  group_.mutations.push_back({.cf = ColumnFamily::kInflight,
                              .key = EncodeClaimKey(claim.id),
                              .value = record_.SerializeAsString()});
  if (has_one_off_) {
    group_.mutations.push_back({.cf = ColumnFamily::kMeta, .key = ClaimMarkKey(claim.id.shard)});
  }
  return std::move(group_);
}

}  // namespace escapement::handler
