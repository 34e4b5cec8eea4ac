// LogPlace: how far a replica's copy of the state has applied the log. The copy keeps it under
// kLogPlaceKey, in the same write as the effects of the row.
//
// The form is stored: seq(8) chain(8) epoch(8) kind(1) log bytes(8), big-endian.
//
// Pure.

#ifndef COMMON_KV_REPLICA_LOG_PLACE_H_
#define COMMON_KV_REPLICA_LOG_PLACE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/kv/log/log_position.h"
#include "common/kv/replica/log_record.h"

namespace escapement::kv {

struct LogPlace {
  LogPosition position;
  uint64_t epoch = 0;                     // the epoch of the last row; 0 without a row
  RecordKind kind = RecordKind::kLeader;  // the last row's
  uint64_t log_bytes = 0;                 // bytes of all rows up to this one

  friend bool operator==(const LogPlace&, const LogPlace&) = default;
};

std::string EncodeLogPlace(const LogPlace& place);
absl::StatusOr<LogPlace> DecodeLogPlace(absl::string_view bytes);

// The place behind `row`, which follows on `before`. Errors as ReadRecordKind.
absl::StatusOr<LogPlace> PlaceBehind(const LogPlace& before, const LogRow& row);

}  // namespace escapement::kv

#endif  // COMMON_KV_REPLICA_LOG_PLACE_H_
