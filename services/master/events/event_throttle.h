// The policies that one-off events name, and how the events are throttled.

#ifndef SERVICES_MASTER_EVENTS_EVENT_THROTTLE_H_
#define SERVICES_MASTER_EVENTS_EVENT_THROTTLE_H_

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/kv/kv_store.h"
#include "common/status/errors.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/event_service.pb.h"
#include "escapement/v1/resources.pb.h"
#include "services/master/base/master_context.h"
#include "services/master/codec/schedule_codec.h"

namespace escapement::master {

// The ids of the policies that the events of a request name. Names that are wrong are left out:
// ReadEventThrottle refuses them.
std::set<std::string> PoliciesOf(const v1::BatchCreateEventsRequest& request,
                                 absl::string_view tenant);
// `defaults`: those of the request, with the tenant's.
std::set<std::string> PoliciesOf(const v1::IngestRequest& request, const v1::Event& defaults,
                                 absl::string_view tenant);

// Reads these policies. Without ids it calls back at once.
void ReadPolicies(MasterContext& context, const std::string& tenant,
                  const std::set<std::string>& ids,
                  absl::AnyInvocable<void(absl::StatusOr<Policies>)> done);

// How the event is throttled; nullopt: it is not. Adds each error to `violations`, with its field
// below `prefix`: also if `policies`, where it must be looked up, has no such policy.
std::optional<storage::v1::ThrottleRecord> ReadEventThrottle(const v1::Event& event,
                                                             absl::string_view prefix,
                                                             absl::string_view tenant,
                                                             const Policies& policies,
                                                             FieldViolations& violations);

// The conditions on which events may be created: a policy cannot be deleted while events of it
// wait, so each one must still be there. One that was not there is of no event: see
// ReadEventThrottle.
std::vector<kv::Condition> PoliciesPresent(absl::string_view tenant, const Policies& policies);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_EVENTS_EVENT_THROTTLE_H_
