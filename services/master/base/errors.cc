#include "services/master/base/errors.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/http/header_grammar.h"
#include "common/status/errors.h"

namespace escapement::master {
namespace {

// INVALID_ARGUMENT with the field's violation and a reason of its own.
absl::Status InvalidFieldBecause(absl::string_view reason, absl::string_view field,
                                 absl::string_view description) {
  absl::Status status = InvalidField(field, description);
  const absl::Status named = MakeError(absl::StatusCode::kInvalidArgument, reason, status.message(),
                                       {{"field", std::string(field)}});
  named.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { status.SetPayload(url, payload); });
  return status;
}

}  // namespace

absl::Status ImpossibleExpression(absl::string_view field) {
  return ImpossibleExpression(field, "never fires: no date up to 2199 matches it");
}

absl::Status ImpossibleExpression(absl::string_view field, absl::string_view description) {
  return InvalidFieldBecause("IMPOSSIBLE_EXPRESSION", field, description);
}

absl::Status RequestIdReused() {
  return InvalidFieldBecause("REQUEST_ID_REUSED", "request_id",
                             "was used for a different request within the last day; use a new id");
}

absl::Status CheckEtag(absl::string_view wanted, absl::string_view current,
                       absl::string_view resource) {
  if (wanted.empty() || NamesEntityTag(wanted, current)) return absl::OkStatus();
  return EtagMismatch(resource);
}

absl::Status WrongState(absl::string_view resource, absl::string_view state,
                        absl::string_view needed) {
  return FailedPrecondition("WRONG_STATE",
                            absl::StrCat(resource, " is ", state, ", must be ", needed),
                            {{"resource", std::string(resource)}, {"state", std::string(state)}});
}

absl::Status EventRunning(absl::string_view resource) {
  return FailedPrecondition(
      "EVENT_RUNNING", absl::StrCat(resource, " is being sent: it cannot be cancelled or replaced"),
      {{"resource", std::string(resource)}});
}

absl::Status EventAttempted(absl::string_view resource) {
  return FailedPrecondition(
      "EVENT_ATTEMPTED",
      absl::StrCat(resource, " has been sent and waits for another attempt: it cannot be replaced"),
      {{"resource", std::string(resource)}});
}

absl::Status EventIdCancelled(absl::string_view event) {
  return MakeError(absl::StatusCode::kAlreadyExists, "EVENT_CANCELLED",
                   absl::StrCat(event,
                                " exists already and was cancelled, so no event with this id "
                                "will be delivered: use another id, or UpsertEvent"),
                   {{"resource", std::string(event)}});
}

absl::Status EventEnded(absl::string_view resource) {
  return FailedPrecondition("EVENT_ENDED", absl::StrCat(resource, " has already ended"),
                            {{"resource", std::string(resource)}});
}

absl::Status ErrorOf(const v1::IgnoredEvent& ignored) {
  if (ignored.code() == 0) return absl::OkStatus();
  return MakeError(static_cast<absl::StatusCode>(ignored.code()), ignored.reason(),
                   ignored.message());
}

absl::Status RunEnded(absl::string_view resource) {
  return FailedPrecondition("RUN_ENDED", absl::StrCat(resource, " has already ended"),
                            {{"resource", std::string(resource)}});
}

absl::Status TooManyCancelled(absl::string_view resource) {
  return FailedPrecondition(
      "TOO_MANY_CANCELLED",
      absl::StrCat("too many cancelled runs of ", resource, " have not ended yet; try again later"),
      {{"resource", std::string(resource)}});
}

absl::Status TooManyParked(absl::string_view resource) {
  return FailedPrecondition(
      "TOO_MANY_PARKED",
      absl::StrCat("too many events of ", resource, " wait for its resume to validate it"),
      {{"resource", std::string(resource)}});
}

absl::Status PolicyHasSchedules(absl::string_view resource) {
  return FailedPrecondition("POLICY_HAS_SCHEDULES",
                            absl::StrCat("a schedule still refers to ", resource),
                            {{"resource", std::string(resource)}});
}

absl::Status PolicyHasWaiting(absl::string_view resource) {
  return FailedPrecondition("POLICY_HAS_WAITING_EVENTS",
                            absl::StrCat("events still wait under ", resource),
                            {{"resource", std::string(resource)}});
}

absl::Status PolicyHasHolders(absl::string_view resource) {
  return FailedPrecondition("POLICY_HAS_HELD_TOKENS",
                            absl::StrCat("events still hold tokens of ", resource),
                            {{"resource", std::string(resource)}});
}

absl::Status TooManyOverrides(absl::string_view resource) {
  return FailedPrecondition("TOO_MANY_OVERRIDES",
                            absl::StrCat(resource, " has too many overrides in force; clear some"),
                            {{"resource", std::string(resource)}});
}

absl::Status NoOverride(absl::string_view resource) {
  return FailedPrecondition("NO_OVERRIDE", absl::StrCat(resource, " has no such override in force"),
                            {{"resource", std::string(resource)}});
}

absl::Status TooMuchWaiting(absl::string_view resource) {
  return FailedPrecondition(
      "TOO_MUCH_WAITING",
      absl::StrCat("too many events wait to check whether one of them has ", resource,
                   " as a further limit; try again when fewer wait"),
      {{"resource", std::string(resource)}});
}

absl::Status PolicyMissing(absl::string_view policy, absl::string_view field) {
  return FailedPrecondition("POLICY_NOT_FOUND",
                            absl::StrCat(field, ": ", policy, " does not exist"),
                            {{"resource", std::string(policy)}, {"field", std::string(field)}});
}

absl::Status PoliciesApart(const std::vector<std::string>& policies, absl::string_view field) {
  const std::string names = absl::StrJoin(policies, ", ");
  return FailedPrecondition(
      "POLICIES_APART",
      absl::StrCat(field, ": ", names,
                   policies.size() == 1
                       ? " was made by a former version and is kept apart: create it"
                       : " were made by a former version and are kept apart: create "
                         "them",
                   " again to use it together with others"),
      {{"resource", names}, {"field", std::string(field)}});
}

absl::Status CalendarMissing(absl::string_view calendar, absl::string_view field) {
  return FailedPrecondition("CALENDAR_NOT_FOUND",
                            absl::StrCat(field, ": ", calendar, " does not exist"),
                            {{"resource", std::string(calendar)}, {"field", std::string(field)}});
}

absl::Status CalendarInUse(absl::string_view resource, absl::string_view user) {
  return FailedPrecondition("CALENDAR_IN_USE", absl::StrCat(user, " still names ", resource),
                            {{"resource", std::string(resource)}});
}

absl::Status TooManyCalendars(absl::string_view tenant) {
  return ResourceExhausted("TOO_MANY_CALENDARS",
                           absl::StrCat(tenant, " has as many calendars as it may; delete some"),
                           absl::Minutes(1));
}

absl::Status TooManySubscriptions(absl::string_view tenant) {
  return ResourceExhausted(
      "TOO_MANY_SUBSCRIPTIONS",
      absl::StrCat(tenant, " has as many subscriptions as it may; delete some"), absl::Minutes(1));
}

absl::Status ScheduleDeleted(absl::string_view resource) {
  return FailedPrecondition("SCHEDULE_DELETED", absl::StrCat(resource, " has been deleted"),
                            {{"resource", std::string(resource)}});
}

absl::Status RunCancelled(absl::string_view resource) {
  return FailedPrecondition("RUN_CANCELLED", absl::StrCat(resource, " has been cancelled"),
                            {{"resource", std::string(resource)}});
}

absl::Status EventIdTaken(absl::string_view resource) {
  return FailedPrecondition("EVENT_ID_TAKEN",
                            absl::StrCat("another event has the name ", resource, " by now"),
                            {{"resource", std::string(resource)}});
}

absl::Status OperationEnded(absl::string_view resource) {
  return FailedPrecondition("OPERATION_ENDED", absl::StrCat(resource, " has already ended"),
                            {{"resource", std::string(resource)}});
}

absl::Status TooManyOperations(absl::string_view tenant) {
  return ResourceExhausted(
      "TOO_MANY_OPERATIONS",
      absl::StrCat("too many operations of ", tenant, " are running; wait for one, or cancel one"),
      absl::Seconds(10));
}

absl::Status ForecastTooLarge() {
  return ResourceExhausted("FORECAST_TOO_LARGE",
                           "the forecast takes too much work; shorten it, or set a filter",
                           absl::Minutes(1));
}

absl::Status TooManyForecasts() {
  return ResourceExhausted("TOO_MANY_FORECASTS", "other forecasts are under way; try again",
                           absl::Seconds(1));
}

absl::Status TooManyGroupings() {
  return ResourceExhausted("TOO_MANY_GROUPINGS", "too many calls group dead letters; try again",
                           absl::Seconds(1));
}

absl::Status Contended(absl::string_view resource) {
  return Aborted(
      "CONTENDED",
      absl::StrCat(resource, " is being changed by other calls; nothing was changed, try again"));
}

absl::Status EmissionBehind(absl::string_view resource) {
  return ResourceExhausted("EMISSION_BEHIND",
                           absl::StrCat("the emitter is too far behind with ", resource,
                                        " for this change; try again later"),
                           absl::Seconds(5));
}

absl::Status NotReady() {
  return MakeError(absl::StatusCode::kUnavailable, "NOT_READY", "the master is not ready");
}

absl::Status StoreFailed(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kResourceExhausted:
      return ResourceExhausted("STORE_FULL", status.message(), absl::Seconds(1));
    case absl::StatusCode::kAborted:
      return MakeError(
          absl::StatusCode::kUnavailable, "RESULT_UNKNOWN",
          absl::StrCat("the session with the store was lost; the change may have been made: ",
                       status.message()));
    default:
      return Annotate(status, "store");
  }
}

absl::Status BrokenRecord(absl::string_view what) {
  return MakeError(absl::StatusCode::kDataLoss, "BROKEN_RECORD",
                   absl::StrCat("cannot read ", what));
}

}  // namespace escapement::master
