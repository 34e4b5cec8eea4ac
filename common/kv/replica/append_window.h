// AppendWindow: a leader's rows that are not acknowledged yet, and what to do about each result of
// an append. It is pure; LeaderLog makes the calls.
//
// Each append has one row. Several may be under way. After a failure it waits until all of them are
// answered, and then sends the same appends again:
// - An append of unknown result may be in the log already. Sent again, it is acknowledged or
//   present.
// - A present row is believed only after a further append is acknowledged (SharedLog). If no other
//   row follows, the window adds a proof.
// - After a conflict it asks for the log's state. If the term still leads and the log ends inside
//   the rows that this leader has written, it goes on from there. So if the engine has lost rows
//   that were acknowledged, they are appended again from the latest rows, which are kept for that.
//
// Threads: one at a time.

#ifndef COMMON_KV_REPLICA_APPEND_WINDOW_H_
#define COMMON_KV_REPLICA_APPEND_WINDOW_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/kv/log/shared_log.h"

namespace escapement::kv {

class AppendWindow {
 public:
  // The log ends at `last`. Acknowledged rows are kept up to `recent_bytes_max` bytes.
  AppendWindow(LogTerm term, LogPosition last, size_t recent_bytes_max)
      : term_(std::move(term)), acknowledged_(last), recent_bytes_max_(recent_bytes_max) {}

  // Adds a row behind all others, and returns its sequence.
  uint64_t Add(std::shared_ptr<const std::string> data);

  // The next append to send, if one may be sent now.
  std::optional<AppendRequest> NextToSend();

  enum class Step : uint8_t {
    kGoOn,       // send what NextToSend gives
    kSendAgain,  // wait a little, then call SendAgain
    kReadState,  // read the log's state, then call OnState
    kDeposed,    // another term leads: answer nothing any more
    kLost,       // rows are missing that cannot be appended again: refuse to serve
  };
  // Takes the results in the order of the appends.
  Step OnResult(const AppendResult& result);
  void SendAgain();
  Step OnState(const LogState& state);

  // Rows that have become acknowledged since the last call, in order. A row that was lost and
  // appended again comes again.
  std::vector<LogRow> TakeAcknowledged();

  // Acknowledged rows that the engine had lost, and that were appended again, since the start.
  uint64_t rows_lost() const { return rows_lost_; }

 private:
  const LogPosition& PositionBefore(size_t pending) const {
    return pending == 0 ? acknowledged_ : pending_[pending - 1].position;
  }
  Step AfterAnswer();
  void Acknowledge(size_t count);

  const LogTerm term_;
  LogPosition acknowledged_;    // the last acknowledged row
  std::deque<LogRow> pending_;  // behind it
  // In this round pending_[0, sent_) were sent, and pending_[0, answered_) of them are answered.
  size_t sent_ = 0;
  size_t answered_ = 0;
  bool failed_ = false;    // an answer of this round was a failure: send nothing more
  bool conflict_ = false;  // one of them was a conflict
  std::vector<LogRow> newly_acknowledged_;
  const size_t recent_bytes_max_;
  size_t recent_bytes_ = 0;
  std::deque<LogRow> recent_;  // acknowledged rows, the last at acknowledged_
  uint64_t rows_lost_ = 0;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_REPLICA_APPEND_WINDOW_H_
