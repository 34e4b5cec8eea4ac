// The column families `runs` and `run_parts` (only runs of more than one event have rows).
//
// runs: uid, occurrence (text) → RunRecord
// run_parts: uid, occurrence, queue shard (u16) → RunPartRecord. Shard 65535 is the masters' part:
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

struct RunKey {
  Uid uid;
  std::string occurrence;

  friend bool operator==(const RunKey&, const RunKey&) = default;
};

std::string EncodeRunKey(const RunKey& key);
std::optional<RunKey> DecodeRunKey(absl::string_view key);
// All runs of a schedule have this prefix.
std::string RunPrefix(const Uid& uid);

inline constexpr uint16_t kMasterRunPart = 0xffff;
std::string RunPartKey(const RunKey& run, uint16_t shard);
// All parts of a run have this prefix.
std::string RunPartPrefix(const RunKey& run);

}  // namespace escapement

#endif  // COMMON_STORAGE_RUN_TABLE_H_
