// The column families that are keyed by names which a tenant chose: `event_names`, `dead_letters`,
// `requests`.
//
// event_names: tenant (text), event id (text) → EventNameRecord
//
// dead_letters: tenant (text), time, event id (text) → DeadLetterRecord
//
// requests: tenant (text), request id (text) → RequestRecord

#ifndef COMMON_STORAGE_NAME_TABLES_H_
#define COMMON_STORAGE_NAME_TABLES_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace escapement {

std::string EventNameKey(absl::string_view tenant, absl::string_view event_id);
std::string DeadLetterKey(absl::string_view tenant, absl::Time time, absl::string_view event_id);
std::string RequestKey(absl::string_view tenant, absl::string_view request_id);

}  // namespace escapement

#endif  // COMMON_STORAGE_NAME_TABLES_H_
