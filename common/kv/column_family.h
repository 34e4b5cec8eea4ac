// The column families of the store (docs/design/overview.md; keys are built in
// common/storage).

#ifndef COMMON_KV_COLUMN_FAMILY_H_
#define COMMON_KV_COLUMN_FAMILY_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace escapement::kv {

// The numbers go over the wire and into watches: append, never renumber.
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
  kWaiting = 12,
  kGrants = 13,
  kParked = 14,
  kDone = 15,
  kDeadLetters = 16,
  kEventNames = 17,
  kLeases = 18,
  kMembers = 19,
  kRequests = 20,
  kMeta = 21,
};

inline constexpr size_t kColumnFamilyCount = 22;

// Names on disk.
inline constexpr std::array<absl::string_view, kColumnFamilyCount> kColumnFamilyNames = {
    "tenants",     "policies", "schedules", "states",    "definitions",  "children",
    "checkpoints", "in_use",   "runs",      "run_parts", "events",       "inflight",
    "waiting",     "grants",   "parked",    "done",      "dead_letters", "event_names",
    "leases",      "members",  "requests",  "meta"};

// The family in which a large DeleteRange is one range tombstone on disk; everywhere else it is
// single deletes. In our RocksDB (7.8) an iterator that minds range tombstones passes over a file
// that cannot be read, and those behind it, without an error (mended in 8.6.3: pull request 11821
// of facebook/rocksdb): only this family's scans have to mind them.
inline constexpr bool HasRangeTombstones(ColumnFamily cf) { return cf == ColumnFamily::kDone; }

// The family of which few rows are read here and there, by ranges that have a prefix in common:
// filters tell where no row with such a prefix is.
inline constexpr bool HasPrefixes(ColumnFamily cf) { return cf == ColumnFamily::kChildren; }
// Of how many bytes the prefix of `key` is; 0: it has none, being too short, or its family. What
// begins with a prefix has that one.
size_t PrefixBytes(ColumnFamily cf, absl::string_view key);

constexpr absl::string_view Name(ColumnFamily cf) {
  return kColumnFamilyNames[static_cast<size_t>(cf)];
}

}  // namespace escapement::kv

#endif  // COMMON_KV_COLUMN_FAMILY_H_
