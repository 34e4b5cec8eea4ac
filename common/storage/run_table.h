// The column families `runs` and `run_parts` (only runs of more than one event have rows, and those
// whose schedule has on_complete).
//
// runs: uid, occurrence (text) → RunRecord
// run_parts: uid, occurrence, queue shard (u16) → RunPartRecord. 32768 + s is the part of the owner
// of policy shard s (throttled runs). Shard 65535 is the masters' part:
// what they end themselves (parked slices of a paused schedule that was resumed or deleted),
// written under the condition that it is as it was read.

#ifndef COMMON_STORAGE_RUN_TABLE_H_
#define COMMON_STORAGE_RUN_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "common/base/uid.h"

namespace escapement {

namespace storage::v1 {
class EventRecord;
}

struct RunKey {
  Uid uid;
  std::string occurrence;

  friend bool operator==(const RunKey&, const RunKey&) = default;
};

std::string EncodeRunKey(const RunKey& key);
std::optional<RunKey> DecodeRunKey(absl::string_view key);
// Is there a run record for this row's run?
bool HasRun(const storage::v1::EventRecord& row);
// All runs of a schedule have this prefix.
std::string RunPrefix(const Uid& uid);

inline constexpr uint16_t kMasterRunPart = 0xffff;
// Of throttled runs: the part of the owner of a policy shard.
constexpr uint16_t PolicyRunPart(uint16_t policy_shard) { return 0x8000 | policy_shard; }
std::string RunPartKey(const RunKey& run, uint16_t shard);
// All parts of a run have this prefix.
std::string RunPartPrefix(const RunKey& run);

}  // namespace escapement

#endif  // COMMON_STORAGE_RUN_TABLE_H_
