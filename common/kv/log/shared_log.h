// SharedLog: the replicated log that the stores of one installation share. It orders what they
// commit, decides who leads, and keeps snapshots of the state. An existing engine keeps it: PgLog
// (PostgreSQL; with S3SnapshotLog the files of snapshots are in S3), or MemLog (simulation).
// docs/adr/0019 has the reasons and the proofs; tests/conformance/log has the suite that every
// implementation passes.
//
// Promises:
// - An append is a compare-and-swap on the log's end. It is acknowledged only if the log ended at
//   `after`, the term still led, and the rows survive the loss of whatever the engine's
//   configuration can survive.
// - So an acknowledged append proves the whole history before it, wherever that was read. Believe
//   nothing else: an engine that has crashed may show rows that it loses later.
// - After a Lead is acknowledged, no append of an older term is acknowledged.
// - No promise rests on a clock.
//
// How to write: read the state, Lead, Read up to LeadResult::last, append a record of the new
// leader, and answer clients once that is acknowledged. A leader with nothing to write appends an
// empty record now and then: others see the log's end move, and the leader learns that it still
// leads. AppendResult::Outcome says what to do after each other result.
//
// Threads: any thread may call any method; no method blocks on IO. Callbacks run on threads of the
// implementation and must be quick; a malformed call is answered before the method returns. Each
// callback runs exactly once, with an error if the log is destroyed first. Appends take effect in
// the order of the calls, and are answered in that order. The order of other calls is open.

#ifndef COMMON_KV_LOG_SHARED_LOG_H_
#define COMMON_KV_LOG_SHARED_LOG_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/kv/log/log_position.h"

namespace escapement::kv {

// The right to append: `owner` led since the log's `epoch`. Epochs grow by one with each Lead.
struct LogTerm {
  uint64_t epoch = 0;  // 0: no leader yet
  std::string owner;   // unique for each life of each process; 1 to kLogNameBytesMax bytes

  friend bool operator==(const LogTerm&, const LogTerm&) = default;
};

struct LogState {
  LogTerm leader;
  std::string address;  // where clients reach the leader
  LogPosition first;    // with sequence 0: where a log without snapshots begins
  LogPosition last;
};

struct LeadRequest {
  // A state that the caller has read. The term begins only if the same leader still stands there
  // and the log has not grown since. So a leader that lives is not deposed because of an old view.
  LogState seen;
  std::string owner;    // the new term's
  std::string address;  // at most kLogNameBytesMax bytes
};

struct LeadResult {
  LogTerm term;
  LogPosition first;
  LogPosition last;  // the first append of the term must come after this
};

struct AppendRequest {
  LogTerm term;
  LogPosition after;
  // At least one, each behind the one before (NextRow), with the term's epoch. All are appended, or
  // none.
  std::vector<LogRow> rows;
};

struct AppendResult {
  enum class Outcome : uint8_t {
    // The rows are in the log for good.
    kAcknowledged,
    // The same rows were there already: a former call of unknown result has appended them. They are
    // not proven to last. The next append that is acknowledged proves them.
    kPresent,
    // Another term leads (ReadState says which), or the epoch has gone back because the engine
    // lost it. This call has appended nothing; an earlier one of unknown result may have. Stop
    // leading and answer nothing.
    kDeposed,
    // The log does not end at `after`. It ends with other rows, or it is shorter because the engine
    // has lost some. Nothing was appended. Read the state. If the term still leads and
    // the log ends at a position of the caller's own history, append again from there. Otherwise
    // stop leading.
    kConflict,
    // Nothing was appended: no connection, no room, or another transaction was in the way. The same
    // append can be sent again. Appends that were sent behind this one have failed, too.
    kNotApplied,
    // The rows may or may not be in the log, or may still come. Send the same append again.
    kUnknown,
  };
  Outcome outcome = Outcome::kUnknown;
  absl::Status why = {};  // OK for kAcknowledged; otherwise a text for the log
};

struct ReadRequest {
  LogPosition after;  // the caller's own position
  uint32_t rows_max = 1000;
  // The read stops behind the row that reaches this size. At most kLogReadBytesMax.
  uint32_t bytes_max = 8 << 20;
};

struct ReadResult {
  std::vector<LogRow> rows;  // verified to follow on `after`; empty if the log ends there
  bool more = false;         // a limit was reached before the log's end
};

// A file of a snapshot is known by what is in it, so a file that two snapshots share travels once.
struct SnapshotFile {
  std::string hash;    // kSnapshotHashBytes bytes that follow from the file's bytes (SHA-256)
  uint64_t bytes = 0;  // it has SnapshotParts(bytes) parts

  friend bool operator==(const SnapshotFile&, const SnapshotFile&) = default;
};

struct Snapshot {
  LogPosition position;  // the state after this row
  std::vector<SnapshotFile> files;
  std::string details;  // the store's own facts: names of the files, store time …
};

struct SnapshotPart {
  SnapshotFile file;
  uint32_t index = 0;  // from 0
  std::string data;    // kSnapshotPartBytes; less in the last part
};

struct TrimResult {
  uint64_t rows = 0;  // removed by this call
  uint64_t snapshots = 0;
  uint64_t files = 0;
  bool more = false;  // the call has done its share; call again for the rest
};

// The last words of a replica about itself.
struct ReplicaReport {
  std::string replica;  // its name
  std::string details;  // the store's own facts
  absl::Duration age;   // since it was put, by the engine's clock
};

inline constexpr size_t kLogNameBytesMax = 255;
inline constexpr size_t kReplicaReportBytesMax = 64 << 10;
inline constexpr absl::Duration kReplicaReportAgeMax = absl::Hours(24);
inline constexpr size_t kLogRowBytesMax = 64 << 20;
inline constexpr size_t kLogAppendBytesMax = 64 << 20;  // all rows of one append together
inline constexpr size_t kLogAppendRowsMax = 1000;
inline constexpr size_t kLogReadBytesMax = 64 << 20;
inline constexpr size_t kSnapshotHashBytes = 32;
inline constexpr size_t kSnapshotPartBytes = 1 << 20;
inline constexpr size_t kSnapshotFilesMax = 10'000;
inline constexpr size_t kSnapshotDetailsBytesMax = 4 << 20;

inline constexpr uint64_t SnapshotParts(uint64_t bytes) {
  return (bytes + kSnapshotPartBytes - 1) / kSnapshotPartBytes;
}

// Errors that every method may have, besides its own:
// - INVALID_ARGUMENT: a malformed call.
// - UNAVAILABLE: the engine does not answer. A call with an effect may or may not have had it.
// - RESOURCE_EXHAUSTED: the engine has no room; no effect.
// - DATA_LOSS: a checksum does not match.
// - FAILED_PRECONDITION: the engine cannot serve, for example because its schema is missing.
class SharedLog {
 public:
  template <typename T>
  using Callback = std::function<void(absl::StatusOr<T>)>;

  virtual ~SharedLog() = default;

  // Reads what the engine shows. The state of a log without any Lead is all zeros.
  virtual void ReadState(Callback<LogState> done) = 0;

  // Begins the term seen.epoch + 1, and ends what the former leader has begun and not ended. The
  // first Lead of all makes the log. ABORTED if the state is not as seen: go on observing. After
  // UNAVAILABLE read the state: it shows `owner` if the term has begun.
  virtual void Lead(LeadRequest request, Callback<LeadResult> done) = 0;

  // Several appends may be under way, the second one `after` the last row of the first.
  virtual void Append(AppendRequest request, std::function<void(AppendResult)> done) = 0;

  // Errors:
  // - OUT_OF_RANGE: the log has been trimmed beyond `after`. Begin with a snapshot.
  // - ABORTED: the log has another history than `after`, or ends before it. The caller has applied
  //   rows that the engine has lost. Begin with a snapshot, and keep the former state if any of
  //   these rows may have been acknowledged.
  virtual void Read(ReadRequest request, Callback<ReadResult> done) = 0;

  // Anybody may upload a snapshot. First the parts of its files, in any order, several at a time;
  // the same part may be put twice. The files that are not whole yet:
  virtual void MissingFiles(std::vector<SnapshotFile> files,
                            Callback<std::vector<SnapshotFile>> done) = 0;
  // ABORTED if a trim has just removed the file: begin again with MissingFiles.
  virtual void PutPart(SnapshotPart part, std::function<void(absl::Status)> done) = 0;
  // Publishes the snapshot. ABORTED if its position is not in the log (the caller's history is
  // another one, or the log was trimmed beyond it) or a file is not whole.
  virtual void PutSnapshot(Snapshot snapshot, std::function<void(absl::Status)> done) = 0;

  // Only whole ones, the newest first.
  virtual void ListSnapshots(Callback<std::vector<Snapshot>> done) = 0;
  // NOT_FOUND if the file has been trimmed. Check the file's hash when all parts are there: not
  // every implementation has a checksum of each part.
  virtual void ReadPart(SnapshotFile file, uint32_t index, Callback<std::string> done) = 0;

  // Removes all snapshots but the newest `snapshots_kept` (at least 1), rows that no kept snapshot
  // needs, and files that no snapshot has, also those of an upload that is not finished. Without a
  // snapshot it removes no row. Anybody may call it.
  virtual void Trim(uint32_t snapshots_kept, Callback<TrimResult> done) = 0;

  // Notes what a replica says of itself, for people: nothing that the log promises rests on it, and
  // a crash of the engine may lose it. `replica` has 1 to kLogNameBytesMax bytes. It replaces the
  // replica's last report.
  virtual void PutReport(std::string replica, std::string details,
                         std::function<void(absl::Status)> done) = 0;
  // By name. Reports older than kReplicaReportAgeMax are left out, and removed some time.
  virtual void ListReports(Callback<std::vector<ReplicaReport>> done) = 0;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_LOG_SHARED_LOG_H_
