#include "common/storage/name_tables.h"

#include "common/base/key_codec.h"

namespace escapement {

std::string EventNameKey(absl::string_view tenant, absl::string_view event_id) {
  return KeyWriter().Text(tenant).Text(event_id).Take();
}

std::string DeadLetterKey(absl::string_view tenant, absl::Time time, absl::string_view event_id) {
  return KeyWriter().Text(tenant).Time(time).Text(event_id).Take();
}

std::string RequestKey(absl::string_view tenant, absl::string_view request_id) {
  return KeyWriter().Text(tenant).Text(request_id).Take();
}

}  // namespace escapement
