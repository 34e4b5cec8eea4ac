#include "common/storage/targets/pause_request_table.h"

#include "common/base/key_codec.h"

namespace escapement {

std::string PauseRequestKey(const Uid& schedule) { return KeyWriter().Id(schedule).Take(); }

std::optional<Uid> DecodePauseRequestKey(absl::string_view key) {
  KeyReader reader(key);
  const Uid schedule = reader.Id();
  if (!reader.done()) return std::nullopt;
  return schedule;
}

}  // namespace escapement
