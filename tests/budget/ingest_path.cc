#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "services/master/testing/master_world.h"
#include "tests/budget/mark.h"
#include "tests/budget/paths.h"
#include "tests/budget/rocks_rig.h"

namespace escapement::budget {

void RunIngestPath(uint64_t events) {
  master::MasterWorld fixture;
  const absl::Time due = fixture.Now() + absl::Hours(1);
  std::vector<v1::IngestRequest> batches;
  for (uint64_t first = 0; first < events; first += kBatchEvents) {
    batches.push_back(
        master::ValidBatch(due, static_cast<int>(std::min(kBatchEvents, events - first))));
    for (v1::IngestEvent& event : *batches.back().mutable_events())
      event.set_payload(std::string(kPayloadBytes, 'p'));
  }
  // The first batch stores the delivery record that all batches share.
  if (!fixture.Ingest(master::ValidBatch(due, 1)).ok()) std::abort();
  escapement_budget_mark();
  for (v1::IngestRequest& batch : batches) {
    if (!fixture.Ingest(std::move(batch)).ok()) std::abort();
  }
  escapement_budget_mark();
}

}  // namespace escapement::budget
