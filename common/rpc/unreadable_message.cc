#include "common/rpc/unreadable_message.h"

#include "common/status/errors.h"

namespace escapement {

absl::Status UnreadableMessage() {
  return MakeError(absl::StatusCode::kInvalidArgument, "UNREADABLE_MESSAGE",
                   "the message cannot be parsed: it is not of the method's type, or a string in "
                   "it is not UTF-8");
}

}  // namespace escapement
