// KvStore: the one contract of durable state. Ordered byte keys in column families; every decision
// of the platform is one conditional group of one commit.
//
// Implementations: RocksKvStore (embedded), MemKvStore (simulation; forgets what was not synced),
// GrpcKvStore (client of the store service). tests/conformance holds the suite that all of them
// pass. Services do not call a KvStore directly but through KvClient (kv_client.h), which opens the
// session, numbers the commits, resends after unknown results and keeps the store's time.
//
// Threads: all methods may be called from any thread and never block on IO; callbacks run on a
// thread of the implementation, must be quick, and run exactly once (with an error when the store
// is destroyed first).
//
// Invariants:
//  - commit_seq is dense: 1, 2, 3 … one number for each commit of which at least one group applied.
//    A commit of which none applied answers with the sequence that was current when it was decided.
//  - Nothing that is not synced is visible to a read, a watch or an answer.
//  - What was answered survives kill -9 and power loss; groups are atomic.
//  - Keys of kMeta that begin with a zero byte are the store's own: no commit may touch them, no
//    scan shows them.

#ifndef COMMON_KV_KV_STORE_H_
#define COMMON_KV_KV_STORE_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/kv/column_family.h"
#include "common/kv/engine/store_pace.h"

namespace escapement::kv {

using CommitSeq = uint64_t;

// What must hold for a group (or, as a fence, for a whole commit) to be applied. Evaluated at the
// commit's place in the order, after the effects of the groups before it.
struct Condition {
  enum class Kind : uint8_t {
    kAbsent,          // the key has no value
    kPresent,         // the key has a value
    kValueEquals,     // the value is `value`
    kValuePrefix,     // the value starts with `value` (a lease's epoch)
    kUnchangedSince,  // no commit after `since` has touched the key; may fail without cause ("read
                      // again")
    kStampPassed,  // the 8 bytes (big-endian microseconds) at offset `number` of the value are <=
                   // store time; never true in the first lease-TTL after the store started
    kRangeCount,   // [key, value) holds exactly `number` keys
  };
  ColumnFamily cf = ColumnFamily::kMeta;
  std::string key = {};
  Kind kind = Kind::kPresent;
  std::string value = {};
  uint64_t number = 0;
  // For kUnchangedSince: the sequence. For kAbsent, kPresent, kValueEquals and kValuePrefix: if not
  // 0, the caller saw the condition hold at this sequence, and the store need not read the key if
  // it is unchanged since.
  CommitSeq since = 0;
};

struct Mutation {
  enum class Kind : uint8_t {
    kPut,
    kDelete,
    kDeleteRange,  // [key, value); allowed only in a group with a kRangeCount condition over the
                   // same range, over a claim's prefix in kInflight, or over a whole day of one
                   // shard in kDone
    kPutStamped,   // kPut, with store time + `stamp_add` written at offset `stamp_offset` as 8
                   // big-endian bytes
  };
  ColumnFamily cf = ColumnFamily::kMeta;
  Kind kind = Kind::kPut;
  std::string key = {};
  std::string value = {};  // for kDeleteRange the end key
  uint32_t stamp_offset = 0;
  absl::Duration stamp_add = absl::ZeroDuration();
};

// Applies as a whole or not at all.
struct Group {
  std::vector<Condition> conditions = {};
  std::vector<Mutation> mutations = {};
};

struct CommitRequest {
  uint64_t session = 0;  // from OpenSession
  uint64_t number = 0;   // 1, 2, 3 … of this session; at most kSessionWindow outstanding
  // Every fence condition must hold, or nothing of the commit applies and the status is
  // FAILED_PRECONDITION.
  std::vector<Condition> fence = {};
  std::vector<Group> groups = {};  // at most kGroupsMax
};

struct Verdict {
  static constexpr uint16_t kNone = 0xffff;
  bool applied = false;
  uint16_t failed_condition = kNone;  // index of the first one that did not hold
};

struct CommitResult {
  CommitSeq seq = 0;
  absl::Time store_time;
  std::vector<Verdict> verdicts;  // one for each group
  Pace pace = {};                 // when this was decided or, if it is answered again, later
};

struct Key {
  ColumnFamily cf = ColumnFamily::kMeta;
  std::string key = {};
};

struct GetResult {
  std::vector<std::optional<std::string>> values;  // in the order of the keys
  CommitSeq seq = 0;                               // the snapshot's
  absl::Time store_time;
};

// [begin, end) of keys.
struct KeyRange {
  std::string begin = {}, end = {};

  friend bool operator==(const KeyRange&, const KeyRange&) = default;
};

struct ScanRequest {
  ColumnFamily cf = ColumnFamily::kMeta;
  std::string begin = {};  // inclusive
  std::string end = {};    // exclusive; empty = to the end of the column family
  uint32_t limit = 1000;
  uint32_t bytes_max = 1 << 20;  // stops after the entry that reaches it
  bool reverse = false;          // from the end downwards
  bool keys_only = false;
  // Read on in these, as if they followed: ascending, disjoint and behind `end`, only the last may
  // be without an end; at most kScanRangesMax; forward only.
  std::vector<KeyRange> then = {};
};

struct Entry {
  std::string key = {};
  std::string value = {};
};

struct ScanResult {
  std::vector<Entry> entries;
  // The range holds further entries. With several: a limit was reached before the last one's end,
  // what is left may be empty.
  bool more = false;
  CommitSeq seq = 0;
  absl::Time store_time;
};

struct WatchRequest {
  ColumnFamily cf = ColumnFamily::kMeta;
  std::string begin = {};
  std::string end = {};  // exclusive; movable by Watch::MoveEnd; empty = all that follows
  // Commits after this one; too far back = lagged at once; see kWatchFromNow.
  CommitSeq from_seq = 0;
  uint64_t excluded_session = 0;  // commits of this session are left out
  // Further ranges, at most kWatchRangesMax: each begins behind the one before. An end beyond the
  // next one's begin counts as that.
  std::vector<KeyRange> then = {};
};

struct WatchedMutation {
  Mutation::Kind kind = Mutation::Kind::kPut;  // kPut, kDelete or kDeleteRange
  std::string key = {};
  std::string value = {};      // of a put if small (<= kWatchValueBytesMax); of a range its end
  bool value_omitted = false;  // the put's value was larger: read it
};

struct WatchBatch {
  CommitSeq seq = 0;
  std::vector<WatchedMutation> mutations;
  absl::Time store_time;
};

// An open watch; destroying it ends it (no call of the observer begins after that).
class Watch {
 public:
  virtual ~Watch() = default;
  // Moves the exclusive end of a range: 0 is the request's own, then come those of `then`.
  // Mutations committed before the call took effect may be missed beyond the old end: scan the
  // added part after the move.
  virtual void MoveEnd(size_t range, std::string end) = 0;
};

struct WatchObserver {
  std::function<void(WatchBatch)> on_batch;  // in commit order
  // At most once, last: rescan with a new watch already open.
  std::function<void(absl::Status)> on_lagged;
};

struct SessionInfo {
  uint64_t session = 0;
  uint64_t incarnation = 0;  // of the store's data; a restore makes a new one
  CommitSeq seq = 0;
  absl::Time store_time;
  Pace pace = {};
};

// What a client tells the store of its machine's wall clock.
struct HostClock {
  std::string boot_id = {};  // Clock::BootId
  absl::Time wall;
};

// The store's clock (store_clock.h) as it is now.
struct ClockState {
  absl::Time store_time;
  Pace pace = {};
  absl::Duration disagreement;  // the store's wall clock less store time
  bool held = false;            // emission is held
  absl::Duration held_for;      // since when; zero if it is not held
  bool synchronised = false;    // the kernel says so of the store's wall clock
  uint32_t hosts = 0;           // other machines whose clients have told their wall clocks lately
  uint32_t hosts_disagree = 0;  // those of them that disagree with the store's by more than 1 s
};

struct ClockCall {
  std::optional<HostClock> host = {};  // to be noted
  // An operator says that the store's wall clock is right: store time steps forward to it, or goes
  // at half pace until the wall clock has caught up.
  bool confirm = false;
};

// As WatchRequest::from_seq: commits that are decided after the call, with no look back.
inline constexpr CommitSeq kWatchFromNow = std::numeric_limits<CommitSeq>::max();

inline constexpr uint64_t kSessionWindow = 64;
inline constexpr size_t kGroupsMax = 20'000;
inline constexpr size_t kWatchValueBytesMax = 1024;
inline constexpr size_t kKeyBytesMax = 8 << 10;
inline constexpr size_t kValueBytesMax = 4 << 20;
inline constexpr size_t kCommitBytesMax = 32 << 20;  // all keys and values of one commit
inline constexpr size_t kMultiGetKeysMax = 20'000;
// Of all values that one read by keys answers: a message of the wire holds them.
inline constexpr size_t kMultiGetBytesMax = 48 << 20;
// A larger ScanRequest::bytes_max is cut to this.
inline constexpr uint32_t kScanBytesMax = 16 << 20;
inline constexpr size_t kScanRangesMax = 1000;
inline constexpr size_t kWatchRangesMax = 256;

class KvStore {
 public:
  template <typename T>
  using Callback = std::function<void(absl::StatusOr<T>)>;

  virtual ~KvStore() = default;

  // `seen` is the highest commit_seq (with its incarnation; 0 = none yet) that the client has been
  // given. FAILED_PRECONDITION if the store is behind it (data was lost) and was not told to accept
  // the loss.
  virtual void OpenSession(uint64_t seen_incarnation, CommitSeq seen,
                           Callback<SessionInfo> done) = 0;

  // INVALID_ARGUMENT: malformed, too many groups, a forbidden DeleteRange. FAILED_PRECONDITION: the
  // fence does not hold. ABORTED: unknown session, or a number outside its window (start a new
  // session; drop all leases). RESOURCE_EXHAUSTED: no room (disk full, queue full); nothing was
  // applied. Any other error: the result is unknown; resend the same request. A resend answers as
  // the first time.
  // A transport brings what was sent to one process of the store to that process or to none, as a
  // connection does: what was answered without a write is remembered by that process alone, and the
  // next one would decide a late copy anew.
  // `request` is shared so that a resend needs no copy; nobody changes it afterwards.
  virtual void Commit(std::shared_ptr<const CommitRequest> request,
                      Callback<CommitResult> done) = 0;
  void Commit(CommitRequest request, Callback<CommitResult> done) {
    Commit(std::make_shared<const CommitRequest>(std::move(request)), std::move(done));
  }

  // OUT_OF_RANGE: the values are more than kMultiGetBytesMax together; fewer keys are to be read.
  virtual void MultiGet(std::vector<Key> keys, Callback<GetResult> done) = 0;
  virtual void Scan(ScanRequest request, Callback<ScanResult> done) = 0;
  virtual std::unique_ptr<Watch> OpenWatch(WatchRequest request, WatchObserver observer) = 0;

  // Needs no session. The answer is the state after the call's effect.
  virtual void AskClock(ClockCall call, Callback<ClockState> done) = 0;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_KV_STORE_H_
