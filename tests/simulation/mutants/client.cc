// Faults of the store, its client and the store's clock, planted in all services.

#include <string>
#include <utility>

#include "tests/simulation/mutants/mutants.h"
#include "tests/simulation/mutants/rewriting.h"

namespace escapement::simulation {
namespace {

using kv::ColumnFamily;

constexpr char kAll[] = "";

Rewrite MissesBatch() {
  return {.hears = [every = Every(30)](ColumnFamily) mutable { return !every(); }};
}

Rewrite MissesLastEntry() {
  return {
      .scan = [every = Every(30)](const kv::ScanRequest& request, kv::ScanResult* result) mutable {
        if (request.cf == ColumnFamily::kLeases || result->entries.empty() || !every()) return;
        result->entries.pop_back();
      }};
}

Rewrite WatchesFromNext() {
  return {.watch = [](kv::WatchRequest* request) {
    if (request->from_seq != kv::kWatchFromNow) ++request->from_seq;
  }};
}

Rewrite StealsLeases() {
  return {.commit =
              [](kv::CommitRequest* request) {
                WaiveConditions(request, [](const kv::Condition& condition) {
                  return condition.cf == ColumnFamily::kLeases &&
                         condition.kind == kv::Condition::Kind::kStampPassed;
                });
              },
          .ahead = absl::Seconds(1)};
}

}  // namespace

std::vector<Mutant> ClientMutants() {
  return {
      {.name = "store_acknowledges_before_sync",
       .fault = "the store answers before its disk has synced; what is not, a kill takes",
       .rules = {"acknowledged", "lost"},
       .unsynced = absl::Milliseconds(100)},
      {.name = "store_follows_any_step_at_once",
       .fault = "store time steps to the wall clock as soon as that is ahead",
       .rules = {"clock"},
       .cast = Cast::kClocks,
       .clock = ClockFault::kFollowsAtOnce},
      {.name = "store_ignores_other_hosts",
       .fault = "a step that the kernel calls synchronised is followed whatever other hosts show",
       .rules = {"clock"},
       .cast = Cast::kClocks,
       .clock = ClockFault::kIgnoresOtherHosts},
      {.name = "store_time_goes_back",
       .fault = "a restart begins at the wall clock, whatever has been told",
       .rules = {"clock"},
       .cast = Cast::kClocks,
       .clock = ClockFault::kBeginsAtWallClock},
      {.name = "client_ignores_slow_phase",
       .fault = "clients count at full pace while store time passes at half pace",
       .rules = {"early"},
       .cast = Cast::kClocks,
       .store = Rewriting(kAll, [] { return Rewrite{.ignores_slow_phase = true}; })},
      {.name = "client_resends_anew",
       .fault = "a commit whose answer is unknown is sent again as another one",
       .rules = {"lost", "final", "stale_epoch", "answer", "claimed"},
       .store = Rewriting(kAll, [] { return Rewrite{.resends_anew = true}; })},
      {.name = "client_takes_unknown_for_refused",
       .fault = "a commit whose answer is unknown counts as refused",
       .rules = {"lost", "answer"},
       .store = Rewriting(kAll, [] { return Rewrite{.refuses_unknown = true}; })},
      {.name = "client_ignores_lag",
       .fault = "a watch that has ended is not opened again",
       .rules = {"lost", "overdue"},
       .store = Rewriting(kAll, [] { return Rewrite{.ignores_lag = true}; })},
      {.name = "client_watches_from_next",
       .fault = "a watch begins one commit after what was read",
       .rules = {"lost", "overdue", "idle"},
       .store = Rewriting(kAll, WatchesFromNext),
       .first_seed = 33},
      {.name = "client_steals_leases",
       .fault =
           "a lease is taken over by a clock that is a second ahead, whether it has run out or not",
       .rules = {"stale_epoch"},
       .store = Rewriting(kAll, StealsLeases)},
      {.name = "client_misses_batch",
       .fault = "every thirtieth batch of watches gets lost",
       .rules = {"lost", "overdue"},
       .faults = false,
       .store = Rewriting(kAll, MissesBatch)},
      {.name = "client_misses_last_entry",
       .fault = "every thirtieth scan leaves its last entry out",
       .rules = {"lost"},
       .faults = false,
       .store = Rewriting(kAll, MissesLastEntry)},
  };
}

}  // namespace escapement::simulation
