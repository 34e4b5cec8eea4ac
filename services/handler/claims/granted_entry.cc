#include "services/handler/claims/granted_entry.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/proto_time.h"
#include "common/records/retry_end.h"
#include "common/storage/waiting_table.h"

namespace escapement::handler {

namespace {

bool MakeEntry(storage::v1::ClaimRecord::Entry& record, uint16_t shard, ClaimedEntry& entry) {
  std::optional<WaitingKey> key = DecodeWaitingKey(record.event_key());
  const storage::v1::GrantRef& grant = record.grant();
  if (!key.has_value() || !record.has_grant() || grant.policy_uid().size() != Uid::kBytes ||
      grant.policy_shard() != key->policy_shard)
    return false;
  entry.grant = std::make_unique<const EntryGrant>(
      EntryGrant{.id = {.policy_shard = key->policy_shard,
                        .policy = Uid::FromBytes(grant.policy_uid()),
                        .epoch = grant.epoch(),
                        .number = grant.number()},
                 .send_before = FromMicros(grant.send_before_micros()),
                 .on_release = record.event().throttle().on_release()});
  entry.key = {.shard = shard,
               .due_time = key->due_time,
               .uid = key->uid,
               .occurrence = std::move(key->occurrence),
               .first = key->first};
  entry.event_key = std::move(*record.mutable_event_key());
  entry.event = std::move(*record.mutable_event());
  entry.claimed_version = record.claimed_version();
  return true;
}

}  // namespace

std::shared_ptr<Claim> MakeGrantedClaim(LeftClaim& left) {
  auto claim = std::make_shared<Claim>();
  claim->id = left.id;
  claim->ends_written = left.ends_written;
  claim->has_takeover_row = left.has_takeover_row;
  claim->claim_time_micros = left.claim_time_micros;
  claim->judged = FromMicros(left.claim_time_micros);
  claim->timeout_max = absl::Microseconds(left.timeout_max_micros);
  claim->entries.resize(left.entries.size());
  for (size_t i = 0; i < left.entries.size(); ++i) {
    if (!MakeEntry(left.entries[i].record, left.id.shard, claim->entries[i])) return nullptr;
    for (const IndexSlice& slice : left.entries[i].open) claim->open += slice.count;
  }
  return claim;
}

std::vector<GrantedPiece> OpenPieces(const std::shared_ptr<Claim>& claim, const LeftClaim& left) {
  std::vector<GrantedPiece> pieces;
  for (uint32_t i = 0; i < left.entries.size(); ++i) {
    for (const IndexSlice& slice : left.entries[i].open)
      pieces.push_back({.claim = claim, .entry = i, .first = slice.first, .count = slice.count});
  }
  return pieces;
}

Outcome ReturnOutcome(const GrantedPiece& piece, absl::Time now, bool unreachable) {
  return {.claim = piece.claim,
          .entry = piece.entry,
          .kind = EndKind::kReturn,
          .first = piece.first,
          .count = piece.count,
          .attempts = piece.claimed().event.attempts(),
          .complete_micros = ToMicros(now),
          .unreachable = unreachable};
}

namespace {

constexpr uint64_t kEventsMax = 1000;
constexpr char kHeldTooLong[] = "not sent: the target was down for longer than max_age";

}  // namespace

bool IsHeldTooLong(const ResolvedRow& row, absl::Duration down_for, absl::Time now) {
  const storage::v1::RetryRecord& retry =
      CheckNotNull(row.entry.context)->definition->delivery().retry();
  const absl::Time held_since = std::max(row.entry.key.due_time, now - down_for);
  return now >=
         TriedSince(row.entry.event, held_since) + absl::Microseconds(retry.max_age_micros());
}

RowEnd EndOfHeldRow(ResolvedRow& row) {
  const std::string& last_error = row.entry.event.last_error();
  RowEnd end{.payload = std::move(row.payload), .kind = EndKind::kFailed};
  end.reason = last_error.empty() ? kHeldTooLong : absl::StrCat(last_error, "; ", kHeldTooLong);
  end.entry = std::move(row.entry);
  const uint64_t count = std::min(end.entry.event.count(), kEventsMax);
  end.rest = end.entry.event.count() - count;
  end.entry.event.set_count(count);
  return end;
}

}  // namespace escapement::handler
