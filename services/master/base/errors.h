// Errors of the master beyond those of common/status/errors.h.

#ifndef SERVICES_MASTER_BASE_ERRORS_H_
#define SERVICES_MASTER_BASE_ERRORS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "escapement/v1/event_service.pb.h"

namespace escapement::master {

// INVALID_ARGUMENT, reason IMPOSSIBLE_EXPRESSION, with a field violation: the expression is valid
// but never fires.
absl::Status ImpossibleExpression(absl::string_view field);
// The same with a description of its own.
absl::Status ImpossibleExpression(absl::string_view field, absl::string_view description);

// INVALID_ARGUMENT, reason REQUEST_ID_REUSED, with a field violation: the same request_id came with
// another request.
absl::Status RequestIdReused();

// ABORTED (EtagMismatch) unless `wanted` is empty, is `current`, or is a list of etags that has it
// (If-Match).
absl::Status CheckEtag(absl::string_view wanted, absl::string_view current,
                       absl::string_view resource);

// FAILED_PRECONDITION, reason WRONG_STATE: "<resource> is <state>, must be <needed>".
absl::Status WrongState(absl::string_view resource, absl::string_view state,
                        absl::string_view needed);

// FAILED_PRECONDITION, reason EVENT_RUNNING / EVENT_ATTEMPTED / EVENT_ENDED: too late to cancel or
// to replace.
absl::Status EventRunning(absl::string_view resource);
absl::Status EventAttempted(absl::string_view resource);
// ALREADY_EXISTS: the id belongs to an event that was cancelled, so nothing will be delivered.
absl::Status EventIdCancelled(absl::string_view event);
absl::Status EventEnded(absl::string_view resource);

// Why a record of an ingestion had no effect; OK: it was superseded.
absl::Status ErrorOf(const v1::IgnoredEvent& ignored);

// FAILED_PRECONDITION, reason RUN_ENDED: too late to cancel.
absl::Status RunEnded(absl::string_view resource);
// FAILED_PRECONDITION, reason TOO_MANY_CANCELLED: so many runs of the schedule are cancelled and
// have not ended yet.
absl::Status TooManyCancelled(absl::string_view resource);

// FAILED_PRECONDITION, reason TOO_MANY_PARKED: the resume takes several steps, and what the later
// ones do is not known before the first has been done.
absl::Status TooManyParked(absl::string_view resource);

// FAILED_PRECONDITION, reasons POLICY_HAS_SCHEDULES / POLICY_HAS_WAITING_EVENTS /
// POLICY_HAS_HELD_TOKENS: what keeps a policy from being deleted.
absl::Status PolicyHasSchedules(absl::string_view resource);
absl::Status PolicyHasWaiting(absl::string_view resource);
absl::Status PolicyHasHolders(absl::string_view resource);

// FAILED_PRECONDITION, reasons TOO_MANY_OVERRIDES / NO_OVERRIDE: the policy has as many in force as
// it may; it has none in force of this key, or of itself.
absl::Status TooManyOverrides(absl::string_view resource);
absl::Status NoOverride(absl::string_view resource);

// FAILED_PRECONDITION, reason TOO_MUCH_WAITING: more events wait or hold tokens beside the policy
// than DeletePolicy reads to find those that have it as a further limit.
absl::Status TooMuchWaiting(absl::string_view resource);

// FAILED_PRECONDITION, reason POLICY_NOT_FOUND, metadata resource and field: the policy that the
// schedule shall have does not exist.
absl::Status PolicyMissing(absl::string_view policy, absl::string_view field);
// FAILED_PRECONDITION, reason POLICIES_APART, metadata resource and field: events cannot be under
// these policies and others, because their tokens are counted in different policy shards.
// `policies`: those that a former version made.
absl::Status PoliciesApart(const std::vector<std::string>& policies, absl::string_view field);

// FAILED_PRECONDITION, reason CALENDAR_NOT_FOUND, metadata resource and field: the calendar that a
// schedule or calendar shall have does not exist.
absl::Status CalendarMissing(absl::string_view calendar, absl::string_view field);
// FAILED_PRECONDITION, reason CALENDAR_IN_USE: `user` (a schedule or a calendar) names the
// calendar.
absl::Status CalendarInUse(absl::string_view resource, absl::string_view user);
// RESOURCE_EXHAUSTED, reason TOO_MANY_CALENDARS: the tenant has as many as it may.
absl::Status TooManyCalendars(absl::string_view tenant);
// RESOURCE_EXHAUSTED, reason TOO_MANY_SUBSCRIPTIONS: the tenant has as many as it may.
absl::Status TooManySubscriptions(absl::string_view tenant);

// FAILED_PRECONDITION, reasons SCHEDULE_DELETED / RUN_CANCELLED / EVENT_ID_TAKEN: why an event
// cannot be redriven. EVENT_ID_TAKEN: another event has the client-chosen id by now.
absl::Status ScheduleDeleted(absl::string_view resource);
absl::Status RunCancelled(absl::string_view resource);
absl::Status EventIdTaken(absl::string_view resource);

// FAILED_PRECONDITION, reason OPERATION_ENDED: too late to cancel.
absl::Status OperationEnded(absl::string_view resource);
// RESOURCE_EXHAUSTED, reason TOO_MANY_OPERATIONS: so many operations of the tenant are running.
absl::Status TooManyOperations(absl::string_view tenant);

// RESOURCE_EXHAUSTED, reasons FORECAST_TOO_LARGE / TOO_MANY_FORECASTS: it takes more work than one
// forecast may; so many are under way.
absl::Status ForecastTooLarge();
absl::Status TooManyForecasts();
// RESOURCE_EXHAUSTED, reason TOO_MANY_GROUPINGS: so many calls group dead letters.
absl::Status TooManyGroupings();

// ABORTED, reason CONTENDED: lost too many races in a row; nothing was done.
absl::Status Contended(absl::string_view resource);

// RESOURCE_EXHAUSTED, reason EMISSION_BEHIND: the change would have to emit more occurrences than
// one change may. Nothing was done.
absl::Status EmissionBehind(absl::string_view resource);

// UNAVAILABLE, reason NOT_READY: the store has not been reached yet, or the service is stopping.
absl::Status NotReady();

// Translates a failure of the store for the caller. RESOURCE_EXHAUSTED (no room; nothing was done)
// stays. A lost session becomes UNAVAILABLE, reason RESULT_UNKNOWN: the change may or may not have
// been made; a retry with the same request_id finds out.
absl::Status StoreFailed(const absl::Status& status);

// DATA_LOSS, reason BROKEN_RECORD: `what` cannot be read.
absl::Status BrokenRecord(absl::string_view what);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_BASE_ERRORS_H_
