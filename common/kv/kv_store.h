// KvStore: the contract of all durable state. It holds ordered byte keys in column families. Every
// decision of the platform is one conditional group of one commit.
//
// Implementations: RocksKvStore (embedded), MemKvStore (simulation; a crash loses unsynced
// commits), GrpcKvStore (client of the store service). tests/conformance has the suite that all of
// them pass. Services do not call a KvStore directly. They use KvClient (client/kv_client.h), which
// opens the session, numbers commits, resends them after unknown results and tracks the store's
// time.
//
// Threads: any thread may call any method; no method blocks on IO. Callbacks run on a thread of the
// implementation and must be quick. Each runs exactly once, with an error if the store is destroyed
// first.
//
// Invariants:
// - Commit sequences are dense: 1, 2, 3 …, one number for each commit of which at least one group
//   applied. If no group applied, the answer has the sequence that was current at the decision.
// - Reads, watches and answers show only synced state.
// - An answered commit survives kill -9 and power loss. A group applies as a whole or not at all.
// - Keys of kMeta that begin with a zero byte belong to the store: commits must not touch them, and
//   scans do not show them.

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
#include "common/kv/layout.h"
#include "common/kv/store_pace.h"

namespace escapement::kv {

using CommitSeq = uint64_t;

// Must hold for a group to apply or, as a fence, for the whole commit. The store evaluates it at
// the commit's place in the order, after the effects of the groups before it.
struct Condition {
  enum class Kind : uint8_t {
    kAbsent,          // the key has no value
    kPresent,         // the key has a value
    kValueEquals,     // the value is `value`
    kValuePrefix,     // the value starts with `value` (a lease's epoch)
    kUnchangedSince,  // no commit after `since` touched the key; may fail without cause, which
                      // means "read again"
    kStampPassed,  // the 8 bytes at offset `number` of the value (big-endian microseconds) are <=
                   // store time; never true in the first lease TTL after the store started
    kRangeCount,   // [key, value) holds exactly `number` keys
    kTimeBefore,   // store time is before `number`, microseconds since 1970; it has no key
  };
  ColumnFamily cf = ColumnFamily::kMeta;
  std::string key = {};
  Kind kind = Kind::kPresent;
  std::string value = {};
  uint64_t number = 0;
  // For kUnchangedSince: the sequence. For kAbsent, kPresent, kValueEquals and kValuePrefix: if not
  // 0, the caller saw the condition hold at this sequence. The store then need not read the key if
  // it is unchanged since.
  CommitSeq since = 0;
};

struct Mutation {
  enum class Kind : uint8_t {
    kPut,
    kDelete,
    kDeleteRange,  // deletes [key, value). Allowed with a kRangeCount condition
                   // over the same range, inside one claim prefix of kInflight, or over a whole day
                   // of one shard in kDone
    kPutStamped,   // kPut that writes store time + `stamp_add` at offset `stamp_offset`, as 8
                   // big-endian bytes
  };
  ColumnFamily cf = ColumnFamily::kMeta;
  Kind kind = Kind::kPut;
  std::string key = {};
  std::string value = {};  // the end key for kDeleteRange
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
  uint64_t number = 0;   // 1, 2, 3 … in this session; at most kSessionWindow commits may be
                         // outstanding
  // If any of these conditions does not hold, nothing of the commit applies and the answer is
  // FAILED_PRECONDITION.
  std::vector<Condition> fence = {};
  std::vector<Group> groups = {};  // at most kGroupsMax
  // KvClient::NowLow when the commit was numbered; InfinitePast: unknown. A store that does not
  // know how old its clock's record is decides no commit before this store time
  // (StoreClock::AdvanceTo).
  absl::Time now_low = absl::InfinitePast();
};

struct Verdict {
  static constexpr uint16_t kNone = 0xffff;
  bool applied = false;
  uint16_t failed_condition = kNone;  // index of the first condition that did not hold
};

struct CommitResult {
  CommitSeq seq = 0;
  absl::Time store_time;
  std::vector<Verdict> verdicts;  // one for each group
  Pace pace = {};                 // at the decision, or later if this is a repeated answer
};

struct Key {
  ColumnFamily cf = ColumnFamily::kMeta;
  std::string key = {};
};

struct GetResult {
  std::vector<std::optional<std::string>> values;  // in the order of the keys
  CommitSeq seq = 0;                               // sequence of the snapshot that was read
  absl::Time store_time;
};

// The keys of [begin, end).
struct KeyRange {
  std::string begin = {}, end = {};

  friend bool operator==(const KeyRange&, const KeyRange&) = default;
};

struct ScanRequest {
  ColumnFamily cf = ColumnFamily::kMeta;
  std::string begin = {};  // inclusive
  std::string end = {};    // exclusive; empty = to the end of the column family
  uint32_t limit = 1000;
  uint32_t bytes_max = 1 << 20;  // the scan stops after the entry that reaches this size
  bool reverse = false;          // true: from the end downwards
  bool keys_only = false;
  // Further ranges, read after the first as one sequence. They must be ascending, disjoint and
  // behind `end`; only the last may have an empty end. At most kScanRangesMax; forward scans only.
  std::vector<KeyRange> then = {};
};

struct Entry {
  std::string key = {};
  std::string value = {};
};

struct ScanResult {
  std::vector<Entry> entries;
  // True if the range has further entries. With several ranges: true if a limit was reached before
  // the end of the last one, even if the rest is empty.
  bool more = false;
  CommitSeq seq = 0;
  absl::Time store_time;
};

struct WatchRequest {
  ColumnFamily cf = ColumnFamily::kMeta;
  std::string begin = {};
  std::string end = {};  // exclusive; Watch::MoveEnd moves it; empty = no end
  // The watch delivers commits after this sequence, or after the call for kWatchFromNow. If the
  // store no longer keeps those commits, the watch is lagged at once.
  CommitSeq from_seq = 0;
  uint64_t excluded_session = 0;  // the watch leaves out commits of this session
  // Further ranges, at most kWatchRangesMax. Each begins behind the begin of the one before. An end
  // beyond the next range's begin counts as that begin.
  std::vector<KeyRange> then = {};
};

struct WatchedMutation {
  Mutation::Kind kind = Mutation::Kind::kPut;  // kPut, kDelete or kDeleteRange
  std::string key = {};
  std::string value = {};  // the value of a put, if at most kWatchValueBytesMax bytes; the end of a
                           // deleted range
  bool value_omitted = false;  // the put's value was larger: read the key
};

struct WatchBatch {
  CommitSeq seq = 0;
  std::vector<WatchedMutation> mutations;
  absl::Time store_time;
};

// An open watch. Destroying it ends it: no call of the observer begins afterwards.
class Watch {
 public:
  virtual ~Watch() = default;
  // Moves the exclusive end of a range: 0 is the request's first range, 1 is then[0] and so on. The
  // watch may miss mutations beyond the old end that were committed before the call took effect. So
  // scan the added part after the move.
  virtual void MoveEnd(size_t range, std::string end) = 0;
};

struct WatchObserver {
  std::function<void(WatchBatch)> on_batch;  // in commit order
  // Called at most once, as the last call. Open a new watch first, then rescan.
  std::function<void(absl::Status)> on_lagged;
};

struct SessionInfo {
  uint64_t session = 0;
  uint64_t incarnation = 0;  // generation of the store's data; a restore begins a new one
  CommitSeq seq = 0;
  absl::Time store_time;
  Pace pace = {};
};

// The wall clock of a client's machine.
struct HostClock {
  std::string boot_id = {};  // Clock::BootId
  absl::Time wall;
};

// The present state of the store's clock (engine/store_clock.h).
struct ClockState {
  absl::Time store_time;
  Pace pace = {};
  absl::Duration disagreement;  // the store's wall clock minus store time
  bool held = false;            // true: emitters hold back
  absl::Duration held_for;      // since the hold began; zero without a hold
  bool synchronised = false;    // the kernel says that the store's wall clock is synchronised
  uint32_t hosts = 0;           // other machines whose clients reported their wall clocks lately
  uint32_t hosts_disagree = 0;  // those of them that disagree with the store's wall clock by more
                                // than 1 s
};

struct ClockCall {
  std::optional<HostClock> host = {};  // recorded, if present
  // True: an operator says that the store's wall clock is right. Store time then steps forward to
  // it, or goes at half pace until the wall clock has caught up.
  bool confirm = false;
};

// For WatchRequest::from_seq: only commits that are decided after the call.
inline constexpr CommitSeq kWatchFromNow = std::numeric_limits<CommitSeq>::max();

inline constexpr uint64_t kSessionWindow = 64;
inline constexpr size_t kGroupsMax = 20'000;
inline constexpr size_t kWatchValueBytesMax = 1024;
inline constexpr size_t kKeyBytesMax = 8 << 10;
inline constexpr size_t kValueBytesMax = 4 << 20;
inline constexpr size_t kCommitBytesMax = 32 << 20;  // all keys and values of one commit together
inline constexpr size_t kMultiGetKeysMax = 20'000;
// All values of one MultiGet together; they must fit into one message of the wire.
inline constexpr size_t kMultiGetBytesMax = 48 << 20;
// A larger ScanRequest::bytes_max is reduced to this.
inline constexpr uint32_t kScanBytesMax = 16 << 20;
inline constexpr size_t kScanRangesMax = 1000;
inline constexpr size_t kWatchRangesMax = 256;

class KvStore {
 public:
  template <typename T>
  using Callback = std::function<void(absl::StatusOr<T>)>;

  virtual ~KvStore() = default;

  // `seen` is the highest commit sequence that the client has received, `seen_incarnation` the
  // incarnation it belongs to; 0 if none yet. FAILED_PRECONDITION if the store is behind `seen` (it
  // lost data) and was not started with the flag that accepts the loss.
  virtual void OpenSession(uint64_t seen_incarnation, CommitSeq seen,
                           Callback<SessionInfo> done) = 0;

  // Errors:
  // - INVALID_ARGUMENT: malformed, too many groups, or a forbidden DeleteRange.
  // - FAILED_PRECONDITION: the fence does not hold.
  // - ABORTED: unknown session, or a number outside its window. Open a new session and drop all
  //   leases.
  // - RESOURCE_EXHAUSTED: the disk or the queue is full; nothing was applied.
  // - Any other error: the result is unknown. Send the same request again; it is answered as the
  //   first time.
  //
  // A transport must deliver a request to one process of the store or to none, as a connection
  // does. Only the process that answered a commit without writes remembers that answer; another
  // process would decide a late copy a second time.
  //
  // `request` is shared so that a resend needs no copy; nobody may change it after the call.
  virtual void Commit(std::shared_ptr<const CommitRequest> request,
                      Callback<CommitResult> done) = 0;
  void Commit(CommitRequest request, Callback<CommitResult> done) {
    Commit(std::make_shared<const CommitRequest>(std::move(request)), std::move(done));
  }

  // OUT_OF_RANGE if the values together exceed kMultiGetBytesMax: read fewer keys.
  virtual void MultiGet(std::vector<Key> keys, Callback<GetResult> done) = 0;
  virtual void Scan(ScanRequest request, Callback<ScanResult> done) = 0;
  virtual std::unique_ptr<Watch> OpenWatch(WatchRequest request, WatchObserver observer) = 0;

  // Needs no session. The answer is the state after the call's effect.
  virtual void AskClock(ClockCall call, Callback<ClockState> done) = 0;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_KV_STORE_H_
