#include "services/master/target_states/target_sweep_loop.h"

#include <utility>

#include "absl/time/time.h"
#include "common/base/key_codec.h"
#include "common/base/micros.h"
#include "common/storage/targets/target_table.h"
#include "escapement/storage/v1/target_records.pb.h"

namespace escapement::master {
namespace {

constexpr absl::Duration kSweepEvery = absl::Minutes(5);
constexpr absl::Duration kSweepPause = absl::Milliseconds(100);  // between two pages
constexpr uint32_t kPageRows = 1000;

}  // namespace

void TargetSweepLoop::StartLater() {
  context_.executor->PostAfter(kSweepEvery, [this] { Start(); });
}

void TargetSweepLoop::Step(std::string position) {
  kv::ScanRequest scan;
  scan.cf = kv::ColumnFamily::kTargetStates;
  scan.begin = std::move(position);
  scan.limit = kPageRows;
  context_.client.Scan(std::move(scan), context_.executor,
                       [this](absl::StatusOr<kv::ScanResult> page) {
                         if (!page.ok()) return StartLater();
                         OnPage(*page);
                       });
}

void TargetSweepLoop::OnPage(const kv::ScanResult& page) {
  const int64_t oldest = ToMicros(context_.client.NowLow() - kTargetRowValidFor);
  kv::Commit commit;
  for (const kv::Entry& entry : page.entries) {
    storage::v1::TargetRowRecord record;
    if (record.ParseFromString(entry.value) && record.state().update_time_micros() >= oldest)
      continue;
    // Its handler may be alive after all, and have written it again.
    kv::Group& group = commit.groups.emplace_back();
    group.conditions.push_back({.cf = kv::ColumnFamily::kTargetStates,
                                .key = entry.key,
                                .kind = kv::Condition::Kind::kUnchangedSince,
                                .since = page.seq});
    group.mutations.push_back({.cf = kv::ColumnFamily::kTargetStates,
                               .kind = kv::Mutation::Kind::kDelete,
                               .key = entry.key});
  }
  const std::string next =
      page.more && !page.entries.empty() ? KeyAfter(page.entries.back().key) : std::string();
  const auto go_on = [this, next](const absl::StatusOr<kv::CommitResult>&) {
    if (next.empty()) return StartLater();
    context_.executor->PostAfter(kSweepPause, [this, next] { Step(next); });
  };
  if (commit.groups.empty()) return go_on(kv::CommitResult());
  context_.client.CommitAsync(std::move(commit), context_.executor, go_on);
}

}  // namespace escapement::master
