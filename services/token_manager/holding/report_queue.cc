#include "services/token_manager/holding/report_queue.h"

#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "common/base/key_codec.h"

namespace escapement::token_manager {

bool CompletionInbox::Add(Call call) {
  absl::MutexLock lock(&mutex_);  // `call` is destroyed after it
  if (closed_) return false;
  const bool tell = !told_ && !busy_.contains(call.policy_shard);
  calls_.push_back(std::move(call));
  told_ |= tell;
  return tell;
}

std::vector<CompletionInbox::Call> CompletionInbox::Take() {
  absl::MutexLock lock(&mutex_);
  told_ = false;
  return std::exchange(calls_, {});
}

void CompletionInbox::SetBusy(std::set<uint16_t> policy_shards) {
  absl::MutexLock lock(&mutex_);
  busy_.swap(policy_shards);
}

void CompletionInbox::Close() {
  std::vector<Call> dropped;  // destroyed without the lock
  absl::MutexLock lock(&mutex_);
  closed_ = true;
  dropped = std::exchange(calls_, {});
}

ReportQueue::ParsedReport::ParsedReport(const std::string& value)
    : record(google::protobuf::Arena::CreateMessage<storage::v1::GrantReportRecord>(&arena)),
      broken(!record->ParseFromString(value)),
      news(!broken && absl::c_all_of(record->entries(), [](const auto& entry) {
        return entry.kind() == storage::v1::GrantReportRecord::DELIVERED;
      })) {
  if (broken) record->Clear();
}

const ReportQueue::ParsedReport& ReportQueue::Report::Parsed() {
  if (parsed == nullptr) parsed = std::make_unique<ParsedReport>(value);
  return *parsed;
}

void ReportQueue::Add(const std::string& key, Report report) {
  if (end_.has_value() && key >= *end_) {
    if (!scanning_) return;
    arrived_.insert_or_assign(key, std::move(report));
    if (arrived_.size() > rows_max_) DropScan();
    return;
  }
  rows_.insert_or_assign(key, std::move(report));
  if (rows_.size() <= 2 * rows_max_) return;
  const auto first_dropped = std::next(rows_.begin(), static_cast<ptrdiff_t>(rows_max_));
  end_ = first_dropped->first;
  rows_.erase(first_dropped, rows_.end());
  DropScan();
}

void ReportQueue::DropScan() {
  arrived_.clear();
  scanning_ = false;
  ++scan_;
}

std::pair<std::string, uint64_t> ReportQueue::BeginScan() {
  scanning_ = true;
  return {*end_, ++scan_};
}

void ReportQueue::OnScanned(uint64_t number, absl::StatusOr<kv::ScanResult> result) {
  if (number != scan_) return;
  if (!result.ok()) return DropScan();
  scanning_ = false;
  loaded_ = true;
  std::map<std::string, Report> arrived = std::exchange(arrived_, {});
  if (!result->more) {
    end_.reset();
  } else if (!result->entries.empty()) {
    end_ = KeyAfter(result->entries.back().key);
  }
  for (kv::Entry& entry : result->entries) {
    rows_.insert_or_assign(std::move(entry.key),
                           Report{.value = std::move(entry.value), .read_seq = result->seq});
  }
  for (auto& [key, report] : arrived) Add(key, std::move(report));
}

}  // namespace escapement::token_manager
