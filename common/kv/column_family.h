// The column families of the store. common/storage builds their keys and says what each holds; its
// README has the table of all families.

#ifndef COMMON_KV_COLUMN_FAMILY_H_
#define COMMON_KV_COLUMN_FAMILY_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace escapement::kv {

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

}  // namespace escapement::kv

#endif  // COMMON_KV_COLUMN_FAMILY_H_
