// GatesOf: what holds an event up, from facts that the store has. PhasesOf: where the time of an
// event went. Also the sentences for both.
//
// Pure.

#ifndef SERVICES_MASTER_EXPLAIN_GATES_H_
#define SERVICES_MASTER_EXPLAIN_GATES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/lease/lease_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/storage/v1/target_records.pb.h"
#include "escapement/v1/explanation.pb.h"
#include "services/master/explain/event_place.h"
#include "services/master/explain/limit_use.h"
#include "services/master/target_states/target_service.h"

namespace escapement::master {

// The holder of a lease.
struct LeaseView {
  std::string owner = {};                   // empty: nobody
  absl::Time ended = absl::InfinitePast();  // without an owner: when the last lease ended, if known
};
// `row`: nullopt if the lease was never held.
LeaseView ViewOf(const std::optional<lease::LeaseRow>& row, absl::Time now);

struct EventFacts {
  absl::Time now;
  LeaseView partition;                  // only for events that are not in a queue yet
  LeaseView policy_shard;               // only for events under a policy
  std::vector<LeaseView> queue_shards;  // all
  // The disagreement of the clocks, if the store holds emission.
  std::optional<absl::Duration> clock_hold;
  // The run that is active, of a schedule with the overlap policy BUFFER_ONE. Empty: none.
  std::string active_run;
  EventLimits limits;
  // The rows of the target, one for each handler that has used it.
  std::vector<HandlerRow> target;
};

// Why the event ends without being sent once somebody judges its row: "deleted", "cancelled",
// "overlap" or "superseded" (common/records/row_judge.h). Empty: it is to be sent.
std::string UnsentReason(const EventPlace& place);
// In the order in which the event meets them. Empty for an event that is unknown, has ended or is
// not to be sent.
std::vector<v1::Gate> GatesOf(const EventPlace& place, const EventFacts& facts);
// Empty unless the event has ended or is with the consumer.
std::vector<v1::Phase> PhasesOf(const EventPlace& place);

// A gate that also a schedule has.
v1::Gate PausedGate(const std::string& schedule, const storage::v1::StateRecord& state);
v1::Gate NoOwnerGate(absl::string_view subject, absl::string_view service, const LeaseView& lease);
v1::Gate ClockGate(absl::Duration disagreement);

// "2026-11-30T06:00:00Z", with a fraction if there is one.
std::string TimeText(absl::Time time);
// "3 h 20 min", "12.5 s", "40 ms".
std::string DurationText(absl::Duration duration);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_EXPLAIN_GATES_H_
