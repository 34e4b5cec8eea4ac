// Layout: the numbers that are fixed when a store is created. Read them with MultiGet({kMeta,
// kLayoutKey}).

#ifndef COMMON_KV_LAYOUT_H_
#define COMMON_KV_LAYOUT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/key_codec.h"

namespace escapement::kv {

struct Layout {
  uint32_t partitions = 16;    // slices of the children index; 1 to 1,024
  uint32_t queue_shards = 8;   // slices of the event queue; 1 to 1,024
  uint32_t policy_shards = 8;  // slices of waiting events and grants; 1 to 1,024
  uint32_t cell = 0;           // which cell the store is (docs/design/cells.md); 0 to 63

  friend bool operator==(const Layout&, const Layout&) = default;
};

inline constexpr absl::string_view kLayoutKey = "layout";
inline constexpr uint32_t kLayoutNumberMax = 1024;
inline constexpr uint32_t kCellsMax = 64;

// INVALID_ARGUMENT if a number is out of bounds.
absl::Status ValidateLayout(const Layout& layout);

// 12 bytes: three big-endian 32-bit numbers. For a cell other than 0, its number is the fourth.
std::string EncodeLayout(const Layout& layout);
// DATA_LOSS if the bytes are not a layout.
absl::StatusOr<Layout> DecodeLayout(absl::string_view bytes);

// The column families of the store. common/storage builds their keys and says what each holds; its
// README has the table of all families.

// These numbers are used on the wire and in watches: append new ones, never renumber.
enum class ColumnFamily : uint8_t {
  kTenants = 0,
  kPolicies = 1,
  kSchedules = 2,
  kStates = 3,
  kDefinitions = 4,
  kChildren = 5,
  kCheckpoints = 6,
  kInUse = 7,
  kRuns = 8,
  kRunParts = 9,
  kEvents = 10,
  kInflight = 11,
  kWaiting = 12,  // rows and reports: common/storage/waiting_table.h
  kGrants = 13,
  kParked = 14,
  kDone = 15,
  kDeadLetters = 16,
  kEventNames = 17,
  kLeases = 18,
  kMembers = 19,
  kRequests = 20,
  kMeta = 21,
  kLabels = 22,
  kKeys = 23,
  kAudit = 24,
  kOperations = 25,
  kTargetStates = 26,
  kPauseRequests = 27,
};

inline constexpr size_t kColumnFamilyCount = 28;

// Names on disk.
inline constexpr std::array<absl::string_view, kColumnFamilyCount> kColumnFamilyNames = {
    "tenants",     "policies",   "schedules",     "states",        "definitions",  "children",
    "checkpoints", "in_use",     "runs",          "run_parts",     "events",       "inflight",
    "waiting",     "grants",     "parked",        "done",          "dead_letters", "event_names",
    "leases",      "members",    "requests",      "meta",          "labels",       "keys",
    "audit",       "operations", "target_states", "pause_requests"};

// True for the one family where a large DeleteRange becomes a range tombstone on disk. In all other
// families it becomes single deletes. In our RocksDB (7.8) an iterator that respects range
// tombstones silently skips a file that it cannot read, and the files behind it (fixed in 8.6.3:
// pull request 11821 of facebook/rocksdb). So only scans of this family respect them.
inline constexpr bool HasRangeTombstones(ColumnFamily cf) { return cf == ColumnFamily::kDone; }

// True for the one family whose reads are short ranges with a common prefix. Bloom filters tell
// which files have no key with such a prefix.
inline constexpr bool HasPrefixes(ColumnFamily cf) { return cf == ColumnFamily::kChildren; }
// Bytes of the prefix of `key`; 0 if the family has no prefixes or the key is too short. Every key
// that begins with a prefix has that prefix.
size_t PrefixBytes(ColumnFamily cf, absl::string_view key);

constexpr absl::string_view Name(ColumnFamily cf) {
  return kColumnFamilyNames[static_cast<size_t>(cf)];
}

// The store's own keys in kMeta. They begin with a zero byte; commits and scans cannot reach them.
//
//   00 's' session(8)            → empty                an open session
//   00 's' session(8) slot(1)    → answer               see engine/session_table.h
//   00 'q'                       → seq(8)               the last commit
//   00 'i'                       → incarnation(8)
//   00 'f'                       → version(4)           of this format
//   00 't'                       → clock                see engine/store_clock.h
//   00 'p'                       → position             in a replica only; see replica/log_record.h
//
// Integers are big-endian. Everybody may read kLayoutKey and kClockHoldKey.

inline constexpr absl::string_view kSessionPrefix{"\0s", 2};
inline constexpr absl::string_view kSessionPrefixEnd{"\0t", 2};
inline constexpr absl::string_view kSeqKey{"\0q", 2};
inline constexpr absl::string_view kIncarnationKey{"\0i", 2};
inline constexpr absl::string_view kFormatKey{"\0f", 2};
inline constexpr absl::string_view kClockKey{"\0t", 2};
inline constexpr absl::string_view kLogPlaceKey{"\0p", 2};

// A store of format 1 may have range tombstones in all families. Scans no longer respect those
// (HasRangeTombstones), so deleted rows would reappear.
inline constexpr uint32_t kFormatVersion = 2;

// The first key that does not belong to the store.
inline constexpr absl::string_view kMetaVisibleBegin{"\1", 1};

// Present while emission is held because the wall clock is ahead of store time by a step that the
// store does not follow yet (engine/store_clock.h). Emitters wait until the key is gone; an
// operator's confirmation ends the hold. Value: the disagreement in microseconds, 8 bytes.
inline constexpr absl::string_view kClockHoldKey = "clock_hold";

inline absl::Duration DecodeClockHold(absl::string_view value) {
  if (value.size() != 8) return absl::ZeroDuration();
  return absl::Microseconds(static_cast<int64_t>(ReadBigEndian<uint64_t>(value)));
}

inline bool IsReservedMetaKey(absl::string_view key) { return !key.empty() && key[0] == '\0'; }

inline std::string EncodeU64(uint64_t value) {
  std::string out;
  AppendBigEndian<uint64_t>(&out, value);
  return out;
}

// Names inside a store's data folder.

// RocksDB's folder. In a data folder it is that of a store that is not replicated.
inline constexpr char kDatabaseFolder[] = "db";
// witness_file.h
inline constexpr char kWitnessFile[] = "witness";
// The folder of a replica's copy. A store that is not replicated refuses such a data folder.
inline constexpr char kReplicaFolder[] = "replica";
// An import leaves this empty file. The next start of the store begins a new incarnation, because
// clients may have seen later commits than the snapshot has, and removes the file.
inline constexpr char kImportedFile[] = "imported";
// A store that was moved into a shared log has left its database and witness here.
inline constexpr char kMovedFolder[] = "moved-into-log";

}  // namespace escapement::kv

#endif  // COMMON_KV_LAYOUT_H_
