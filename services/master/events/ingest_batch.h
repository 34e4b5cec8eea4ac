// IngestBatch: one batch of an ingestion, from the names that it needs to its answer.
//
//   policies and names ──► plan (event_ingest.h) ──► one commit ──► answer
//                                                         │            ▲
//                 records that the commit left out ───────┴── alone ───┘
//
// Records that replace or cancel an event which may be claimed, or has ended, are left out of the
// commit. They go one by one, as UpsertEvent and CancelEvent do.
//
// Threads: the callback runs on the context's executor.

#ifndef SERVICES_MASTER_EVENTS_INGEST_BATCH_H_
#define SERVICES_MASTER_EVENTS_INGEST_BATCH_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "services/master/api/master_apis.h"
#include "services/master/base/master_context.h"
#include "services/master/events/event_ingest.h"

namespace escapement::master {

// IngestShared: shared by the batches of a master.
struct IngestShared {
  MasterContext& context;
  const std::shared_ptr<InternCache> cache;
  std::atomic<int64_t> bytes_under_way = 0;  // those of commits without an answer
};

// `shared` outlives it. As EventApi::IngestBatch.
void IngestBatch(IngestShared& shared, std::string tenant,
                 std::shared_ptr<const v1::IngestRequest> request, IngestOptions options,
                 Done<v1::IngestResponse> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_EVENTS_INGEST_BATCH_H_
