// EventService: one-off events. Check → decide → write → answer; every effect is one commit.
//
// Threads: as EventApi. No state but the cache of interned deliveries and the count of bytes under
// way.

#ifndef SERVICES_MASTER_EVENTS_EVENT_SERVICE_H_
#define SERVICES_MASTER_EVENTS_EVENT_SERVICE_H_

#include <memory>
#include <string>

#include "services/master/api/master_apis.h"
#include "services/master/base/master_context.h"
#include "services/master/events/event_changes.h"
#include "services/master/events/ingest_batch.h"

namespace escapement::master {

class EventService final : public EventApi {
 public:
  // `context` outlives the service.
  explicit EventService(MasterContext& context)
      : context_(context), ingest_{.context = context, .cache = std::make_shared<InternCache>()} {}

  void CreateEvent(v1::CreateEventRequest request, Done<v1::Event> done) override;
  void BatchCreateEvents(v1::BatchCreateEventsRequest request,
                         Done<v1::BatchCreateEventsResponse> done) override;
  void UpsertEvent(v1::UpsertEventRequest request, Done<v1::Event> done) override;
  void UpdateEvent(v1::UpdateEventRequest request, Done<v1::Event> done) override;
  void GetEvent(v1::GetEventRequest request, Done<v1::Event> done) override;
  void ListEvents(v1::ListEventsRequest request, Done<v1::ListEventsResponse> done) override;
  void CancelEvent(v1::CancelEventRequest request, Done<v1::Event> done) override;
  void IngestBatch(std::shared_ptr<const v1::IngestRequest> request, IngestOptions options,
                   Done<v1::IngestResponse> done) override;

  // The store refused the session: what it holds may be another store's.
  void ForgetInterned() { ingest_.cache->Clear(); }

 private:
  template <typename Request>
  void Replace(absl::string_view method, Request& request, EventChange change,
               Done<v1::Event> done);

  MasterContext& context_;
  IngestShared ingest_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_EVENTS_EVENT_SERVICE_H_
