#include "services/token_manager/holding/report_queue.h"

#include <iterator>
#include <utility>

#include "common/base/key_codec.h"

namespace escapement::token_manager {

void ReportQueue::Add(const std::string& key, Report report) {
  if (end_.has_value() && key >= *end_) {
    if (!scanning_) return;
    arrived_.insert_or_assign(key, std::move(report));
    if (arrived_.size() <= rows_max_) return;
    // A later scan reads them with the others.
    arrived_.clear();
    scanning_ = false;
    ++scan_;
    return;
  }
  rows_.insert_or_assign(key, std::move(report));
  if (rows_.size() <= 2 * rows_max_) return;
  const auto first_dropped = std::next(rows_.begin(), static_cast<ptrdiff_t>(rows_max_));
  end_ = first_dropped->first;
  rows_.erase(first_dropped, rows_.end());
  arrived_.clear();
  scanning_ = false;
  ++scan_;
}

ReportQueue::Scan ReportQueue::BeginScan() {
  scanning_ = true;
  return {.from = *end_, .number = ++scan_};
}

bool ReportQueue::OnScanned(uint64_t number, kv::ScanResult result) {
  if (number != scan_ || !scanning_) return false;
  scanning_ = false;
  loaded_ = true;
  std::map<std::string, Report> arrived = std::move(arrived_);
  arrived_.clear();
  if (!result.more) {
    end_.reset();
  } else if (!result.entries.empty()) {
    end_ = KeyAfter(result.entries.back().key);
  }
  for (kv::Entry& entry : result.entries) {
    rows_.insert_or_assign(std::move(entry.key),
                           Report{.value = std::move(entry.value), .read_seq = result.seq});
  }
  for (auto& [key, report] : arrived) Add(key, std::move(report));
  return true;
}

void ReportQueue::OnScanFailed(uint64_t number) {
  if (number != scan_) return;
  arrived_.clear();
  scanning_ = false;
}

}  // namespace escapement::token_manager
