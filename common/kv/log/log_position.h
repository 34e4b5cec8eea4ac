// LogPosition: a place in a shared log together with the whole history before it.
//
// Each row of the log has a chain: a 64-bit hash of the previous row's chain and of this row's
// sequence, epoch and bytes. So two logs that have the same position have the same rows up to it,
// except with a chance of 2^-64. The chain is the row's checksum, too.
//
// The chain is stored: its definition must never change. It is not secret and does not protect
// against an attacker.
//
// Threads: plain values and pure functions.

#ifndef COMMON_KV_LOG_LOG_POSITION_H_
#define COMMON_KV_LOG_LOG_POSITION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace escapement::kv {

struct LogPosition {
  uint64_t seq = 0;    // the history's last row; 0 is the log's first row, which has no bytes
  uint64_t chain = 0;  // that row's; random for sequence 0, so that no two logs are alike

  friend bool operator==(const LogPosition&, const LogPosition&) = default;
};

// One row of the log. The bytes are shared, so that a resend or a copy kept for later costs
// nothing.
struct LogRow {
  LogPosition position;
  uint64_t epoch = 0;                       // the writing leader's
  std::shared_ptr<const std::string> data;  // never null
};

// The position of a row with these bytes behind `after`.
LogPosition NextPosition(const LogPosition& after, uint64_t epoch, absl::string_view data);

// The row itself.
LogRow NextRow(const LogPosition& after, uint64_t epoch, std::shared_ptr<const std::string> data);

// True if the rows follow on `after` one by one with their right chains.
bool FollowsOn(const LogPosition& after, const std::vector<LogRow>& rows);

}  // namespace escapement::kv

#endif  // COMMON_KV_LOG_LOG_POSITION_H_
