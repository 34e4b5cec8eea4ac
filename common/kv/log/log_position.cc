#include "common/kv/log/log_position.h"

#include <utility>

#include "common/base/hash.h"
#include "common/base/key_codec.h"

namespace escapement::kv {

LogPosition NextPosition(const LogPosition& after, uint64_t epoch, absl::string_view data) {
  std::string head;
  head.reserve(4 * sizeof(uint64_t));
  AppendBigEndian<uint64_t>(&head, after.chain);
  AppendBigEndian<uint64_t>(&head, after.seq + 1);
  AppendBigEndian<uint64_t>(&head, epoch);
  AppendBigEndian<uint64_t>(&head, StableHash64(data));
  return {after.seq + 1, StableHash64(head)};
}

LogRow NextRow(const LogPosition& after, uint64_t epoch, std::shared_ptr<const std::string> data) {
  const LogPosition position = NextPosition(after, epoch, *data);
  return {position, epoch, std::move(data)};
}

bool FollowsOn(const LogPosition& after, const std::vector<LogRow>& rows) {
  LogPosition last = after;
  for (const LogRow& row : rows) {
    if (NextPosition(last, row.epoch, *row.data) != row.position) return false;
    last = row.position;
  }
  return true;
}

}  // namespace escapement::kv
