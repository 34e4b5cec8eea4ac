#include "services/master/events/event_service.h"

#include <string>
#include <utility>

#include "common/auth/audit_log.h"
#include "common/base/check.h"
#include "common/status/errors.h"
#include "services/master/errors.h"
#include "services/master/events/event_cancel.h"
#include "services/master/events/event_create.h"
#include "services/master/events/event_lookup.h"
#include "services/master/limits.h"
#include "services/master/requests/request_table.h"
#include "services/master/requests/resource_name.h"

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

}  // namespace

void EventService::CreateEvent(v1::CreateEventRequest request, Done<v1::Event> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<std::string> tenant = ParseTenantName(request.parent(), "parent");
  FieldViolations violations;
  CheckRequestId(request.request_id(), violations);
  if (!tenant.ok()) return context_.Refuse(tenant.status(), std::move(done));
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));
  RequestMark mark(*tenant, "CreateEvent", request.request_id(), request, *done.caller());
  v1::BatchCreateEventsRequest batch;
  *batch.add_requests() = std::move(request);
  CreateEvents(
      context_, cache_, *tenant, std::move(batch), /*single=*/true, std::move(mark),
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
  RequestMark mark(*tenant, "BatchCreateEvents", request.request_id(), request, *done.caller());
  CreateEvents(context_, cache_, *tenant, std::move(request), /*single=*/false, std::move(mark),
               std::move(done));
}

void EventService::GetEvent(v1::GetEventRequest request, Done<v1::Event> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  absl::StatusOr<EventName> name = ParseEventName(request.name(), "name");
  if (!name.ok()) return context_.Refuse(name.status(), std::move(done));
  LookUpEvent(context_, *name, ReadClaims::kIfDue,
              [name = request.name(),
               done = std::move(done)](absl::StatusOr<EventSighting> sighting) mutable {
                if (!sighting.ok()) return done(StoreFailed(sighting.status()));
                if (sighting->done.has_value()) return done(ShowEndedEvent(name, *sighting->done));
                if (!sighting->row.has_value()) return done(NotFound(name));
                v1::Event event = ShowWaitingEvent(
                    name, *sighting->row, sighting->claimed ? v1::RUNNING : v1::PENDING,
                    sighting->definition.has_value() ? &*sighting->definition : nullptr);
                if (sighting->key.lane <= kPriorityMax) event.set_priority(sighting->key.lane);
                done(std::move(event));
              });
}

void EventService::CancelEvent(v1::CancelEventRequest request, Done<v1::Event> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  absl::StatusOr<EventName> name = ParseEventName(request.name(), "name");
  FieldViolations violations;
  CheckRequestId(request.request_id(), violations);
  if (!name.ok()) return context_.Refuse(name.status(), std::move(done));
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));
  RequestMark mark(name->tenant, "CancelEvent", request.request_id(), request, *done.caller());
  CancelOneOffEvent(context_, *std::move(name), std::move(mark), std::move(done));
}

void EventService::IngestBatch(std::shared_ptr<const v1::IngestRequest> request,
                               IngestOptions options, Done<v1::IngestResponse> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  EventRowBuilder::Options rows;
  absl::StatusOr<std::string> tenant = ParseTenantName(request->parent(), "parent");
  if (!tenant.ok()) {
    context_.metrics.ingest_batches_refused.Increment();
    return context_.Refuse(tenant.status(), std::move(done));
  }
  rows.tenant = *tenant;
  rows.queue_shards = context_.layout.queue_shards;
  rows.now = context_.client.NowLow();
  rows.uid_high = context_.runtime.random().Next();
  rows.uid_low = context_.runtime.random().Next();
  absl::StatusOr<IngestPlan> made =
      PlanIngest(*request, options.return_ids, std::move(rows), *cache_);
  if (!made.ok()) {
    context_.metrics.ingest_batches_refused.Increment();
    return context_.Refuse(made.status(), std::move(done));
  }
  auto plan = std::make_shared<IngestPlan>(*std::move(made));
  // In a group of its own, since a refused event must not keep the entry from being written.
  auth::AddAuditRow(*tenant, auth::AuditRecordOf(*done.caller(), "Ingest", request->parent(), ""),
                    context_.client.NowLow(), plan->commit.groups.emplace_back());
  const int64_t bytes = static_cast<int64_t>(plan->payload_bytes);
  if (bytes_under_way_.fetch_add(bytes) + bytes > kIngestBytesUnderWayMax) {
    bytes_under_way_ -= bytes;
    context_.metrics.ingest_batches_refused.Increment();
    return context_.Refuse(
        ResourceExhausted("INGEST_BUSY", "too many batches wait for the store", kIngestBusyDelay),
        std::move(done));
  }
  context_.client.CommitAsync(
      std::move(plan->commit), context_.executor,
      [this, bytes, plan, cache = cache_, request = std::move(request),
       done = std::move(done)](absl::StatusOr<kv::CommitResult> result) mutable {
        CHECK_GE(bytes_under_way_.fetch_sub(bytes), bytes);
        if (!result.ok()) return done(StoreFailed(result.status()));
        cache->Add(plan->interned);
        v1::IngestResponse response = Answer(*request, *result, plan.get());
        context_.metrics.ingest_batches.Increment();
        context_.metrics.events_created.Increment(response.created_count());
        context_.metrics.events_existing.Increment(response.existing_count());
        done(std::move(response));
      });
}

}  // namespace escapement::master
