#include "services/master/sweeps/sweep_loop.h"

#include "common/base/key_codec.h"
#include "common/kv/group_parts.h"
#include "services/master/base/limits.h"

namespace escapement::master {

SweptRows SweptByTime(
    kv::ColumnFamily cf, absl::Duration retention,
    std::function<std::optional<std::pair<absl::Time, std::string>>(absl::string_view key)> read,
    std::string (*prefix)(absl::string_view tenant)) {
  SweptRows rows{.cf = cf, .keys_only = true};
  rows.delete_old = [cf, retention, read = std::move(read), prefix](
                        const kv::ScanResult& page, absl::Time now,
                        kv::Commit& commit) -> std::optional<std::string> {
    kv::Group& group = commit.groups.emplace_back();
    for (const kv::Entry& entry : page.entries) {
      const auto name = read(entry.key);
      if (name.has_value() && name->first >= now - retention)
        return PrefixEnd(prefix(name->second));
      group.mutations.push_back(kv::Delete(cf, entry.key));
    }
    return std::nullopt;
  };
  return rows;
}

void SweepLoop::StartLater() {
  executor_->PostAfter(every_, [this] { Start(); });
}

void SweepLoop::Step(size_t index, std::string position) {
  while (position.empty() && index < swept_.size() && swept_[index].idle && swept_[index].idle())
    ++index;
  if (index == swept_.size()) return StartLater();
  const SweptRows& rows = swept_[index];
  kv::ScanRequest scan;
  scan.cf = rows.cf;
  scan.begin = position.empty() ? rows.range.begin : std::move(position);
  scan.end = rows.range.end;
  scan.limit = kSweepRowsMax;
  scan.keys_only = rows.keys_only;
  client_.Scan(std::move(scan), executor_, [this, index](absl::StatusOr<kv::ScanResult> page) {
    if (!page.ok()) return StartLater();
    OnPage(index, *page);
  });
}

void SweepLoop::OnPage(size_t index, const kv::ScanResult& page) {
  if (page.entries.empty()) return Step(index + 1, {});
  const SweptRows& rows = swept_[index];
  kv::Commit commit;
  std::optional<std::string> next = rows.delete_old(page, client_.NowLow(), commit);
  if (!next.has_value() && page.more) next = KeyAfter(page.entries.back().key);
  std::erase_if(commit.groups, [](const kv::Group& group) { return group.mutations.empty(); });
  const auto go_on = [this, index, next = std::move(next)] {
    executor_->PostAfter(kSweepPause, [this, index, next] {
      next.has_value() ? Step(index, *next) : Step(index + 1, {});
    });
  };
  if (commit.groups.empty()) return go_on();
  std::vector<size_t> deletions;
  for (const kv::Group& group : commit.groups) deletions.push_back(group.mutations.size());
  client_.CommitAsync(std::move(commit), executor_,
                      [this, &rows, deletions = std::move(deletions),
                       go_on](const absl::StatusOr<kv::CommitResult>& result) {
                        OnCommitted(rows, deletions, result);
                        go_on();
                      });
}

void SweepLoop::OnCommitted(const SweptRows& rows, const std::vector<size_t>& deletions,
                            const absl::StatusOr<kv::CommitResult>& result) const {
  if (!result.ok() || rows.deleted == nullptr) return;
  for (size_t i = 0; i < deletions.size(); ++i) {
    if (result->verdicts[i].applied) rows.deleted->Increment(deletions[i]);
  }
}

}  // namespace escapement::master
