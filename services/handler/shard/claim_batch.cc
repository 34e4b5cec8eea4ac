#include "services/handler/shard/claim_batch.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/printable_text.h"
#include "common/base/proto_time.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"

namespace escapement::handler {

using kv::ColumnFamily;
using kv::Condition;
using kv::Mutation;

namespace {

// Bytes of the rows of one claim. After a takeover, or if one row has changed, all are read again.
constexpr size_t kClaimRowBytesMax = 16 << 20;
// Bytes of one ClaimRecord; a value may have twice as many.
constexpr size_t kClaimBytesMax = 2 << 20;

// Deliveries with timeouts up to this may share a claim, whatever they are. Longer ones may share
// it if the longest timeout is at most twice the shortest.
constexpr absl::Duration kTimeoutsAlike = absl::Seconds(30);

}  // namespace

ClaimBatch::ClaimBatch(std::shared_ptr<Claim> claim, Bounds max, size_t rows_expected)
    : max_(max),
      rows_expected_(rows_expected),
      record_(kEntryBytesUsual * std::max<size_t>(rows_expected, 16)) {
  pending_.claim = std::move(claim);
}

bool ClaimBatch::full() const {
  return rows() >= max_.rows || room() == 0 || bytes_ >= kClaimBytesMax ||
         row_bytes_ >= kClaimRowBytesMax;
}

bool ClaimBatch::Fits(absl::Duration timeout) const {
  if (rows() == 0) return true;
  const absl::Duration longest = std::max(pending_.claim->timeout_max, timeout);
  return longest <= kTimeoutsAlike || longest <= 2 * std::min(timeout_min_, timeout);
}

void ClaimBatch::Add(QueuedRow row, ClaimedEntry&& entry, uint64_t count,
                     const CachedState* state) {
  CHECK_GT(count, 0u);
  CHECK_LE(count, std::min(room(), entry.event.count()));
  CHECK(entry.context != nullptr);
  if (rows() == 0) {
    pending_.claim->entries.reserve(rows_expected_);
    pending_.rows.reserve(rows_expected_);
    pending_.taken.reserve(rows_expected_);
    group_.conditions.reserve(rows_expected_);
  }
  // A read may be older than the row that is under its key now, with the events that a claim gave
  // back. A one-off event is always the same one.
  const bool one_off = entry.one_off();
  group_.conditions.push_back(
      {.cf = ColumnFamily::kEvents,
       .key = std::string(entry.event_key),
       .kind = one_off ? Condition::Kind::kPresent : Condition::Kind::kValuePrefix,
       .value = one_off ? std::string() : std::string(entry.event.up_to_count()),
       .since = row.seq()});
  // Rows of one schedule mostly follow one another. A repeated condition does no harm.
  if (state != nullptr && (last_state_ != entry.key.uid || rows() == 0)) {
    group_.conditions.push_back(StateUnchanged(entry.key.uid, *state));
    last_state_ = entry.key.uid;
  }
  if (entry.row_stays) {
    has_one_off_ = true;
  } else {
    TakeFromRow(entry, count);
  }
  AppendToRecord(entry, count);

  Claim& claim = *pending_.claim;
  claim.open += count;
  claim.timeout_max = std::max(claim.timeout_max, entry.context->timeout);
  timeout_min_ = std::min(timeout_min_, entry.context->timeout);
  events_ += count;
  bytes_ += 2 * entry.event_key.size() + 128 + entry.event.tenant().size() +
            entry.event.event_id().size();
  row_bytes_ += row.value().size();
  pending_.taken.push_back({.first = entry.key.first, .count = count});
  pending_.rows.push_back(std::move(row));
  claim.entries.push_back(std::move(entry));
}

void ClaimBatch::AppendToRecord(const ClaimedEntry& entry, uint64_t count) {
  using Record = storage::v1::ClaimRecord;
  using Range = storage::v1::IndexRange;
  MessageWriter range(15);
  range.Number(Range::kFirstFieldNumber, entry.key.first).Number(Range::kCountFieldNumber, count);
  entry_.Clear().Bytes(Record::Entry::kEventKeyFieldNumber, entry.event_key);
  entry.event.WriteTo(entry_.Room(Record::Entry::kEventFieldNumber, entry.event.bytes()));
  entry_.Message(Record::Entry::kRangesFieldNumber, range.written())
      .Number(Record::Entry::kRowStaysFieldNumber, entry.row_stays ? 1 : 0)
      .Number(Record::Entry::kClaimedVersionFieldNumber, entry.claimed_version);
  record_.Message(Record::kEntriesFieldNumber, entry_.written());
}

void ClaimBatch::TakeFromRow(const ClaimedEntry& entry, uint64_t count) {
  group_.mutations.push_back({.cf = ColumnFamily::kEvents,
                              .kind = Mutation::Kind::kDelete,
                              .key = std::string(entry.event_key)});
  if (count >= entry.event.count()) return;
  EventKey rest_key = entry.key;
  rest_key.first += count;
  storage::v1::EventRecord rest = entry.event.MakeRecord();
  rest.set_count(entry.event.count() - count);
  std::string key = EncodeEventKey(rest_key);
  std::string value = rest.SerializeAsString();
  pending_.remainders.emplace_back(key, value, 0);
  group_.mutations.push_back(
      {.cf = ColumnFamily::kEvents, .key = std::move(key), .value = std::move(value)});
}

kv::Group ClaimBatch::TakeGroup(int64_t now_micros) {
  CHECK_GT(rows(), 0u);
  Claim& claim = *pending_.claim;
  claim.claim_time_micros = now_micros;
  using Record = storage::v1::ClaimRecord;
  record_.Number(Record::kClaimTimeMicrosFieldNumber, static_cast<uint64_t>(now_micros))
      .Number(Record::kDeliveryTimeoutMaxMicrosFieldNumber,
              static_cast<uint64_t>(absl::ToInt64Microseconds(claim.timeout_max)));
  group_.mutations.push_back(
      {.cf = ColumnFamily::kInflight, .key = EncodeClaimKey(claim.id), .value = record_.Take()});
  if (has_one_off_) {
    group_.mutations.push_back({.cf = ColumnFamily::kMeta, .key = ClaimMarkKey(claim.id.shard)});
  }
  return std::move(group_);
}

namespace {

using storage::v1::GrantReportRecord;

constexpr size_t kReasonBytesMax = 256;

}  // namespace

GrantReportRecord::Kind ReportKindOf(const EntryGrant& grant, const Outcome& outcome) {
  switch (outcome.kind) {
    case EndKind::kSucceeded:
      if (!grant.on_release) return GrantReportRecord::SUCCEEDED;
      if (outcome.work == DeliveryWork::kSucceeded) return GrantReportRecord::COMPLETED;
      if (outcome.work == DeliveryWork::kFailed) return GrantReportRecord::COMPLETION_FAILED;
      return GrantReportRecord::DELIVERED;
    case EndKind::kFailed:
      return GrantReportRecord::FAILED;
    case EndKind::kRetry:
      return GrantReportRecord::RETRY;
    case EndKind::kResend:
      return GrantReportRecord::RESEND;
    case EndKind::kReturn:
      return GrantReportRecord::RETURNED;
    case EndKind::kSkipped:
    case EndKind::kExpired:
    case EndKind::kCancelled:
    case EndKind::kPark:
    case EndKind::kMove:
    case EndKind::kGone:
      break;
  }
  CHECK(false) << "granted events do not end like this";
  return GrantReportRecord::RETURNED;
}

void GrantReports::Add(const ClaimedEntry& entry, const Outcome& first, const Outcome& last,
                       uint64_t count) {
  const EntryGrant& grant = *CheckNotNull(entry.grant);
  GrantReportRecord::Entry& report = *by_shard_[grant.id.policy_shard].add_entries();
  const auto policy = grant.id.policy.bytes();
  report.set_policy_uid(policy.data(), policy.size());
  report.set_epoch(grant.id.epoch);
  report.set_number(grant.id.number);
  report.set_kind(ReportKindOf(grant, first));
  report.set_first(first.first);
  report.set_count(count);
  report.set_attempts(first.attempts);
  report.set_dispatch_time_micros(first.dispatch_micros);
  report.set_time_micros(last.complete_micros);
  if (first.kind == EndKind::kRetry) report.set_retry_at_micros(ToMicros(first.retry_at));
  if (first.paused_until != absl::InfinitePast())
    report.set_paused_until_micros(ToMicros(first.paused_until));
  report.set_unreachable(first.unreachable);
  report.set_attempt(first.attempt);
  report.set_status(first.status);
  report.set_output(first.answer);
  report.set_lost_claims(first.lost_claims);
  if (!first.reason.empty()) report.set_reason(CleanText(first.reason, kReasonBytesMax));
}

void GrantReports::Put(const ReportOrigin& origin, kv::Group& group) const {
  for (const auto& [policy_shard, report] : by_shard_) {
    group.mutations.push_back({.cf = kv::ColumnFamily::kWaiting,
                               .key = EncodeReportKey({.policy_shard = policy_shard,
                                                       .origin = origin.shard,
                                                       .a = origin.epoch,
                                                       .b = origin.number}),
                               .value = report.SerializeAsString()});
  }
}

}  // namespace escapement::handler
