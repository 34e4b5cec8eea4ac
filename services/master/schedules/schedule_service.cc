#include "services/master/schedules/schedule_service.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/rpc/status_conversion.h"
#include "common/runtime/perturb.h"
#include "common/status/errors.h"
#include "google/rpc/error_details.pb.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/codec/delivery_codec.h"
#include "services/master/codec/schedule_codec.h"
#include "services/master/requests/range_reader.h"
#include "services/master/requests/request_table.h"
#include "services/master/requests/resource_name.h"
#include "services/master/schedules/changes/backfill_decision.h"
#include "services/master/schedules/changes/backfill_reader.h"
#include "services/master/schedules/changes/calendar_reader.h"
#include "services/master/schedules/changes/resume_decision.h"
#include "services/master/schedules/changes/schedule_decisions.h"
#include "services/master/schedules/changes/schedule_transaction.h"
#include "services/master/schedules/load_forecast.h"
#include "services/master/schedules/schedule_reader.h"
#include "services/master/schedules/schedule_search.h"
#include "services/master/schedules/schedule_versions.h"

namespace escapement::master {
namespace {

using google::protobuf::DynamicCastToGenerated;

// A change of the schedule `name`; the decision sees the request. INVALID_ARGUMENT / NOT_FOUND for
// a wrong name. `done` has the caller.
template <typename Response, typename Request, typename Answer>
absl::StatusOr<ScheduleChange> ChangeOf(absl::string_view method, absl::string_view name,
                                        absl::string_view field, const Request& request,
                                        const Done<Answer>& done,
                                        absl::StatusOr<Decision> (*decide)(const ChangeInput&,
                                                                           const Request&)) {
  FieldViolations violations;
  CheckRequestId(request.request_id(), violations);
  absl::StatusOr<ScheduleName> parsed = ParseScheduleName(name, field);
  if (!parsed.ok() && parsed.status().code() != absl::StatusCode::kInvalidArgument)
    return parsed.status();
  violations.AddStatus("", parsed.status());
  if (!violations.empty()) return violations.ToStatus();
  RequestMark mark = MarkOf(parsed->tenant, method, request, done);
  ScheduleChange change{.name = *std::move(parsed), .mark = std::move(mark)};
  change.validate_only = request.validate_only();
  change.decide = [request, decide](const ChangeInput& input) { return decide(input, request); };
  change.response = std::make_unique<Response>();
  return change;
}

void ReadBound(bool given, const google::protobuf::Timestamp& time, const char* field,
               absl::Time& bound, FieldViolations& violations) {
  const std::optional<int64_t> micros = TimestampMicros(time);
  if (!given) {
    violations.Add(field, "is required");
  } else if (!micros.has_value()) {
    violations.Add(field, "is not a valid time in the years 1 to 9999");
  } else {
    bound = FromMicros(*micros);
  }
}

absl::StatusOr<BackfillRange> ReadRange(const v1::BackfillScheduleRequest& request) {
  FieldViolations violations;
  BackfillRange range;
  ReadBound(request.has_start_time(), request.start_time(), "start_time", range.begin, violations);
  ReadBound(request.has_end_time(), request.end_time(), "end_time", range.end, violations);
  if (violations.empty() && range.end <= range.begin)
    violations.Add("end_time", "must be after start_time");
  const int32_t max = request.max_occurrences();
  if (max < 0 || max > kBackfillOccurrencesMax) {
    violations.Add("max_occurrences", absl::StrCat("must be from 1 to ", kBackfillOccurrencesMax,
                                                   ", or 0 for ", kBackfillOccurrencesDefault));
  }
  if (!violations.empty()) return violations.ToStatus();
  range.occurrences_max = static_cast<size_t>(max == 0 ? kBackfillOccurrencesDefault : max);
  return range;
}

template <typename Answer>
absl::StatusOr<ScheduleChange> ChangeFor(MasterContext& context,
                                         const v1::CreateScheduleRequest& request,
                                         const Done<Answer>& done) {
  ASSIGN_OR_RETURN(std::string tenant, ParseTenantName(request.parent(), "parent"));
  FieldViolations violations;
  CheckRequestId(request.request_id(), violations);
  CheckNewId("schedule_id", request.schedule_id(), violations);
  if (!request.has_schedule()) violations.Add("schedule", "is required");
  absl::StatusOr<ScheduleDraft> draft = absl::InternalError("not read");
  if (request.has_schedule()) {
    v1::Schedule schedule = request.schedule();
    ApplyDefaults(context.defaults_of(tenant), /*mask=*/nullptr, schedule);
    draft = DraftOf(schedule, tenant);
    // An error of its own kind is shown as it is, unless there are others.
    if (!draft.ok() && violations.empty()) return draft.status();
    violations.AddStatus("", draft.status());
  }
  RETURN_IF_ERROR(violations.ToStatus());
  const std::string id =
      request.schedule_id().empty() ? context.NewUid().ToHex() : request.schedule_id();
  ScheduleChange change{.name = {tenant, id},
                        .mark = MarkOf(tenant, "CreateSchedule", request, done)};
  change.decide = [draft = *std::move(draft)](const ChangeInput& input) {
    return DecideCreate(input, draft);
  };
  change.response = std::make_unique<v1::Schedule>();
  change.validate_only = request.validate_only();
  return change;
}

template <typename Answer>
absl::StatusOr<ScheduleChange> ChangeFor(MasterContext& context,
                                         const v1::UpdateScheduleRequest& request,
                                         const Done<Answer>& done) {
  if (!request.has_schedule()) return InvalidField("schedule", "is required");
  ASSIGN_OR_RETURN(ScheduleChange change,
                   ChangeOf<v1::Schedule>("UpdateSchedule", request.schedule().name(),
                                          "schedule.name", request, done, &DecideUpdate));
  v1::UpdateScheduleRequest filled = request;
  ApplyDefaults(context.defaults_of(change.name.tenant), &request.update_mask(),
                *filled.mutable_schedule());
  change.decide = [filled = std::move(filled)](const ChangeInput& input) {
    return DecideUpdate(input, filled);
  };
  return change;
}

template <typename Answer>
absl::StatusOr<ScheduleChange> ChangeFor(MasterContext&, const v1::DeleteScheduleRequest& request,
                                         const Done<Answer>& done) {
  ASSIGN_OR_RETURN(ScheduleChange change,
                   ChangeOf<google::protobuf::Empty>("DeleteSchedule", request.name(), "name",
                                                     request, done, &DecideDelete));
  change.takes_parked = true;
  return change;
}

template <typename Request, typename Response>
void Change(MasterContext& context, const Request& request, Done<Response> done) {
  if (!context.ready) return context.Refuse(NotReady(), std::move(done));
  absl::StatusOr<ScheduleChange> change = ChangeFor(context, request, done);
  if (!change.ok()) return context.Refuse(change.status(), std::move(done));
  ChangeSchedule(context, *std::move(change), As(std::move(done)));
}

// Says for which tenant the request is. A creation of a batch may leave it out: it is the batch's.
absl::string_view FieldOfTenant(const std::string& parent, v1::CreateScheduleRequest& request) {
  if (request.parent().empty()) request.set_parent(parent);
  return "parent";
}
absl::string_view FieldOfTenant(const std::string&, const v1::UpdateScheduleRequest&) {
  return "schedule.name";
}
absl::string_view FieldOfTenant(const std::string&, const v1::DeleteScheduleRequest&) {
  return "name";
}

void Shorten(v1::ScheduleResult& result) {
  if (result.has_schedule()) {
    v1::Schedule schedule;
    schedule.set_name(result.schedule().name());
    schedule.set_uid(result.schedule().uid());
    schedule.set_version(result.schedule().version());
    schedule.set_etag(result.schedule().etag());
    *result.mutable_schedule() = std::move(schedule);
  } else if (result.has_error()) {
    result.mutable_error()->clear_message();
    auto& details = *result.mutable_error()->mutable_details();
    details.erase(std::remove_if(details.begin(), details.end(),
                                 [](const google::protobuf::Any& detail) {
                                   return !detail.Is<google::rpc::ErrorInfo>();
                                 }),
                  details.end());
  }
}

// Without payloads. Once the results have kFullResultsBytesMax bytes, the further ones are short.
void ShowResults(std::vector<ScheduleAnswer> answers,
                 google::protobuf::RepeatedPtrField<v1::ScheduleResult>& results) {
  size_t bytes = 0;
  for (ScheduleAnswer& answer : answers) {
    v1::ScheduleResult& result = *results.Add();
    if (!answer.ok()) {
      *result.mutable_error() = ToRpcStatus(answer.status());
    } else if (auto* schedule = DynamicCastToGenerated<v1::Schedule>(answer->get())) {
      schedule->clear_payload();
      *result.mutable_schedule() = std::move(*schedule);
    }
    bytes += result.ByteSizeLong();
    if (bytes > kFullResultsBytesMax) Shorten(result);
  }
}

template <typename Requests, typename Response>
void ChangeMany(MasterContext& context, Requests batch, Done<Response> done) {
  if (!context.ready) return context.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<std::string> tenant = ParseTenantName(batch.parent(), "parent");
  FieldViolations violations;
  violations.AddStatus("", tenant.status());
  if (batch.requests().empty() || batch.requests_size() > kBatchSchedulesMax)
    violations.Add("requests", absl::StrCat("must hold 1 to ", kBatchSchedulesMax, " requests"));
  if (const size_t bytes = batch.ByteSizeLong(); bytes > kBatchBytesMax) {
    violations.Add("requests", absl::StrCat("have ", bytes, " bytes together; at most ",
                                            kBatchBytesMax, " are allowed"));
  }
  if (!violations.empty()) return context.Refuse(violations.ToStatus(), std::move(done));
  std::vector<absl::StatusOr<ScheduleChange>> changes;
  for (auto& request : *batch.mutable_requests()) {
    const absl::string_view field = FieldOfTenant(batch.parent(), request);
    if (batch.validate_only()) request.set_validate_only(true);
    absl::StatusOr<ScheduleChange> change = ChangeFor(context, request, done);
    if (change.ok() && change->name.tenant != *tenant)
      change = InvalidField(field, "must be of the parent of the batch");
    changes.push_back(std::move(change));
  }
  ChangeSchedules(context, std::move(changes),
                  [done = std::move(done)](std::vector<ScheduleAnswer> answers) mutable {
                    Response response;
                    ShowResults(std::move(answers), *response.mutable_results());
                    done(std::move(response));
                  });
}

}  // namespace

void ScheduleService::CreateSchedule(v1::CreateScheduleRequest request, Done<v1::Schedule> done) {
  Change(context_, request, std::move(done));
}

void ScheduleService::UpdateSchedule(v1::UpdateScheduleRequest request, Done<v1::Schedule> done) {
  Change(context_, request, std::move(done));
}

void ScheduleService::DeleteSchedule(v1::DeleteScheduleRequest request,
                                     Done<google::protobuf::Empty> done) {
  Change(context_, request, std::move(done));
}

void ScheduleService::BatchCreateSchedules(v1::BatchCreateSchedulesRequest request,
                                           Done<v1::BatchCreateSchedulesResponse> done) {
  ChangeMany(context_, std::move(request), std::move(done));
}

void ScheduleService::BatchUpdateSchedules(v1::BatchUpdateSchedulesRequest request,
                                           Done<v1::BatchUpdateSchedulesResponse> done) {
  ChangeMany(context_, std::move(request), std::move(done));
}

void ScheduleService::BatchDeleteSchedules(v1::BatchDeleteSchedulesRequest request,
                                           Done<v1::BatchDeleteSchedulesResponse> done) {
  ChangeMany(context_, std::move(request), std::move(done));
}

void ScheduleService::GetSchedule(v1::GetScheduleRequest request, Done<v1::Schedule> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  absl::StatusOr<ScheduleName> name = ParseScheduleName(request.name(), "name");
  if (!name.ok()) return context_.Refuse(name.status(), std::move(done));
  ReadSchedule(context_, *std::move(name),
               [this, done = std::move(done)](absl::StatusOr<StoredSchedule> stored) mutable {
                 if (!stored.ok()) return done(stored.status());
                 done(Show(*stored, context_.client.NowLow()));
               });
}

void ScheduleService::ListSchedules(v1::ListSchedulesRequest request,
                                    Done<v1::ListSchedulesResponse> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<std::string> tenant = ParseTenantName(request.parent(), "parent");
  if (!tenant.ok()) return context_.Refuse(tenant.status(), std::move(done));
  // A token is good for the same list only.
  std::string list =
      absl::StrCat("ListSchedules ", *tenant, " ", request.order_by(), " ", request.filter());
  const absl::StatusOr<int32_t> size = ReadPageSize(request.page_size());
  absl::StatusOr<std::string> begin = DecodePageToken(list, request.page_token());
  absl::StatusOr<ListFilter> filter = ReadScheduleFilter(request.filter(), *tenant);
  const bool descending = request.order_by() == "name desc";
  FieldViolations violations;
  violations.AddStatus("", size.status());
  violations.AddStatus("", begin.status());
  violations.AddStatus("", filter.status());
  if (!descending && !request.order_by().empty() && request.order_by() != "name")
    violations.Add("order_by", "must be \"name\" or \"name desc\"");
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));
  SearchSchedules(context_,
                  {.tenant = *tenant,
                   .begin = *std::move(begin),
                   .descending = descending,
                   .page_size = *size,
                   .filter = *std::move(filter)},
                  [list = std::move(list),
                   done = std::move(done)](absl::StatusOr<ShownSchedules> page) mutable {
                    if (!page.ok()) return done(page.status());
                    v1::ListSchedulesResponse response;
                    for (v1::Schedule& schedule : page->schedules)
                      *response.add_schedules() = std::move(schedule);
                    if (!page->next.empty())
                      response.set_next_page_token(EncodePageToken(list, page->next));
                    done(std::move(response));
                  });
}

void ScheduleService::PauseSchedule(v1::PauseScheduleRequest request, Done<v1::Schedule> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  FieldViolations violations;
  CheckShownText("reason", request.reason(), kPauseReasonCharsMax, violations);
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));
  absl::StatusOr<ScheduleChange> change =
      ChangeOf<v1::Schedule>("PauseSchedule", request.name(), "name", request, done, &DecidePause);
  if (!change.ok()) return context_.Refuse(change.status(), std::move(done));
  ChangeSchedule(context_, *std::move(change), As(std::move(done)));
}

void ScheduleService::ResumeSchedule(v1::ResumeScheduleRequest request, Done<v1::Schedule> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  using Decide = absl::StatusOr<Decision> (*)(const ChangeInput&, const v1::ResumeScheduleRequest&);
  absl::StatusOr<ScheduleChange> change = ChangeOf<v1::Schedule>(
      "ResumeSchedule", request.name(), "name", request, done, Decide(nullptr));
  if (!change.ok()) return context_.Refuse(change.status(), std::move(done));
  change->takes_parked = true;
  auto launches = std::make_shared<std::vector<WaitingLaunch>>();
  change->read_more = [this, launches](const ChangeInput& input, auto read) {
    launches->clear();
    if (input.snapshot.state.kind() != storage::v1::SCHEDULE_STATE_KIND_PAUSED)
      return read(absl::OkStatus());
    ReadWaitingLaunches(context_, input,
                        [launches, read = std::move(read)](
                            absl::StatusOr<std::vector<WaitingLaunch>> found) mutable {
                          if (found.ok()) *launches = *std::move(found);
                          read(found.status());
                        });
  };
  change->decide = [launches, request](const ChangeInput& input) {
    return DecideResume(input, *launches, request);
  };
  ChangeSchedule(context_, *std::move(change), As(std::move(done)));
}

void ScheduleService::TriggerSchedule(v1::TriggerScheduleRequest request, Done<v1::Run> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  if (request.event_count() < 0 || request.event_count() > kEventCountMax) {
    return context_.Refuse(
        InvalidField("event_count", absl::StrCat("must be from 1 to ", kEventCountMax,
                                                 ", or 0 for the schedule's own")),
        std::move(done));
  }
  absl::StatusOr<ScheduleChange> change =
      ChangeOf<v1::Run>("TriggerSchedule", request.name(), "name", request, done, &DecideTrigger);
  if (!change.ok()) return context_.Refuse(change.status(), std::move(done));
  change->waits_for_emitter = false;
  ChangeSchedule(context_, *std::move(change), As(std::move(done)));
}

void ScheduleService::BackfillSchedule(v1::BackfillScheduleRequest request,
                                       Done<v1::BackfillScheduleResponse> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  absl::StatusOr<BackfillRange> range = ReadRange(request);
  if (!range.ok()) return context_.Refuse(range.status(), std::move(done));
  if (Perturb(context_.runtime, Site::kMasterBackfillOfOne)) range->occurrences_max = 1;
  using Decide =
      absl::StatusOr<Decision> (*)(const ChangeInput&, const v1::BackfillScheduleRequest&);
  absl::StatusOr<ScheduleChange> change = ChangeOf<v1::BackfillScheduleResponse>(
      "BackfillSchedule", request.name(), "name", request, done, Decide(nullptr));
  if (!change.ok()) return context_.Refuse(change.status(), std::move(done));
  auto scope = std::make_shared<BackfillScope>();
  change->read_more = [this, scope, range = *range](const ChangeInput& input, auto read) {
    // Not of a repeat: what another master has accepted need not be past by the clock of this one.
    if (range.end > input.now) {
      FieldViolations violations;
      violations.Add("end_time", "must not be after now");
      return read(violations.ToStatus());
    }
    ReadBackfill(context_, ScopeOf(input, range),
                 [scope, read = std::move(read)](absl::StatusOr<BackfillScope> found) mutable {
                   if (found.ok()) *scope = *std::move(found);
                   read(found.status());
                 });
  };
  change->decide = [scope, etag = request.etag()](const ChangeInput& input) {
    return DecideBackfill(input, *scope, etag);
  };
  change->waits_for_emitter = false;
  ChangeSchedule(context_, *std::move(change), As(std::move(done)));
}

void ScheduleService::ListScheduleVersions(v1::ListScheduleVersionsRequest request,
                                           Done<v1::ListScheduleVersionsResponse> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  absl::StatusOr<ScheduleName> name = ParseScheduleName(request.parent(), "parent");
  if (!name.ok()) return context_.Refuse(name.status(), std::move(done));
  ListVersionsOf(context_, *std::move(name), std::move(done));
}

void ScheduleService::PreviewSchedule(v1::PreviewScheduleRequest request,
                                      Done<v1::PreviewScheduleResponse> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  auto answer = [this, request,
                 done = std::move(done)](absl::StatusOr<Calendars> calendars) mutable {
    if (!calendars.ok()) return done(calendars.status());
    done(Preview(request, *calendars, context_.client.NowLow()));
  };
  const absl::StatusOr<std::string> tenant = ParseTenantName(request.parent(), "parent");
  if (!request.calendar().empty() && tenant.ok())
    return ReadCalendars(context_, *tenant, std::move(answer));
  context_.executor->Post([answer = std::move(answer)]() mutable { answer(Calendars()); });
}

void ScheduleService::ForecastLoad(v1::ForecastLoadRequest request,
                                   Done<v1::ForecastLoadResponse> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  absl::StatusOr<ForecastQuery> query = ReadForecast(request, context_.client.NowLow());
  if (!query.ok()) return context_.Refuse(query.status(), std::move(done));
  if (forecasts_.fetch_add(1) >= kForecastsAtOnceMax) {
    --forecasts_;
    return context_.Refuse(TooManyForecasts(), std::move(done));
  }
  master::ForecastLoad(
      context_, *std::move(query),
      [this, done = std::move(done)](absl::StatusOr<v1::ForecastLoadResponse> answer) mutable {
        --forecasts_;
        done(std::move(answer));
      });
}

}  // namespace escapement::master
