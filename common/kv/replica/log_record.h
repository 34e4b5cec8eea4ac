// The log of a replicated store: what one row's bytes mean (RecordWriter, ApplyRecord), and how far
// a replica has applied the rows (LogPlace).

#ifndef COMMON_KV_REPLICA_LOG_RECORD_H_
#define COMMON_KV_REPLICA_LOG_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/kv/engine/overlay.h"
#include "common/kv/log/log_position.h"

namespace escapement::kv {

// The rows of a replicated store's log: what one row's bytes mean.
//
// Everything that must survive a takeover (sessions, first answers, sequence, store time,
// incarnation) is in the store's key space. So a row is a list of writes, and needs nothing else.
//
// The form is stored: it must stay readable. A row is a kind (1 byte), then its writes:
//
//   1 put           family(1) bytes(4) key bytes(4) value
//   2 delete        family(1) bytes(4) key
//   3 delete range  family(1) bytes(4) begin bytes(4) end
//
// Integers are big-endian. The log's chain is the checksum.
//
// Threads: plain values, one thread at a time.

enum class RecordKind : uint8_t {
  kLeader = 1,  // the first row of a term, without writes
  kBatch = 2,
  // Proves the rows before it, whose appends had unknown results. Without writes.
  kProof = 3,
  // The last batch of a leader that gives up its term. It answers nothing after this row, so a
  // follower may lead at once.
  kHandover = 4,
  // The log's first row, if a store was moved into it: the state before it is in a snapshot of this
  // row. Its writes name the last commit of that state.
  kMovedIn = 5,
  // The log's last row: its store has moved out, so no replica leads any more. Without writes.
  kMovedOut = 6,
};

// Collects one row.
class RecordWriter final : public WriteSink {
 public:
  explicit RecordWriter(RecordKind kind) : bytes_(1, static_cast<char>(kind)) {}

  void Put(ColumnFamily cf, absl::string_view key, absl::string_view value) override;
  void Delete(ColumnFamily cf, absl::string_view key) override;
  void DeleteRange(ColumnFamily cf, absl::string_view begin, absl::string_view end) override;

  std::string Take() { return std::move(bytes_); }

 private:
  void Add(char operation, ColumnFamily cf, absl::string_view key);
  void AddBytes(absl::string_view bytes);
  std::string bytes_;
};

// FAILED_PRECONDITION if this program does not know the kind: a newer one has written it.
absl::Status ReadRecordKind(absl::string_view record, RecordKind& kind);

// Writes what the row says to `sink`. Errors as ReadRecordKind, and DATA_LOSS if the row is
// malformed; then `sink` may have received a part of it.
absl::Status ApplyRecord(absl::string_view record, WriteSink& sink);

// LogPlace: how far a replica's copy of the state has applied the log. The copy keeps it under
// kLogPlaceKey, in the same write as the effects of the row.
//
// It also keeps what the log must never lack: a row that was read may have been lost by the engine
// since, but a row that was acknowledged may have been answered to clients. A store has at most two
// unacknowledged batches in the log. So when a batch is read, all rows before the batch that
// precedes it have been acknowledged.
//
// The form is stored: seq(8) chain(8) epoch(8) kind(1) log bytes(8) genesis(8) proven seq(8)
// chain(8) before seq(8) chain(8), big-endian. Older copies and the details of snapshots have the
// first kLogPlaceBasicBytes only; then the rest is zero until the copy has followed the log.
//
// Pure.
struct LogPlace {
  LogPosition position;
  uint64_t epoch = 0;                     // the epoch of the last row; 0 without a row
  RecordKind kind = RecordKind::kLeader;  // the last row's
  uint64_t log_bytes = 0;                 // bytes of all rows up to this one
  uint64_t genesis = 0;     // the chain of the log's row 0, which names the log; 0: not known
  LogPosition proven = {};  // the last row known to have been acknowledged
  LogPosition before = {};  // the row before the last one that is not a proof

  friend bool operator==(const LogPlace&, const LogPlace&) = default;
};

inline constexpr size_t kLogPlaceBasicBytes = 33;
std::string EncodeLogPlace(const LogPlace& place);
absl::StatusOr<LogPlace> DecodeLogPlace(absl::string_view bytes);

// The place behind `row`, which follows on `before`. Errors as ReadRecordKind.
absl::StatusOr<LogPlace> PlaceBehind(const LogPlace& before, const LogRow& row);

}  // namespace escapement::kv

#endif  // COMMON_KV_REPLICA_LOG_RECORD_H_
