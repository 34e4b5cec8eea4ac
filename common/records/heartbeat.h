// The heartbeat: a schedule of the platform's own, whose events go through the whole platform and
// are accepted by the handler itself. Its metrics show that the platform works although no tenant
// has anything due.

#ifndef COMMON_RECORDS_HEARTBEAT_H_
#define COMMON_RECORDS_HEARTBEAT_H_

#include "absl/strings/string_view.h"

namespace escapement {

inline constexpr absl::string_view kHeartbeatTenant = "escapement";
inline constexpr absl::string_view kHeartbeatSchedule = "heartbeat";
// DeliveryContext::source of its events.
inline constexpr absl::string_view kHeartbeatSource = "/tenants/escapement/schedules/heartbeat";
// The URI of a ping target that the handler accepts without a connection.
inline constexpr absl::string_view kHeartbeatUri = "heartbeat:";

}  // namespace escapement

#endif  // COMMON_RECORDS_HEARTBEAT_H_
