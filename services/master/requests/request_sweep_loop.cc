#include "services/master/requests/request_sweep_loop.h"

#include <utility>

#include "common/base/key_codec.h"
#include "common/base/micros.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/master/base/limits.h"

namespace escapement::master {

void RequestSweepLoop::Start() {
  position_.clear();
  Step();
}

void RequestSweepLoop::StartLater() {
  const bool many = std::exchange(many_, false);
  context_.executor->PostAfter(many ? kRequestSweepEveryOfMany : kRequestSweepEvery,
                               [this] { Start(); });
}

void RequestSweepLoop::Step() {
  kv::ScanRequest scan;
  scan.cf = kv::ColumnFamily::kRequests;
  scan.begin = position_;
  scan.limit = kRequestSweepRowsMax;
  scan.bytes_max = kRequestSweepBytesMax;
  context_.client.Scan(std::move(scan), context_.executor,
                       [this](absl::StatusOr<kv::ScanResult> page) {
                         if (!page.ok()) return StartLater();
                         OnPage(*std::move(page));
                       });
}

void RequestSweepLoop::OnPage(kv::ScanResult page) {
  const int64_t oldest_kept = ToMicros(context_.client.NowLow() - kRequestRetention);
  kv::Commit commit;
  for (const kv::Entry& entry : page.entries) {
    storage::v1::RequestRecord record;
    if (record.ParseFromString(entry.value) && record.time_micros() >= oldest_kept) continue;
    // Deletes only this very record: the id may be in use again.
    kv::Group& group = commit.groups.emplace_back();
    group.conditions.push_back({.cf = kv::ColumnFamily::kRequests,
                                .key = entry.key,
                                .kind = kv::Condition::Kind::kUnchangedSince,
                                .since = page.seq});
    group.mutations.push_back(
        {.cf = kv::ColumnFamily::kRequests, .kind = kv::Mutation::Kind::kDelete, .key = entry.key});
  }
  position_ =
      page.more && !page.entries.empty() ? KeyAfter(page.entries.back().key) : std::string();
  if (commit.groups.empty()) return GoOn();
  context_.client.CommitAsync(std::move(commit), context_.executor,
                              [this](absl::StatusOr<kv::CommitResult> result) {
                                if (!result.ok()) return StartLater();
                                for (const kv::Verdict& verdict : result->verdicts)
                                  context_.metrics.requests_swept.Increment(verdict.applied);
                                GoOn();
                              });
}

void RequestSweepLoop::GoOn() {
  if (position_.empty()) return StartLater();
  many_ = true;
  context_.executor->PostAfter(kRequestSweepPause, [this] { Step(); });
}

}  // namespace escapement::master
