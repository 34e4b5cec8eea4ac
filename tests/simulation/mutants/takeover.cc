// Faults of handlers that take over the claims of others.

#include <string>

#include "common/storage/inflight_table.h"
#include "escapement/storage/v1/claim_takeover.pb.h"
#include "escapement/storage/v1/records.pb.h"
#include "tests/simulation/mutants/mutants.h"
#include "tests/simulation/mutants/rewriting.h"

namespace escapement::simulation {
namespace {

using kv::ColumnFamily;
using storage::v1::ClaimRecord;
using storage::v1::ClaimTakeoverRecord;

// The next owner takes over claims without waiting for attempts that may be under way.
Rewrite TakesOverUnwaited() {
  return {.value = [](ColumnFamily cf, const std::string& key, std::string* value) {
    const auto inflight = DecodeInflightKey(key);
    if (cf != ColumnFamily::kInflight || !inflight || !inflight->is_claim()) return;
    EditValue<ClaimRecord>(value, [](ClaimRecord* claim) {
      claim->set_delivery_timeout_max_micros(0);
      claim->set_claim_time_micros(claim->claim_time_micros() - 60'000'000);
    });
  }};
}

Rewrite ForgetsLostClaims() {
  return {.value = [](ColumnFamily cf, const std::string& key, std::string* value) {
    const auto inflight = DecodeInflightKey(key);
    if (cf != ColumnFamily::kInflight || !inflight ||
        inflight->kind != InflightKey::Kind::kTakeover)
      return;
    EditValue<ClaimTakeoverRecord>(value,
                                   [](ClaimTakeoverRecord* record) { record->set_lost_claims(0); });
  }};
}

// Says of each claim that no attempt of its former owner is under way.
Rewrite NotesThatAllIsQuiet() {
  return {.value = [](ColumnFamily cf, const std::string& key, std::string* value) {
    const auto inflight = DecodeInflightKey(key);
    if (cf != ColumnFamily::kInflight || !inflight ||
        inflight->kind != InflightKey::Kind::kTakeover)
      return;
    EditValue<ClaimTakeoverRecord>(
        value, [](ClaimTakeoverRecord* record) { record->set_quiet_from_micros(1); });
  }};
}

// Happens at takeover.
Rewrite MissesLastClaim() {
  return {.scan = [](const kv::ScanRequest& request, kv::ScanResult* result) {
    if (request.cf == ColumnFamily::kInflight && !result->entries.empty())
      result->entries.pop_back();
  }};
}

}  // namespace

std::vector<Mutant> TakeoverMutants() {
  return {
      {.name = "handler_takes_over_unwaited",
       .fault = "what a former owner has claimed is sent again at once",
       .rules = {"attempts"},
       .store = Handlers(TakesOverUnwaited),
       .first_seed = 70},
      {.name = "handler_misses_last_claim",
       .fault = "whoever takes a shard over does not see the last claim in it",
       .rules = {"lost"},
       .store = Handlers(MissesLastClaim)},
      {.name = "handler_lock_without_proof",
       .fault = "instances of another host count as dead",
       .rules = {"stale_epoch", "attempts"},
       .lock_without_proof = true},
      {.name = "handler_forgets_lost_claims",
       .fault = "it is not counted how many handlers were lost with a claim",
       .rules = {"attempts"},
       .store = Handlers(ForgetsLostClaims),
       .seed_step = 5},
      {.name = "handler_notes_that_all_is_quiet",
       .fault = "notes about claims of former owners say that these are dead",
       .rules = {"attempts"},
       .store = Handlers(NotesThatAllIsQuiet)},
  };
}

}  // namespace escapement::simulation
