#include "common/kv/replica/append_window.h"

#include <utility>

#include "common/kv/replica/log_record.h"

namespace escapement::kv {

uint64_t AppendWindow::Add(std::shared_ptr<const std::string> data) {
  pending_.push_back(NextRow(PositionBefore(pending_.size()), term_.epoch, std::move(data)));
  return pending_.back().position.seq;
}

std::optional<AppendRequest> AppendWindow::NextToSend() {
  if (failed_ || sent_ == pending_.size()) return std::nullopt;
  AppendRequest request{term_, PositionBefore(sent_), {pending_[sent_]}};
  ++sent_;
  return request;
}

AppendWindow::Step AppendWindow::OnResult(const AppendResult& result) {
  switch (result.outcome) {
    case AppendResult::Outcome::kAcknowledged:
      // It proves the rows before it, whatever their own results were.
      Acknowledge(answered_ + 1);
      sent_ -= answered_ + 1;
      answered_ = 0;
      failed_ = conflict_ = false;
      break;
    case AppendResult::Outcome::kPresent:
      ++answered_;
      break;
    case AppendResult::Outcome::kDeposed:
      return Step::kDeposed;
    case AppendResult::Outcome::kConflict:
      conflict_ = true;
      [[fallthrough]];
    case AppendResult::Outcome::kNotApplied:
    case AppendResult::Outcome::kUnknown:
      failed_ = true;
      ++answered_;
      break;
  }
  return AfterAnswer();
}

AppendWindow::Step AppendWindow::AfterAnswer() {
  if (answered_ < sent_) return Step::kGoOn;  // further answers will come
  if (conflict_) return Step::kReadState;
  if (failed_) return Step::kSendAgain;
  // All pending rows are present and nothing else is to be sent: only a further row proves them.
  if (!pending_.empty() && sent_ == pending_.size())
    Add(std::make_shared<const std::string>(RecordWriter(RecordKind::kProof).Take()));
  return Step::kGoOn;
}

void AppendWindow::SendAgain() {
  sent_ = answered_ = 0;
  failed_ = conflict_ = false;
}

AppendWindow::Step AppendWindow::OnState(const LogState& state) {
  if (state.leader != term_) return Step::kDeposed;
  SendAgain();
  if (state.last == acknowledged_) return Step::kGoOn;
  for (size_t i = 0; i < pending_.size(); ++i) {
    if (pending_[i].position != state.last) continue;
    sent_ = answered_ = i + 1;  // these are present
    return AfterAnswer();
  }
  // The log has lost acknowledged rows. It must end before one of those that are kept.
  for (size_t kept = recent_.size(); kept > 0; --kept) {
    LogRow& row = recent_[kept - 1];
    if (row.position == state.last) {
      rows_lost_ += recent_.size() - kept;
      while (recent_.size() > kept) {
        recent_bytes_ -= recent_.back().data->size();
        pending_.push_front(std::move(recent_.back()));
        recent_.pop_back();
      }
      acknowledged_ = state.last;
      return Step::kGoOn;
    }
  }
  return Step::kLost;
}

void AppendWindow::Acknowledge(size_t count) {
  for (size_t i = 0; i < count; ++i) {
    recent_bytes_ += pending_.front().data->size();
    newly_acknowledged_.push_back(pending_.front());
    recent_.push_back(std::move(pending_.front()));
    pending_.pop_front();
  }
  acknowledged_ = recent_.back().position;
  while (recent_bytes_ > recent_bytes_max_ && recent_.size() > 1) {
    recent_bytes_ -= recent_.front().data->size();
    recent_.pop_front();
  }
}

std::vector<LogRow> AppendWindow::TakeAcknowledged() {
  return std::exchange(newly_acknowledged_, {});
}

}  // namespace escapement::kv
