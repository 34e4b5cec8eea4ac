// PlanTakeover: finds the events that a former owner of a queue shard has claimed and not ended.
//
// Pure: takes the rows of `inflight`.

#ifndef SERVICES_HANDLER_CLAIMS_TAKEOVER_H_
#define SERVICES_HANDLER_CLAIMS_TAKEOVER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/kv/kv_store.h"
#include "common/storage/event_id.h"
#include "common/storage/inflight_table.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement::handler {

struct LeftEntry {
  storage::v1::ClaimRecord::Entry record;
  std::vector<IndexSlice> open;  // ascending; empty if all events have ended
};

struct LeftClaim {
  ClaimId id;
  int64_t claim_time_micros = 0;
  int64_t timeout_max_micros = 0;
  uint32_t ends_written = 0;  // the numbers of its end rows are smaller
  std::vector<LeftEntry> entries;
};

struct Takeover {
  std::vector<LeftClaim> claims;  // in key order; each has an open event
  // Rows to delete: ends without a claim, and claims whose events have all ended.
  std::vector<std::string> garbage_keys;
  // Claims that cannot be read. They stay in the store: no other row has their events.
  size_t broken = 0;
};

Takeover PlanTakeover(const std::vector<kv::Entry>& inflight);

// Returns the parts of `from` that are not in `without`, ascending.
std::vector<IndexSlice> Subtract(std::vector<IndexSlice> from, std::vector<IndexSlice> without);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_CLAIMS_TAKEOVER_H_
