// WaitingRow: a row of `waiting` in memory, with an explicit state.
//
// Only WaitingRows changes a row. This is the whole table of transitions; any other one is a bug
// and ends the process (CHECK).
//
//   state      meaning                                         in the queue
//   kQueued    may be granted when its turn comes              yes, at the time when it may go
//   kToJudge   waits long for its window; is judged now        yes, at its due time
//   kGranting  a grant of the commit that is being built, or   the part that is not granted
//              under way, takes from it
//   kActing    an action (park, skip, move …) waits for, or    no
//              is in, a commit
//   kReading   is being read again from the store              no
//
//   from                 by                    to
//   (not in memory)      Add                   kQueued or kToJudge
//   kQueued, kGranting   Grant                 kGranting
//   kGranting            SettleGrant           kQueued, or gone if nothing is left
//   kGranting, kQueued,  Ungrant               kQueued or kToJudge
//     kToJudge
//   kQueued, kToJudge    BeginAction           kActing
//   kActing              AbortAction           kQueued or kToJudge
//   kActing, kReading    Replace               kQueued or kToJudge
//   kToJudge             PassJudgement         kQueued
//   kQueued, kToJudge    BringUp               kToJudge
//   kQueued, kToJudge,   BeginReading          kReading
//     kActing
//   any but kGranting    Remove                (not in memory)
//
// Threads: one.

#ifndef SERVICES_TOKEN_MANAGER_WAITING_WAITING_ROW_H_
#define SERVICES_TOKEN_MANAGER_WAITING_WAITING_ROW_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "common/storage/waiting_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/token_manager/holding/grant_set.h"
#include "services/token_manager/turns/queued_slice.h"

namespace escapement::token_manager {

class WaitingRow {
 public:
  enum class State : uint8_t { kQueued, kToJudge, kGranting, kActing, kReading };

  // `count` events from index key.first on, the first `taken` of them granted already. `read_seq`:
  // the snapshot from which the row was read; 0 if it came by the watch or by an own commit.
  WaitingRow(const WaitingKey& key, std::shared_ptr<const RowSource> source, uint64_t count,
             uint64_t taken, kv::CommitSeq read_seq)
      : source_(std::move(source)),
        priority_(key.priority),
        due_(key.due_time),
        first_(key.first),
        count_(count),
        taken_(taken),
        read_seq_(read_seq) {}

  State state() const { return state_; }
  // The row belongs to a commit or is being read: it must not be judged or evicted now.
  bool busy() const {
    return state_ == State::kGranting || state_ == State::kActing || state_ == State::kReading;
  }

  const std::shared_ptr<const RowSource>& source() const { return source_; }
  uint8_t priority() const { return priority_; }
  absl::Time due() const { return due_; }
  uint64_t first() const { return first_; }  // index of the first event, granted or not
  uint64_t count() const { return count_; }  // events, granted or not
  uint64_t taken() const { return taken_; }  // granted events, from the first on
  uint64_t left() const { return count_ - taken_; }
  kv::CommitSeq read_seq() const { return read_seq_; }
  // The watch has reported another version of a busy row. Once the commit is answered, the row must
  // be read again.
  bool rewritten() const { return rewritten_; }

  // The row as it is in the store, or will be after the commit under way.
  storage::v1::EventRecord Record() const;
  // Its bytes in the store.
  std::string Bytes() const;

 private:
  friend class WaitingRows;

  std::shared_ptr<const RowSource> source_;
  State state_ = State::kQueued;
  uint8_t priority_;
  bool rewritten_ = false;
  bool judged_ = false;         // judged since BringUp, and still waits for its window
  bool finishes_late_ = false;  // its window has closed, and it keeps waiting without another one
  absl::Time due_;
  uint64_t first_;
  uint64_t count_;
  uint64_t taken_;
  kv::CommitSeq read_seq_;
  int64_t closes_micros_ = 0;  // its place in WaitingRows::closings_; 0: none
  std::string stored_ = {};    // its bytes if it was read again and has not changed since
};

// When a waiting row may go, as the queue has to know it.
//
// Pure.

// A row that waits for its window longer than this *waits long*.
inline constexpr absl::Duration kWaitsLong = absl::Seconds(60);
bool WaitsLong(const WaitingRow& row);

// The row's events that are not granted. They may be granted `grant_lead` ahead of the due time,
// but not ahead of their window or of their place in it.
QueuedSlice SliceOf(const std::string& key, const WaitingRow& row, absl::Duration grant_lead);
// The same for a row that waits long and is to be judged at its due time.
QueuedSlice JudgedSliceOf(const std::string& key, const WaitingRow& row, absl::Duration grant_lead);

// When the row's window closes, in microseconds, if the row is dropped or carried over then;
// otherwise 0.
int64_t ActsOnCloseMicros(const WaitingRow& row);

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_WAITING_WAITING_ROW_H_
