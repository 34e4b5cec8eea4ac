#include "common/kv/log/memory/mem_log_state.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace escapement::kv {

using Outcome = AppendResult::Outcome;

bool MemLogState::Has(const LogPosition& position) const {
  const auto row = rows_.find(position.seq);
  return row != rows_.end() && row->second.position == position;
}

absl::StatusOr<LeadResult> MemLogState::Lead(const LeadRequest& request, uint64_t genesis) {
  const LogState& seen = request.seen;
  if (seen.leader != state_.leader || seen.last != state_.last)
    return absl::AbortedError("the log has another leader, or has grown, since it was read");
  if (state_.leader.epoch == 0) {
    state_.first = state_.last = {0, genesis};
    rows_[0] = {state_.first, 0, std::make_shared<const std::string>()};
  }
  state_.leader = {state_.leader.epoch + 1, request.owner};
  state_.address = request.address;
  return LeadResult{state_.leader, state_.first, state_.last};
}

AppendResult MemLogState::Append(const AppendRequest& request) {
  if (request.term != state_.leader) {
    return {Outcome::kDeposed, absl::FailedPreconditionError(
                                   absl::StrCat("epoch ", state_.leader.epoch, " leads the log"))};
  }
  if (Has(request.rows.back().position))
    return {Outcome::kPresent, absl::AlreadyExistsError("the rows are there")};
  if (request.after != state_.last) {
    return {Outcome::kConflict, absl::AbortedError(absl::StrCat("the log ends at ", state_.last.seq,
                                                                ", and not at the history before ",
                                                                request.after.seq + 1))};
  }
  for (const LogRow& row : request.rows) rows_[row.position.seq] = row;
  state_.last = request.rows.back().position;
  return {Outcome::kAcknowledged};
}

absl::StatusOr<ReadResult> MemLogState::Read(const ReadRequest& request) const {
  if (!rows_.empty() && request.after.seq < rows_.begin()->first)
    return absl::OutOfRangeError(absl::StrCat("the log begins at row ", rows_.begin()->first));
  if (!Has(request.after)) {
    return absl::AbortedError(absl::StrCat("the log does not have the history up to row ",
                                           request.after.seq, " that was read before"));
  }
  ReadResult result;
  size_t bytes = 0;
  for (auto row = rows_.upper_bound(request.after.seq); row != rows_.end() && !result.more; ++row) {
    result.rows.push_back(row->second);
    bytes += row->second.data->size();
    result.more = result.rows.size() >= request.rows_max || bytes >= request.bytes_max;
  }
  if (!FollowsOn(request.after, result.rows))
    return absl::DataLossError("a row of the log is damaged");
  return result;
}

bool MemLogState::Whole(const SnapshotFile& file) const {
  const auto parts = files_.find(file.hash);
  return (parts == files_.end() ? 0 : parts->second.size()) == SnapshotParts(file.bytes);
}

std::vector<SnapshotFile> MemLogState::MissingFiles(const std::vector<SnapshotFile>& files) const {
  std::vector<SnapshotFile> missing;
  for (const SnapshotFile& file : files) {
    if (!Whole(file)) missing.push_back(file);
  }
  return missing;
}

void MemLogState::PutPart(const SnapshotPart& part) {
  files_[part.file.hash].emplace(part.index, part.data);
}

absl::Status MemLogState::PutSnapshot(const Snapshot& snapshot) {
  if (!Has(snapshot.position))
    return absl::AbortedError("the snapshot's position is not in the log");
  if (snapshots_.contains(snapshot.position.seq)) return absl::OkStatus();
  if (!MissingFiles(snapshot.files).empty())
    return absl::AbortedError("parts of the snapshot's files are missing");
  snapshots_.emplace(snapshot.position.seq, snapshot);
  return absl::OkStatus();
}

std::vector<Snapshot> MemLogState::ListSnapshots() const {
  std::vector<Snapshot> newest_first;
  for (auto entry = snapshots_.rbegin(); entry != snapshots_.rend(); ++entry)
    newest_first.push_back(entry->second);
  return newest_first;
}

absl::StatusOr<std::string> MemLogState::ReadPart(const SnapshotFile& file, uint32_t index) const {
  const auto parts = files_.find(file.hash);
  if (parts == files_.end() || !parts->second.contains(index))
    return absl::NotFoundError("the log has no such part");
  return parts->second.at(index);
}

TrimResult MemLogState::Trim(uint32_t snapshots_kept) {
  TrimResult result;
  for (; snapshots_.size() > snapshots_kept; ++result.snapshots)
    snapshots_.erase(snapshots_.begin());
  std::set<std::string> used;
  for (const auto& [seq, snapshot] : snapshots_) {
    for (const SnapshotFile& file : snapshot.files) used.insert(file.hash);
  }
  result.files =
      std::erase_if(files_, [&](const auto& file) { return !used.contains(file.first); });
  if (snapshots_.empty()) return result;
  const uint64_t oldest = snapshots_.begin()->first;
  result.rows = std::erase_if(rows_, [&](const auto& row) { return row.first < oldest; });
  return result;
}

void MemLogState::PutReport(const std::string& replica, const std::string& details,
                            absl::Duration now) {
  reports_[replica] = {details, now};
}

std::vector<ReplicaReport> MemLogState::ListReports(absl::Duration now) const {
  std::vector<ReplicaReport> reports;
  for (const auto& [replica, report] : reports_) {
    if (now - report.put <= kReplicaReportAgeMax)
      reports.push_back({replica, report.details, now - report.put});
  }
  return reports;
}

}  // namespace escapement::kv
