// EventApi: what the master promises about one-off events. The contract of each method is that of
// its RPC in escapement/v1/event_service.proto; errors carry the details of common/status/errors.h.
//
// Threads: methods may be called from any thread and never block; see api/done.h for the answers.

#ifndef SERVICES_MASTER_API_EVENT_API_H_
#define SERVICES_MASTER_API_EVENT_API_H_

#include <memory>

#include "escapement/v1/event_service.pb.h"
#include "services/master/api/done.h"

namespace escapement::master {

struct IngestOptions {
  bool return_ids = false;  // give back the server-made ids
};

class EventApi {
 public:
  virtual ~EventApi() = default;

  virtual void CreateEvent(v1::CreateEventRequest request, Done<v1::Event> done) = 0;
  virtual void BatchCreateEvents(v1::BatchCreateEventsRequest request,
                                 Done<v1::BatchCreateEventsResponse> done) = 0;
  virtual void GetEvent(v1::GetEventRequest request, Done<v1::Event> done) = 0;
  virtual void ListEvents(v1::ListEventsRequest request, Done<v1::ListEventsResponse> done) = 0;
  virtual void CancelEvent(v1::CancelEventRequest request, Done<v1::Event> done) = 0;

  // One batch of an Ingest stream. `request` carries the parent and the defaults that are in force
  // (the stream remembers them); nobody changes it until `done` has run or was destroyed. An error:
  // nothing of the batch was written. Several batches may be under way at once. The batch is parsed
  // and built on the calling thread.
  virtual void IngestBatch(std::shared_ptr<const v1::IngestRequest> request, IngestOptions options,
                           Done<v1::IngestResponse> done) = 0;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_API_EVENT_API_H_
