#include "services/token_manager/holding/report_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/key_codec.h"
#include "common/base/printable_text.h"

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
  if (busy_.empty()) return std::exchange(calls_, {});
  const auto kept = std::stable_partition(
      calls_.begin(), calls_.end(),
      [&busy = busy_](const Call& call) { return !busy.contains(call.policy_shard); });
  std::vector<Call> taken(std::make_move_iterator(calls_.begin()), std::make_move_iterator(kept));
  calls_.erase(calls_.begin(), kept);
  return taken;
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

ReportQueue::Scan ReportQueue::BeginScan() {
  scanning_ = true;
  return {.from = *end_, .number = ++scan_};
}

void ReportQueue::OnScanned(uint64_t number, kv::ScanResult result) {
  if (number != scan_) return;
  scanning_ = false;
  loaded_ = true;
  std::map<std::string, Report> arrived = std::exchange(arrived_, {});
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
}

void ReportQueue::OnScanFailed(uint64_t number) {
  if (number == scan_) DropScan();
}

namespace {

using storage::v1::AttemptRecord;
using storage::v1::GrantReportRecord;

constexpr size_t kReasonBytesMax = 1024;

}  // namespace

ReportedEnd ReportedEndOf(const GrantReportRecord::Entry& entry, int64_t now_micros) {
  ReportedEnd end{.attempts = entry.attempts(),
                  .dispatch_micros = entry.dispatch_time_micros(),
                  .time_micros = entry.time_micros() != 0 ? entry.time_micros() : now_micros,
                  .reason = std::string(CleanText(entry.reason(), kReasonBytesMax)),
                  .attempt = entry.attempt(),
                  .status = entry.status()};
  switch (entry.kind()) {
    case GrantReportRecord::SUCCEEDED:
    case GrantReportRecord::COMPLETED:
    case GrantReportRecord::RELEASED:
      end.outcome = storage::v1::OUTCOME_KIND_SUCCEEDED;
      end.delivered = true;
      end.attempt = AttemptRecord::ACCEPTED;
      end.output = entry.output();
      break;
    case GrantReportRecord::COMPLETION_FAILED:
    case GrantReportRecord::COMPLETION_FAILED_FINALLY:
      // The target accepted the event, but the work failed.
      end.delivered = true;
      end.attempt = AttemptRecord::FAILED;
      end.answer = entry.output();
      break;
    default:
      end.answer = entry.output();
      break;
  }
  return end;
}

AttemptRecord AttemptOf(const ReportedEnd& end, const HeldRange& range, uint32_t number) {
  AttemptRecord attempt;
  attempt.set_number(number);
  attempt.set_kind(end.attempt);
  if (end.attempt != AttemptRecord::ACCEPTED) {
    attempt.set_error(end.reason);
    attempt.set_answer(end.answer);
  }
  if (end.dispatch_micros != 0) {
    attempt.set_begin_micros(end.dispatch_micros);
    attempt.set_duration_micros(end.time_micros - end.dispatch_micros);
    attempt.set_status(end.status);
  } else if (range.dispatch_micros != 0) {
    attempt.set_begin_micros(range.dispatch_micros);
    attempt.set_duration_micros(range.delivered_micros - range.dispatch_micros);
    attempt.set_status(range.status);
  } else {
    attempt.set_begin_micros(range.delivered_micros);
  }
  return attempt;
}

}  // namespace escapement::token_manager
