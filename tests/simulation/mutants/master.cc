// Faults of masters: requests, changes of schedules, one-off events.

#include <optional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "common/storage/children_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "tests/simulation/mutants/mutants.h"
#include "tests/simulation/mutants/rewriting.h"

namespace escapement::simulation {
namespace {

using kv::ColumnFamily;
using kv::Mutation;
using storage::v1::StateRecord;

StoreDecorator Masters(std::function<Rewrite()> make) {
  return Rewriting("master", std::move(make));
}

bool IsPutOf(ColumnFamily cf, const Mutation& mutation) {
  return mutation.cf == cf && IsPut(mutation);
}

bool Has(const kv::Group& group, ColumnFamily cf) {
  return std::any_of(group.mutations.begin(), group.mutations.end(),
                     [cf](const Mutation& mutation) { return mutation.cf == cf; });
}

// The state that the group puts; nullopt if it puts none.
std::optional<StateRecord> StateOf(const kv::Group& group) {
  for (const Mutation& mutation : group.mutations) {
    StateRecord state;
    if (IsPutOf(ColumnFamily::kStates, mutation) && state.ParseFromString(mutation.value))
      return state;
  }
  return std::nullopt;
}

// True if the group changes a schedule and leaves it in this state.
bool MakesIt(storage::v1::ScheduleStateKind kind, const kv::Group& group) {
  const auto state = StateOf(group);
  return state.has_value() && state->kind() == kind;
}

Rewrite ForgetsRequest() {
  return {.commit = [every = Every(3)](kv::CommitRequest* request) mutable {
    EraseMutations(request, [&](const Mutation& mutation) {
      return IsPutOf(ColumnFamily::kRequests, mutation) && every();
    });
  }};
}

// Loses a row that moves from `parked` back to where it waits.
Rewrite LosesRowOfResume() {
  return {.commit = [every = Every(3)](kv::CommitRequest* request) mutable {
    for (kv::Group& group : request->groups) {
      if (!Has(group, ColumnFamily::kParked)) continue;
      EraseMutations(&group, [&](const Mutation& mutation) {
        return (IsPutOf(ColumnFamily::kEvents, mutation) ||
                IsPutOf(ColumnFamily::kWaiting, mutation)) &&
               every();
      });
    }
  }};
}

// Loses the rows for the time that emitters have already planned.
Rewrite UpdatesWithoutRows() {
  return {.commit = [every = Every(3)](kv::CommitRequest* request) mutable {
    for (kv::Group& group : request->groups) {
      if (!Has(group, ColumnFamily::kDefinitions) || !every()) continue;
      EraseMutations(&group, [](const Mutation& mutation) {
        return IsPutOf(ColumnFamily::kEvents, mutation) ||
               IsPutOf(ColumnFamily::kWaiting, mutation) ||
               IsPutOf(ColumnFamily::kRuns, mutation) ||
               (IsPutOf(ColumnFamily::kCheckpoints, mutation) && mutation.key.size() > 3);
      });
    }
  }};
}

Rewrite ChangesUnplanned() {
  return {.commit =
              [](kv::CommitRequest* request) {
                WaiveConditions(request, [](const kv::Condition& condition) {
                  return condition.cf == ColumnFamily::kCheckpoints;
                });
                // Nor does it replace the checkpoints' condition where there are none yet.
              },
          .delay = absl::Milliseconds(200)};
}

Rewrite LeavesChildren() {
  return {.commit = [](kv::CommitRequest* request) {
    for (kv::Group& group : request->groups) {
      if (!MakesIt(storage::v1::SCHEDULE_STATE_KIND_DELETED, group)) continue;
      EraseMutations(
          &group, [](const Mutation& mutation) { return mutation.cf == ColumnFamily::kChildren; });
    }
  }};
}

Rewrite LeavesParked() {
  return {.commit = [](kv::CommitRequest* request) {
    for (kv::Group& group : request->groups) {
      if (!MakesIt(storage::v1::SCHEDULE_STATE_KIND_DELETED, group)) continue;
      EraseMutations(&group,
                     [](const Mutation& mutation) { return mutation.cf == ColumnFamily::kParked; });
    }
  }};
}

Rewrite PausesUnrecorded() {
  return {.commit = [every = Every(3)](kv::CommitRequest* request) mutable {
    for (kv::Group& group : request->groups) {
      if (!MakesIt(storage::v1::SCHEDULE_STATE_KIND_PAUSED, group) || !every()) continue;
      EraseMutations(&group,
                     [](const Mutation& mutation) { return mutation.cf == ColumnFamily::kStates; });
    }
  }};
}

// Loses the instant from which the new version owes its occurrences: where the former version
// ended.
Rewrite ResumesFromTheStart() {
  return {.commit = [](kv::CommitRequest* request) {
    EditPuts<StateRecord>(request, ColumnFamily::kStates,
                          [](Mutation*, StateRecord* state) { state->clear_covered_to_micros(); });
  }};
}

Rewrite CancelsUnmarked() {
  return {.commit =
              [](kv::CommitRequest* request) {
                WaiveConditions(request, [](const kv::Condition& condition) {
                  return condition.cf == ColumnFamily::kMeta &&
                         condition.kind == kv::Condition::Kind::kUnchangedSince;
                });
              },
          .delay = absl::Milliseconds(20)};
}

Rewrite AnswersBeforeCommit() {
  return {.unawaited =
              [](const kv::CommitRequest& request) {
                return AnyMutation(request, [](const Mutation& mutation) {
                  return IsPutOf(ColumnFamily::kEvents, mutation);
                });
              },
          .gap = absl::Milliseconds(5)};
}

Rewrite LosesOneOff() {
  return {.commit = [every = Every(30)](kv::CommitRequest* request) mutable {
    for (kv::Group& group : request->groups) {
      if (Has(group, ColumnFamily::kStates) || Has(group, ColumnFamily::kRuns)) continue;
      EraseMutations(&group, [&](const Mutation& mutation) {
        return IsPutOf(ColumnFamily::kEvents, mutation) && every();
      });
    }
  }};
}

Rewrite ForgetsName() {
  return {.commit = [every = Every(5)](kv::CommitRequest* request) mutable {
    EraseMutations(request, [&](const Mutation& mutation) {
      return IsPutOf(ColumnFamily::kEventNames, mutation) && every();
    });
  }};
}

// Two who replace an event at once both believe that they have.
Rewrite ReplacesUnnamed() {
  return {.commit =
              [](kv::CommitRequest* request) {
                WaiveConditions(request, [](const kv::Condition& condition) {
                  return condition.cf == ColumnFamily::kEvents ||
                         (condition.cf == ColumnFamily::kEventNames &&
                          condition.kind == kv::Condition::Kind::kValueEquals);
                });
              },
          .delay = absl::Milliseconds(20)};
}

// The event that is replaced stays in its queue.
Rewrite LeavesReplaced() {
  return {.commit = [](kv::CommitRequest* request) {
    for (kv::Group& group : request->groups) {
      if (!std::any_of(group.mutations.begin(), group.mutations.end(), [](const Mutation& each) {
            return IsPutOf(ColumnFamily::kEventNames, each);
          }))
        continue;
      EraseMutations(&group, [](const Mutation& mutation) {
        return mutation.cf == ColumnFamily::kEvents && !IsPut(mutation);
      });
    }
  }};
}

bool IsInBulk(const kv::Group& group) {
  return std::any_of(group.conditions.begin(), group.conditions.end(),
                     [](const kv::Condition& condition) {
                       return condition.kind == kv::Condition::Kind::kTimeBefore;
                     });
}

Rewrite ReplacesUnnamedInBulk() {
  return {.commit = [](kv::CommitRequest* request) {
    for (kv::Group& group : request->groups) {
      if (!IsInBulk(group)) continue;
      WaiveConditions(&group.conditions, [](const kv::Condition& condition) {
        return condition.cf == ColumnFamily::kEventNames;
      });
    }
  }};
}

Rewrite LeavesReplacedInBulk() {
  return {.commit = [](kv::CommitRequest* request) {
    for (kv::Group& group : request->groups) {
      if (!IsInBulk(group)) continue;
      EraseMutations(&group, [](const Mutation& mutation) {
        return mutation.cf == ColumnFamily::kEvents && !IsPut(mutation);
      });
    }
  }};
}

// The name of an event that was cancelled says that it waits.
Rewrite CancelsUnnamed() {
  return {.commit = [](kv::CommitRequest* request) {
    for (kv::Group& group : request->groups) {
      if (Has(group, ColumnFamily::kDone))
        EraseMutations(&group, [](const Mutation& mutation) {
          return IsPutOf(ColumnFamily::kEventNames, mutation);
        });
    }
  }};
}

// The row in `waiting` of an event under a policy need not be there.
Rewrite CancelsGranted() {
  return {.commit = [](kv::CommitRequest* request) {
    WaiveConditions(request, [](const kv::Condition& condition) {
      return condition.cf == ColumnFamily::kWaiting || condition.cf == ColumnFamily::kEvents;
    });
  }};
}

// Spares paused schedules: their cancellation would never finish without the entry.
Rewrite CancelsRunsUnrecorded() {
  return {.commit = [](kv::CommitRequest* request) {
    EditPuts<StateRecord>(request, ColumnFamily::kStates, [](Mutation*, StateRecord* state) {
      if (state->kind() != storage::v1::SCHEDULE_STATE_KIND_PAUSED) state->clear_cancelled_runs();
    });
  }};
}

}  // namespace

std::vector<Mutant> MasterMutants() {
  return {
      {.name = "master_cancels_runs_unrecorded",
       .fault = "a run that is cancelled is not named in its schedule's state",
       .rules = {"cancelled"},
       .cast = Cast::kMixed,
       .faults = false,
       .store = Masters(CancelsRunsUnrecorded)},
      {.name = "master_forgets_request",
       .fault = "of every third call its request_id is not recorded",
       .rules = {"requests", "answer", "lost", "early"},
       .store = Masters(ForgetsRequest)},
      {.name = "master_loses_row_of_resume",
       .fault = "every third row that was parked is not brought back by the resume",
       .rules = {"lost"},
       .faults = false,
       .store = Masters(LosesRowOfResume)},
      {.name = "master_updates_without_rows",
       .fault = "every third change leaves the window that is emitted already to nobody",
       .rules = {"lost"},
       .faults = false,
       .store = Masters(UpdatesWithoutRows)},
      {.name = "master_changes_unplanned",
       .fault = "a change is not conditional on how far emitters have come",
       .rules = {"lost"},
       .faults = false,
       .store = Masters(ChangesUnplanned)},
      {.name = "master_leaves_children",
       .fault = "a schedule that is deleted leaves its children behind",
       .rules = {"lost"},
       .faults = false,
       .store = Masters(LeavesChildren)},
      {.name = "master_leaves_parked",
       .fault = "what was parked of a schedule that is deleted stays",
       .rules = {"lost"},
       .faults = false,
       .store = Masters(LeavesParked)},
      {.name = "master_pauses_unrecorded",
       .fault = "every third pause is answered, and not written",
       .rules = {"lost", "paused", "answer"},
       .faults = false,
       .store = Masters(PausesUnrecorded)},
      {.name = "master_forgets_what_is_covered",
       .fault = "a change does not say up to where it has emitted",
       .rules = {"lost", "doubled"},
       .faults = false,
       .store = Masters(ResumesFromTheStart)},
      {.name = "master_cancels_unmarked",
       .fault = "a cancellation is not conditional on no claim having been made",
       .rules = {"lost", "final", "stale_epoch"},
       .faults = false,
       .store = Masters(CancelsUnmarked)},
      {.name = "master_cancels_granted",
       .fault = "a cancellation is not conditional on the event having no token",
       .rules = {"lost", "token_end", "sink", "final"},
       .cast = Cast::kThrottled,
       .faults = false,
       .store = Masters(CancelsGranted),
       .first_seed = 115},
      {.name = "master_replaces_unnamed",
       .fault = "an event is replaced whether or not it is still the one that was read",
       .rules = {"lost", "doubled", "early", "final"},
       .store = Masters(ReplacesUnnamed)},
      {.name = "master_leaves_replaced",
       .fault = "an event that is replaced stays in its queue",
       .rules = {"lost", "doubled", "early", "final"},
       .faults = false,
       .store = Masters(LeavesReplaced)},
      {.name = "master_replaces_unnamed_in_bulk",
       .fault = "a record replaces an event whether or not it is still the one that was read",
       .rules = {"lost", "doubled", "final"},
       .store = Masters(ReplacesUnnamedInBulk),
       .first_seed = 247,
       .seed_step = 8},
      {.name = "master_leaves_replaced_in_bulk",
       .fault = "an event that a record replaces stays in its queue",
       .rules = {"lost", "doubled", "early", "final"},
       .faults = false,
       .store = Masters(LeavesReplacedInBulk),
       .first_seed = 7,
       .seed_step = 8},
      {.name = "master_cancels_unnamed",
       .fault = "the name of an event that is cancelled is as before",
       .rules = {"answer"},
       .faults = false,
       .store = Masters(CancelsUnnamed),
       .first_seed = 7,
       .seed_step = 8},
      {.name = "master_answers_before_commit",
       .fault = "one-off events are acknowledged 5 ms before they are sent to the store",
       .rules = {"lost", "acknowledged"},
       .store = Masters(AnswersBeforeCommit)},
      {.name = "master_loses_one_off",
       .fault = "every thirtieth one-off event is named and not queued",
       .rules = {"lost"},
       .faults = false,
       .store = Masters(LosesOneOff)},
      {.name = "master_forgets_name",
       .fault = "of every fifth one-off event the name is not written",
       .rules = {"lost", "doubled", "answer"},
       .store = Masters(ForgetsName)},
  };
}

}  // namespace escapement::simulation
