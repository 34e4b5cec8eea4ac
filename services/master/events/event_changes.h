// One-off events: one atomic creation of one or more (CreateEvents), the replacement of one that
// waits (ReplaceEvent), and its end (CancelOneOffEvent).

#ifndef SERVICES_MASTER_EVENTS_EVENT_CHANGES_H_
#define SERVICES_MASTER_EVENTS_EVENT_CHANGES_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/uid.h"
#include "common/kv/client/kv_client.h"
#include "common/storage/event_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/event_service.pb.h"
#include "escapement/v1/resources.pb.h"
#include "google/protobuf/field_mask.pb.h"
#include "services/master/api/master_apis.h"
#include "services/master/base/master_context.h"
#include "services/master/events/event_ingest.h"
#include "services/master/events/event_lookup.h"
#include "services/master/events/event_throttle.h"
#include "services/master/requests/request_table.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {

// A batch, checked and built: the groups of new deliveries, then one group with everything else.
struct CreationPlan {
  kv::Commit commit;
  std::vector<Uid> interned;
  // Resource names behind the conditions of the last group; the request's own condition, if there
  // is one, has "".
  std::vector<std::string> names_by_condition;
  v1::BatchCreateEventsResponse response;
};

// The event that the only one of the batch replaces or follows; empty: none.
struct EventBefore {
  std::optional<NamedBefore> name = std::nullopt;
  std::optional<storage::v1::TargetRecord> target = std::nullopt;  // its secrets may be kept
  bool upsert = false;                                             // the new one may be debounced
};

// `single`: the batch stands for one CreateEvent, so that fields are named without "requests[0]."
// and the answer has the payload. INVALID_ARGUMENT with the fields; FAILED_PRECONDITION
// (POLICIES_APART).
absl::StatusOr<CreationPlan> PlanCreation(const v1::BatchCreateEventsRequest& batch, bool single,
                                          const RequestMark& mark,
                                          const EventRowBuilder::Options& options,
                                          const Policies& policies, const InternCache& cache,
                                          const TargetSecrets& secrets,
                                          const EventBefore& before = {});

struct CreateOptions {
  bool single = false;            // as in PlanCreation
  bool validate_only = false;     // plan, look for ids that are taken, and answer; write nothing
  std::string trace_parent = {};  // the caller's
};

// Answers as before if the request was answered before; else plans and commits. ALREADY_EXISTS
// names the event.
void CreateEvents(MasterContext& context, std::shared_ptr<InternCache> cache, std::string tenant,
                  v1::BatchCreateEventsRequest batch, CreateOptions create, RequestMark mark,
                  Done<v1::BatchCreateEventsResponse> done);

// UpsertEvent or UpdateEvent of one event with a client-chosen id.
struct EventChange {
  v1::Event event = {};  // as asked for, with the etag
  // Fields of `event` to replace; nullopt: all, and the event is created if there is none.
  std::optional<google::protobuf::FieldMask> mask = std::nullopt;
  bool replace_ended = false;
  bool validate_only = false;
  std::string trace_parent = {};
};

void ReplaceEvent(MasterContext& context, std::shared_ptr<InternCache> cache, EventName name,
                  EventChange change, RequestMark mark, Done<v1::Event> done);

// Ends a one-off event that has not been claimed as CANCELLED. `etag`: as CancelEventRequest.etag.
//
// This is how an event that waits is taken back, also to be replaced. The row of a claimed one-off
// event stays in `events`. So the commit deletes the row on condition that it is present and that
// no claim of the shard was made since the claims were read (ClaimMarkKey,
// common/storage/waiting_table.h). The claim has the condition that the row is present, so the
// first commit wins. The row in `waiting` of an event under a policy is gone once it is granted:
// both commits delete it on condition that it is present.

// Adds this end of the event that was found to `group`. Returns its record. NOT_FOUND, ABORTED
// (ETAG_MISMATCH), or FAILED_PRECONDITION (EVENT_RUNNING, EVENT_ENDED); then it adds nothing.
absl::StatusOr<storage::v1::DoneRecord> AddCancellation(const EventName& name,
                                                        const std::string& etag,
                                                        const EventSighting& sighting,
                                                        absl::Time now, kv::Group& group);

void CancelOneOffEvent(MasterContext& context, EventName name, std::string etag, RequestMark mark,
                       bool validate_only, Done<v1::Event> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_EVENTS_EVENT_CHANGES_H_
