#include "services/handler/shard/grant_reports.h"

#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/printable_text.h"
#include "common/base/proto_time.h"
#include "common/storage/waiting_table.h"

namespace escapement::handler {
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
