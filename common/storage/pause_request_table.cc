#include "common/storage/pause_request_table.h"

#include "common/base/key_codec.h"

namespace escapement {

std::string PauseRequestKey(const Uid& schedule) { return KeyWriter().Id(schedule).Take(); }

}  // namespace escapement
