#include "services/master/events/event_service.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/auth/audit_log.h"
#include "common/base/check.h"
#include "common/records/row_judge.h"
#include "common/status/errors.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/events/event_changes.h"
#include "services/master/events/event_filter.h"
#include "services/master/events/event_lookup.h"
#include "services/master/events/event_query.h"
#include "services/master/requests/range_reader.h"
#include "services/master/requests/request_table.h"
#include "services/master/requests/resource_name.h"
#include "services/master/target_states/target_service.h"

namespace escapement::master {
namespace {

v1::IngestResponse Answer(const v1::IngestRequest& request, const kv::CommitResult& result,
                          IngestPlan* plan) {
  v1::IngestResponse response;
  response.set_batch_number(request.batch_number());
  int created = plan->server_made_count;
  int existing = 0;
  int position = 0;
  for (size_t i = plan->first_client_group; i < result.verdicts.size(); ++i, ++position) {
    // The groups are in the order of the events with a client-chosen id.
    while (request.events(position).event_id().empty()) ++position;
    if (!result.verdicts[i].applied) response.add_existing_positions(position);
    ++(result.verdicts[i].applied ? created : existing);
  }
  response.set_created_count(created);
  response.set_existing_count(existing);
  response.mutable_event_ids()->Reserve(static_cast<int>(plan->event_ids.size()));
  for (std::string& id : plan->event_ids) response.add_event_ids(std::move(id));
  return response;
}

// Adds the cancelled ones of the events that existed.
void AnswerWithCancelled(MasterContext& context, const std::string& tenant,
                         const v1::IngestRequest& request, v1::IngestResponse response,
                         Done<v1::IngestResponse> done) {
  std::vector<std::string> ids;
  for (const int position : response.existing_positions())
    ids.push_back(request.events(position).event_id());
  FindCancelled(context, tenant, ids,
                [response = std::move(response),
                 done = std::move(done)](absl::StatusOr<std::vector<bool>> cancelled) mutable {
                  if (!cancelled.ok()) return done(cancelled.status());
                  for (int i = 0; i < response.existing_positions_size(); ++i) {
                    if ((*cancelled)[static_cast<size_t>(i)])
                      response.add_cancelled_positions(response.existing_positions(i));
                  }
                  done(std::move(response));
                });
}

struct EventOrder {
  bool ended = false;  // events that have ended, else those that have not
  bool descending = false;
};

absl::StatusOr<EventOrder> ReadOrder(absl::string_view order_by, const ListFilter& filter) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(order_by, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  const std::optional<v1::EventState> state = StateOfMatches(filter);
  const bool needs_ended = state == v1::ENDED;
  if (words.empty()) return EventOrder{.ended = needs_ended, .descending = needs_ended};
  const bool known =
      (words[0] == "due_time" || words[0] == "complete_time") &&
      (words.size() == 1 || (words.size() == 2 && (words[1] == "desc" || words[1] == "asc")));
  if (!known)
    return InvalidField("order_by",
                        "must be \"due_time\" or \"complete_time\", with or without desc");
  const EventOrder order{.ended = words[0] == "complete_time",
                         .descending = words.back() == "desc"};
  if (order.ended != needs_ended && state.has_value()) {
    return InvalidField("order_by",
                        order.ended ? "\"complete_time\" lists only events that have ended, and "
                                      "the filter needs others: use \"due_time\""
                                    : "\"due_time\" lists only events that have not ended, and "
                                      "the filter needs others: use \"complete_time\"");
  }
  return order;
}

}  // namespace

void EventService::CreateEvent(v1::CreateEventRequest request, Done<v1::Event> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<std::string> tenant = ParseTenantName(request.parent(), "parent");
  FieldViolations violations;
  CheckRequestId(request.request_id(), violations);
  if (!tenant.ok()) return context_.Refuse(tenant.status(), std::move(done));
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));
  const bool dry = request.validate_only();
  RequestMark mark = MarkOf(*tenant, "CreateEvent", request, done);
  v1::BatchCreateEventsRequest batch;
  *batch.add_requests() = std::move(request);
  CreateOptions create{
      .single = true, .validate_only = dry, .trace_parent = done.caller()->trace_parent};
  CreateEvents(
      context_, cache_, *tenant, std::move(batch), std::move(create), std::move(mark),
      [done = std::move(done)](absl::StatusOr<v1::BatchCreateEventsResponse> response) mutable {
        if (!response.ok()) return done(response.status());
        done(std::move(*response->mutable_events(0)));
      });
}

void EventService::BatchCreateEvents(v1::BatchCreateEventsRequest request,
                                     Done<v1::BatchCreateEventsResponse> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<std::string> tenant = ParseTenantName(request.parent(), "parent");
  FieldViolations violations;
  CheckRequestId(request.request_id(), violations);
  if (!tenant.ok()) return context_.Refuse(tenant.status(), std::move(done));
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));
  const bool dry = request.validate_only();
  RequestMark mark = MarkOf(*tenant, "BatchCreateEvents", request, done);
  CreateOptions create{.validate_only = dry, .trace_parent = done.caller()->trace_parent};
  CreateEvents(context_, cache_, *tenant, std::move(request), std::move(create), std::move(mark),
               std::move(done));
}

template <typename Request>
void EventService::Replace(absl::string_view method, Request& request, EventChange change,
                           Done<v1::Event> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  absl::StatusOr<EventName> name = ParseEventName(request.event().name(), "event.name");
  FieldViolations violations;
  CheckRequestId(request.request_id(), violations);
  if (!name.ok()) return context_.Refuse(name.status(), std::move(done));
  CheckClientEventId(name->event, "event.name", violations);
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));
  RequestMark mark = MarkOf(name->tenant, method, request, done);
  change.validate_only = request.validate_only();
  change.trace_parent = done.caller()->trace_parent;
  change.event = std::move(*request.mutable_event());
  ReplaceEvent(context_, cache_, *std::move(name), std::move(change), std::move(mark),
               std::move(done));
}

void EventService::UpsertEvent(v1::UpsertEventRequest request, Done<v1::Event> done) {
  Replace("UpsertEvent", request, {.replace_ended = request.replace_ended()}, std::move(done));
}

void EventService::UpdateEvent(v1::UpdateEventRequest request, Done<v1::Event> done) {
  Replace("UpdateEvent", request, {.mask = request.update_mask()}, std::move(done));
}

void EventService::GetEvent(v1::GetEventRequest request, Done<v1::Event> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  absl::StatusOr<EventName> name = ParseEventName(request.name(), "name");
  if (!name.ok()) return context_.Refuse(name.status(), std::move(done));
  LookUpEvent(
      context_, *name, ReadClaims::kIfDue,
      [this, tenant = name->tenant, name = request.name(),
       done = std::move(done)](absl::StatusOr<EventSighting> sighting) mutable {
        if (!sighting.ok()) return done(StoreFailed(sighting.status()));
        if (!sighting->done.has_value() && !sighting->row.has_value()) return done(NotFound(name));
        if (sighting->done.has_value()) {
          v1::Event event = ShowEndedEvent(name, *sighting->done);
          event.set_etag(sighting->Etag());
          return done(std::move(event));
        }
        v1::Event event =
            ShowWaitingEvent(name, *sighting->row, sighting->claimed ? v1::RUNNING : v1::PENDING,
                             sighting->definition.has_value() ? &*sighting->definition : nullptr);
        event.set_etag(sighting->Etag());
        const absl::Time now = context_.client.NowLow();
        if (sighting->priority.has_value()) event.set_priority(*sighting->priority);
        ShowNextAttempt(sighting->due_time, now, event);
        if (event.state() != v1::PENDING || event.has_next_attempt_time() ||
            !sighting->definition.has_value())
          return done(std::move(event));
        ReadHeldTargets(context_, tenant, {TargetKeyOf(sighting->definition->delivery().target())},
                        [event = std::move(event), now,
                         done = std::move(done)](absl::StatusOr<HeldTargets> held) mutable {
                          if (!held.ok()) return done(held.status());
                          if (!held->empty()) ShowTargetHeld(held->begin()->second, now, event);
                          done(std::move(event));
                        });
      });
}

void EventService::ListEvents(v1::ListEventsRequest request, Done<v1::ListEventsResponse> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  absl::StatusOr<std::string> tenant = ParseTenantName(request.parent(), "parent");
  if (!tenant.ok()) return context_.Refuse(tenant.status(), std::move(done));
  // A token is good for the same list only.
  std::string list =
      absl::StrCat("ListEvents ", *tenant, " ", request.order_by(), " ", request.filter());
  const absl::StatusOr<int32_t> size = ReadPageSize(request.page_size());
  absl::StatusOr<std::string> position = DecodePageToken(list, request.page_token());
  absl::StatusOr<ListFilter> filter = ReadEventFilter(request.filter(), *tenant);
  const absl::StatusOr<EventOrder> order =
      ReadOrder(request.order_by(), filter.ok() ? *filter : ListFilter());
  FieldViolations violations;
  violations.AddStatus("", size.status());
  violations.AddStatus("", position.status());
  violations.AddStatus("", filter.status());
  violations.AddStatus("", order.status());
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));
  EventQuery query{.tenant = *std::move(tenant),
                   .descending = order->descending,
                   .page_size = static_cast<size_t>(*size),
                   .position = *std::move(position),
                   .filter = *std::move(filter)};
  const auto read = order->ended ? &ListEndedEvents : &ListPendingEvents;
  read(context_, std::move(query),
       [list = std::move(list), done = std::move(done)](absl::StatusOr<ShownEvents> page) mutable {
         if (!page.ok()) return done(page.status());
         v1::ListEventsResponse response;
         for (v1::Event& event : page->events) *response.add_events() = std::move(event);
         if (!page->next.empty()) response.set_next_page_token(EncodePageToken(list, page->next));
         done(std::move(response));
       });
}

void EventService::CancelEvent(v1::CancelEventRequest request, Done<v1::Event> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  absl::StatusOr<EventName> name = ParseEventName(request.name(), "name");
  FieldViolations violations;
  CheckRequestId(request.request_id(), violations);
  if (!name.ok()) return context_.Refuse(name.status(), std::move(done));
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));
  RequestMark mark = MarkOf(name->tenant, "CancelEvent", request, done);
  CancelOneOffEvent(context_, *std::move(name), request.etag(), std::move(mark),
                    request.validate_only(), std::move(done));
}

void EventService::IngestBatch(std::shared_ptr<const v1::IngestRequest> request,
                               IngestOptions options, Done<v1::IngestResponse> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  absl::StatusOr<std::string> tenant = ParseTenantName(request->parent(), "parent");
  if (!tenant.ok()) {
    context_.metrics.ingest_batches_refused.Increment();
    return context_.Refuse(tenant.status(), std::move(done));
  }
  IngestUnder({.tenant = *std::move(tenant), .request = std::move(request), .options = options},
              std::move(done));
}

void EventService::IngestUnder(Batch batch, Done<v1::IngestResponse> done) {
  const std::set<std::string> ids = PoliciesOf(*batch.request, batch.tenant);
  const std::string tenant = batch.tenant;
  ReadPolicies(context_, tenant, ids,
               [this, batch = std::move(batch),
                done = std::move(done)](absl::StatusOr<Policies> policies) mutable {
                 if (!policies.ok()) return done(policies.status());
                 CommitBatch(std::move(batch), *std::move(policies), std::move(done));
               });
}

void EventService::CommitBatch(Batch batch, Policies policies, Done<v1::IngestResponse> done) {
  EventRowBuilder::Options rows;
  rows.tenant = batch.tenant;
  rows.queue_shards = context_.layout.queue_shards;
  rows.policy_shards = context_.layout.policy_shards;
  rows.now = context_.client.NowLow();
  rows.uid_high = context_.runtime.random().Next();
  rows.uid_low = context_.runtime.random().Next();
  rows.trace_parent = done.caller()->trace_parent;
  kv::Group audit;
  auth::AddAuditRow(batch.tenant,
                    auth::AuditRecordOf(*done.caller(), "Ingest", batch.request->parent(), ""),
                    rows.now, rows.uid_low, audit);
  absl::StatusOr<IngestPlan> made =
      PlanIngest(*batch.request, batch.options.return_ids, std::move(rows), policies, *cache_,
                 context_.secrets, std::move(audit));
  if (!made.ok()) {
    context_.metrics.ingest_batches_refused.Increment();
    return context_.Refuse(made.status(), std::move(done));
  }
  auto plan = std::make_shared<IngestPlan>(*std::move(made));
  const int64_t bytes = static_cast<int64_t>(plan->bytes);
  if (bytes_under_way_.fetch_add(bytes) + bytes > kIngestBytesUnderWayMax) {
    bytes_under_way_ -= bytes;
    context_.metrics.ingest_batches_refused.Increment();
    return context_.Refuse(
        ResourceExhausted("INGEST_BUSY", "too many batches wait for the store", kIngestBusyDelay),
        std::move(done));
  }
  context_.client.CommitAsync(
      std::move(plan->commit), context_.executor,
      [this, bytes, plan, cache = cache_, limited = !policies.empty(), batch = std::move(batch),
       done = std::move(done)](absl::StatusOr<kv::CommitResult> result) mutable {
        CHECK_GE(bytes_under_way_.fetch_sub(bytes), bytes);
        // A policy was deleted since it was read: the plan will say so.
        if (absl::IsFailedPrecondition(result.status()) && limited &&
            ++batch.attempts <= kChangeAttemptsMax)
          return IngestUnder(std::move(batch), std::move(done));
        if (!result.ok()) return done(StoreFailed(result.status()));
        cache->Add(plan->interned);
        v1::IngestResponse response = Answer(*batch.request, *result, plan.get());
        context_.metrics.ingest_batches.Increment();
        context_.metrics.events_created.Increment(response.created_count());
        context_.metrics.events_existing.Increment(response.existing_count());
        if (response.existing_count() == 0) return done(std::move(response));
        AnswerWithCancelled(context_, batch.tenant, *batch.request, std::move(response),
                            std::move(done));
      });
}

}  // namespace escapement::master
