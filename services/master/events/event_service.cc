#include "services/master/events/event_service.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
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
      context_, ingest_.cache, *tenant, std::move(batch), std::move(create), std::move(mark),
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
  CreateEvents(context_, ingest_.cache, *tenant, std::move(request), std::move(create),
               std::move(mark), std::move(done));
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
  ReplaceEvent(context_, ingest_.cache, *std::move(name), std::move(change), std::move(mark),
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
  master::IngestBatch(ingest_, *std::move(tenant), std::move(request), options, std::move(done));
}

}  // namespace escapement::master
