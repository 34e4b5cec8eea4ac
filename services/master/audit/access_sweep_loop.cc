#include "services/master/audit/access_sweep_loop.h"

#include <utility>

#include "absl/time/time.h"
#include "common/base/key_codec.h"
#include "common/base/micros.h"
#include "common/storage/access_table.h"
#include "escapement/storage/v1/access_records.pb.h"
#include "services/master/limits.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;

constexpr absl::Duration kSweepEvery = absl::Hours(1);
constexpr absl::Duration kSweepPause = absl::Milliseconds(100);  // between two pages
constexpr uint32_t kPageRows = 1000;

kv::Mutation Delete(ColumnFamily cf, std::string key) {
  return {.cf = cf, .kind = kv::Mutation::Kind::kDelete, .key = std::move(key)};
}

}  // namespace

void AccessSweepLoop::Start() { SweepAudit({}); }

void AccessSweepLoop::StartLater() {
  context_.executor->PostAfter(kSweepEvery, [this] { Start(); });
}

void AccessSweepLoop::SweepAudit(std::string position) {
  kv::ScanRequest scan;
  scan.cf = ColumnFamily::kAudit;
  scan.begin = std::move(position);
  scan.limit = kPageRows;
  scan.keys_only = true;
  context_.client.Scan(std::move(scan), context_.executor,
                       [this](absl::StatusOr<kv::ScanResult> page) {
                         if (!page.ok()) return StartLater();
                         OnAuditPage(*page);
                       });
}

// Entries of one tenant are in the order of time: behind the first one that is kept, the next
// tenant's begin.
void AccessSweepLoop::OnAuditPage(const kv::ScanResult& page) {
  if (page.entries.empty()) return SweepKeys(ApiKeyPrefix());
  const absl::Time oldest_kept = context_.client.NowLow() - kAuditRetention;
  kv::Commit commit;
  kv::Group& group = commit.groups.emplace_back();
  std::string next = KeyAfter(page.entries.back().key);
  for (const kv::Entry& entry : page.entries) {
    const auto name = DecodeAuditKey(entry.key);
    if (name.has_value() && name->place.time >= oldest_kept) {
      next = PrefixEnd(AuditPrefix(name->tenant));
      break;
    }
    group.mutations.push_back(Delete(ColumnFamily::kAudit, entry.key));
  }
  const auto go_on = [this, next = std::move(next)](const absl::StatusOr<kv::CommitResult>&) {
    context_.executor->PostAfter(kSweepPause, [this, next] { SweepAudit(next); });
  };
  if (group.mutations.empty()) return go_on(kv::CommitResult());
  context_.client.CommitAsync(std::move(commit), context_.executor, go_on);
}

void AccessSweepLoop::SweepKeys(std::string position) {
  kv::ScanRequest scan;
  scan.cf = ColumnFamily::kKeys;
  scan.begin = std::move(position);
  scan.end = PrefixEnd(ApiKeyPrefix());
  scan.limit = kPageRows;
  context_.client.Scan(std::move(scan), context_.executor,
                       [this](absl::StatusOr<kv::ScanResult> page) {
                         if (!page.ok()) return StartLater();
                         OnKeyPage(*page);
                       });
}

void AccessSweepLoop::OnKeyPage(const kv::ScanResult& page) {
  const int64_t oldest_kept = ToMicros(context_.client.NowLow() - kAuditRetention);
  const auto is_old = [&](int64_t micros) { return micros != 0 && micros < oldest_kept; };
  kv::Commit commit;
  kv::Group& group = commit.groups.emplace_back();
  for (const kv::Entry& entry : page.entries) {
    storage::v1::KeyRecord record;
    if (!record.ParseFromString(entry.value) || record.from_file()) continue;
    if (!is_old(record.revoke_time_micros()) && !is_old(record.expire_time_micros())) continue;
    group.mutations.push_back(Delete(ColumnFamily::kKeys, entry.key));
    group.mutations.push_back(Delete(ColumnFamily::kKeys, ApiKeyUseKey(record.key_id())));
  }
  const std::string next =
      page.more && !page.entries.empty() ? KeyAfter(page.entries.back().key) : std::string();
  const auto go_on = [this, next](const absl::StatusOr<kv::CommitResult>&) {
    if (next.empty()) return StartLater();
    context_.executor->PostAfter(kSweepPause, [this, next] { SweepKeys(next); });
  };
  if (group.mutations.empty()) return go_on(kv::CommitResult());
  context_.client.CommitAsync(std::move(commit), context_.executor, go_on);
}

}  // namespace escapement::master
