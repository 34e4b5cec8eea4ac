// What a former owner of a queue shard had claimed and not ended: claims minus ends.
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
  std::vector<IndexSlice> open;  // ascending; empty if all of it has ended
};

struct LeftClaim {
  ClaimId id;
  int64_t claim_time_micros = 0;
  int64_t timeout_max_micros = 0;
  uint32_t ends_written = 0;  // numbers of its ends are below
  std::vector<LeftEntry> entries;
};

struct Takeover {
  std::vector<LeftClaim> claims;  // in the order of their keys; each has something open
  // Ends without a claim, claims that have ended.
  std::vector<std::string> garbage_keys;
  // Claims that cannot be read. They stay, with their ends: nobody else knows of their events.
  size_t broken = 0;
};

Takeover PlanTakeover(const std::vector<kv::Entry>& inflight);

// `from` less `without`, ascending.
std::vector<IndexSlice> Subtract(std::vector<IndexSlice> from, std::vector<IndexSlice> without);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_CLAIMS_TAKEOVER_H_
