// Faults of emitters: windows, intervals, misfires, launches, the end of runs.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/kv/layout.h"
#include "common/storage/children_table.h"
#include "common/storage/event_table.h"
#include "common/storage/run_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "tests/simulation/mutants/mutants.h"
#include "tests/simulation/mutants/rewriting.h"

namespace escapement::simulation {

namespace {

using kv::ColumnFamily;
using kv::Mutation;
using storage::v1::DoneRecord;
using storage::v1::EventRecord;

StoreDecorator Emitters(std::function<Rewrite()> make) { return Rewriting("emitter", make); }

// In every third seed of the cast the only fault is that all emitters are down at times.
Mutant InDowntimes(Mutant mutant) {
  mutant.cast = Cast::kTimes;
  mutant.first_seed = 3;
  mutant.seed_step = 3;
  return mutant;
}

bool IsRow(const Mutation& mutation) {
  return mutation.cf == ColumnFamily::kEvents && IsPut(mutation);
}

bool IsActiveMark(const Mutation& mutation) {
  return mutation.cf == ColumnFamily::kCheckpoints && DecodeActiveRunKey(mutation.key).has_value();
}

bool IsEmittedTo(ColumnFamily cf, const std::string& key) {
  return cf == ColumnFamily::kCheckpoints && key.size() >= 2 &&
         key == EmittedToKey(ReadBigEndian<uint16_t>(key));
}

// The record, if the mutation puts a record of skipped occurrences; else nullopt.
std::optional<DoneRecord> SkippedBy(const Mutation& mutation) {
  DoneRecord record;
  if (mutation.cf != ColumnFamily::kDone || !IsPut(mutation) ||
      !record.ParseFromString(mutation.value) || !record.run_skipped())
    return std::nullopt;
  return record;
}

Rewrite LosesRow() {
  return {.commit = [every = Every(10)](kv::CommitRequest* request) mutable {
    EraseMutations(request, [&](const Mutation& mutation) { return IsRow(mutation) && every(); });
  }};
}

// Commits the rows and the checkpoint in two commits.
Rewrite CheckpointBeforeRows() {
  return {.split = [](kv::CommitRequest* request) -> std::optional<kv::Commit> {
            const bool progress = AnyMutation(*request, [](const Mutation& mutation) {
              return IsEmittedTo(mutation.cf, mutation.key);
            });
            if (!progress || request->groups.size() < 2) return std::nullopt;
            kv::Commit rows;
            for (kv::Group& group : request->groups) {
              if (IsEmittedTo(group.mutations[0].cf, group.mutations[0].key)) continue;
              rows.groups.push_back(group);
              group.mutations.clear();
            }
            // Under the same lease, but without the condition on the checkpoint: the first commit
            // has changed it.
            for (const kv::Condition& condition : request->fence) {
              if (condition.cf == ColumnFamily::kLeases) rows.fence.push_back(condition);
            }
            return rows;
          },
          .gap = absl::Milliseconds(100)};
}

// Drops the child's next instant from the group that emits an occurrence of an interval.
Rewrite LeavesInterval() {
  return {.commit = [every = Every(2)](kv::CommitRequest* request) mutable {
    const auto moves = [](const Mutation& mutation) {
      return mutation.cf == ColumnFamily::kChildren &&
             DecodeInstantChildKey(mutation.key).has_value();
    };
    for (kv::Group& group : request->groups) {
      if (std::any_of(group.mutations.begin(), group.mutations.end(), moves) && every())
        EraseMutations(&group, moves);
    }
  }};
}

Rewrite LosesWindowBegin() {
  return {.commit = [](kv::CommitRequest* request) {
    std::set<int64_t> begins;
    for (const kv::Condition& condition : request->fence) {
      if (IsEmittedTo(condition.cf, condition.key))
        begins.insert(ToMicros(DecodeCheckpoint(condition.value)));
    }
    EraseMutations(request, [&](const Mutation& mutation) {
      EventRecord row;
      return IsRow(mutation) && row.ParseFromString(mutation.value) &&
             begins.contains(row.nominal_time_micros());
    });
  }};
}

Rewrite ForgetsSkipped() {
  return {.commit = [every = Every(3)](kv::CommitRequest* request) mutable {
    EraseMutations(request, [&](const Mutation& mutation) {
      const auto record = SkippedBy(mutation);
      return record.has_value() && record->reason() == "misfire" &&
             record->skipped_occurrences() == 0 && every();
    });
  }};
}

Rewrite MiscountsSummary() {
  return {.commit = [](kv::CommitRequest* request) {
    EditPuts<DoneRecord>(request, ColumnFamily::kDone, [](Mutation*, DoneRecord* record) {
      if (record->skipped_occurrences() >= 2)
        record->set_skipped_occurrences(record->skipped_occurrences() - 1);
    });
  }};
}

// Under the day of its nominal time, and under the day after.
Rewrite RecordsSkipTwice() {
  return {.commit = [every = Every(3)](kv::CommitRequest* request) mutable {
    for (kv::Group& group : request->groups) {
      std::vector<Mutation> again;
      for (const Mutation& mutation : group.mutations) {
        if (!SkippedBy(mutation).has_value() || !every()) continue;
        DoneKey key = *DecodeDoneKey(mutation.key);
        ++key.day;
        again.push_back(mutation);
        again.back().key = EncodeDoneKey(key);
      }
      group.mutations.insert(group.mutations.end(), again.begin(), again.end());
    }
  }};
}

Rewrite ForgetsActiveRun() {
  return {.commit = [every = Every(2)](kv::CommitRequest* request) mutable {
    EraseMutations(request, [&](const Mutation& mutation) {
      return IsPut(mutation) && IsActiveMark(mutation) && every();
    });
  }};
}

Rewrite NeverClosesRun() {
  return {.commit = [every = Every(10)](kv::CommitRequest* request) mutable {
    EraseMutations(request, [&](const Mutation& mutation) {
      return !IsPut(mutation) && IsActiveMark(mutation) && every();
    });
  }};
}

// Counts an event that has succeeded twice.
Rewrite ClosesRunEarly() {
  return {.value = [](ColumnFamily cf, const std::string&, std::string* value) {
    if (cf != ColumnFamily::kRunParts) return;
    EditValue<storage::v1::RunPartRecord>(value, [](storage::v1::RunPartRecord* part) {
      if (part->succeeded() > 0) part->set_succeeded(part->succeeded() + 1);
    });
  }};
}

bool Launches(const kv::Group& group) {
  return std::any_of(group.mutations.begin(), group.mutations.end(), [](const Mutation& mutation) {
    return mutation.cf == ColumnFamily::kCheckpoints && !IsPut(mutation) &&
           DecodeLaunchKey(mutation.key).has_value();
  });
}

// The emitter also misses some news of runs that have become active.
Rewrite LaunchesWithoutAsking() {
  return {.commit =
              [](kv::CommitRequest* request) {
                WaiveConditions(request, [](const kv::Condition& condition) {
                  return condition.cf == ColumnFamily::kCheckpoints &&
                         condition.kind == kv::Condition::Kind::kRangeCount;
                });
              },
          .value = nullptr,
          .hears =
              [every = Every(4)](ColumnFamily cf) mutable {
                return cf != ColumnFamily::kCheckpoints || !every();
              }};
}

Rewrite CancelsUnrecorded() {
  return {.commit = [every = Every(2)](kv::CommitRequest* request) mutable {
    for (kv::Group& group : request->groups) {
      if (!Launches(group)) continue;
      EraseMutations(&group, [&](const Mutation& mutation) {
        return mutation.cf == ColumnFamily::kStates && every();
      });
    }
  }};
}

Rewrite LaunchesAhead() {
  return {.commit = [every = Every(10)](kv::CommitRequest* request) mutable {
    EditPuts<EventRecord>(request, ColumnFamily::kEvents, [&](Mutation* row, EventRecord* record) {
      if (!every()) return;
      EventKey key = *DecodeEventKey(row->key);
      key.due_time -= absl::Milliseconds(5);
      record->set_launch_time_micros(ToMicros(key.due_time));
      row->key = EncodeEventKey(key);
    });
  }};
}

Rewrite LeavesLastIndexOut() {
  return {.commit = [every = Every(5)](kv::CommitRequest* request) mutable {
    EditPuts<EventRecord>(request, ColumnFamily::kEvents, [&](Mutation*, EventRecord* record) {
      if (record->count() > 1 && every()) record->set_count(record->count() - 1);
    });
  }};
}

Rewrite OverlapsSlices() {
  return {.commit = [every = Every(5)](kv::CommitRequest* request) mutable {
    EditPuts<EventRecord>(request, ColumnFamily::kEvents, [&](Mutation* row, EventRecord* record) {
      EventKey key = *DecodeEventKey(row->key);
      if (key.first == 0 || !every()) return;
      --key.first;
      record->set_count(record->count() + 1);
      row->key = EncodeEventKey(key);
    });
  }};
}

Rewrite MissesLastChild() {
  return {
      .scan = [every = Every(10)](const kv::ScanRequest& request, kv::ScanResult* result) mutable {
        if (request.cf == ColumnFamily::kChildren && !request.keys_only && !result->more &&
            !result->entries.empty() && every())
          result->entries.pop_back();
      }};
}

Rewrite ChecksPointTooFar() {
  return {.commit = [every = Every(10)](kv::CommitRequest* request) mutable {
    for (kv::Group& group : request->groups) {
      for (Mutation& mutation : group.mutations) {
        if (!IsPut(mutation) || !IsEmittedTo(mutation.cf, mutation.key) || !every()) continue;
        mutation.value =
            EncodeCheckpoint(DecodeCheckpoint(mutation.value) + absl::Milliseconds(500));
      }
    }
  }};
}

Rewrite OverlooksNewExpressions() {
  return {.value = [known = std::map<std::string, std::string>()](
                       ColumnFamily cf, const std::string& key, std::string* value) mutable {
    if (cf != ColumnFamily::kCheckpoints || key.size() < 2 ||
        key != InUseMarkKey(ReadBigEndian<uint16_t>(key)))
      return;
    *value = known.try_emplace(key, *value).first->second;
  }};
}

// The commit does not require that no children are left, and the scan before it sometimes misses
// them.
Rewrite SweepsWhatIsInUse() {
  return {.commit =
              [](kv::CommitRequest* request) {
                WaiveConditions(request, [](const kv::Condition& condition) {
                  return condition.cf == ColumnFamily::kChildren &&
                         condition.kind == kv::Condition::Kind::kRangeCount;
                });
              },
          .scan =
              [every = Every(2)](const kv::ScanRequest& request, kv::ScanResult* result) mutable {
                if (request.cf == ColumnFamily::kChildren && request.keys_only && every())
                  result->entries.clear();
              }};
}

Rewrite IgnoresClockHold() {
  return {.commit = [](kv::CommitRequest* request) {
    WaiveConditions(request, [](const kv::Condition& condition) {
      return condition.cf == ColumnFamily::kMeta && condition.key == kv::kClockHoldKey;
    });
  }};
}

// The commit does not require that states and children are as they were read.
Rewrite EmitsUnconditionally() {
  return {.commit =
              [](kv::CommitRequest* request) {
                WaiveConditions(request, [](const kv::Condition& condition) {
                  return condition.cf == ColumnFamily::kStates ||
                         condition.cf == ColumnFamily::kChildren;
                });
              },
          .delay = absl::Milliseconds(300)};
}

// Drops all that the commit writes of every tenth occurrence.
Rewrite LosesOccurrence() {
  return {.commit = [every = Every(10)](kv::CommitRequest* request) mutable {
    std::set<std::pair<Uid, std::string>> lost;
    for (const kv::Group& group : request->groups) {
      std::set<std::pair<Uid, std::string>> of_group;
      for (const Mutation& mutation : group.mutations) {
        const auto key = IsRow(mutation) ? DecodeEventKey(mutation.key) : std::nullopt;
        if (key.has_value()) of_group.insert({key->uid, key->occurrence});
      }
      for (const auto& occurrence : of_group) {
        if (every()) lost.insert(occurrence);
      }
    }
    EraseMutations(request, [&](const Mutation& mutation) {
      if (mutation.cf == ColumnFamily::kEvents) {
        const auto key = DecodeEventKey(mutation.key);
        return key.has_value() && lost.contains({key->uid, key->occurrence});
      }
      if (mutation.cf == ColumnFamily::kRuns) {
        const auto key = DecodeRunKey(mutation.key);
        return key.has_value() && lost.contains({key->uid, key->occurrence});
      }
      const auto mark = mutation.cf == ColumnFamily::kCheckpoints ? DecodeActiveRunKey(mutation.key)
                                                                  : std::nullopt;
      return mark.has_value() && lost.contains({mark->uid, mark->occurrence});
    });
  }};
}

}  // namespace

std::vector<Mutant> EmitterMutants() {
  return {
      {.name = "emitter_loses_occurrence",
       .fault = "every tenth occurrence is left out, and its account is asked for",
       .rules = {"account"},
       .store = Emitters(LosesOccurrence),
       .accounts = true},
      {.name = "emitter_loses_row",
       .fault = "every tenth row is left out of the commit that moves the checkpoint past it",
       .rules = {"lost", "checkpoint"},
       .faults = false,
       .store = Emitters(LosesRow)},
      {.name = "emitter_checkpoint_before_rows",
       .fault = "the checkpoint is committed first, and the rows 100 ms later",
       .rules = {"checkpoint", "lost"},
       .store = Emitters(CheckpointBeforeRows)},
      {.name = "emitter_loses_window_begin",
       .fault = "`>` for `>=` at a window's begin: what is due just then is emitted by nobody",
       .rules = {"lost", "checkpoint"},
       .faults = false,
       .store = Emitters(LosesWindowBegin)},
      {.name = "emitter_checkpoint_too_far",
       .fault = "every tenth checkpoint is half a second beyond its window",
       .rules = {"lost", "checkpoint"},
       .faults = false,
       .store = Emitters(ChecksPointTooFar)},
      {.name = "emitter_overlooks_new_expressions",
       .fault = "which LaunchExpressions are in use is read once",
       .rules = {"lost"},
       .faults = false,
       .store = Emitters(OverlooksNewExpressions)},
      {.name = "emitter_sweeps_what_is_in_use",
       .fault = "of two looks for children of a LaunchExpression one finds none",
       .rules = {"children", "lost"},
       .faults = false,
       .store = Emitters(SweepsWhatIsInUse),
       .perturb = true},
      {.name = "emitter_ignores_clock_hold",
       .fault = "emission goes on while the store's clock is held",
       .rules = {"clock"},
       .cast = Cast::kClocks,
       .store = Emitters(IgnoresClockHold)},
      {.name = "emitter_misses_last_child",
       .fault = "every tenth scan of children leaves its last one out",
       .rules = {"lost"},
       .faults = false,
       .store = Emitters(MissesLastChild)},
      {.name = "emitter_epoch_not_compared",
       .fault = "every tenth commit is not conditional on the epoch of the partition's lease",
       .rules = {"stale_epoch"},
       .store = Unfenced("emitter", 10)},
      {.name = "emitter_launches_ahead",
       .fault = "every tenth row is due 5 ms before its time",
       .rules = {"early"},
       .faults = false,
       .store = Emitters(LaunchesAhead)},
      {.name = "emitter_leaves_last_index_out",
       .fault = "every fifth slice of more than one event ends one too early",
       .rules = {"lost"},
       .faults = false,
       .store = Emitters(LeavesLastIndexOut)},
      {.name = "emitter_overlaps_slices",
       .fault = "every fifth slice begins with the last event of the one before",
       .rules = {"lost", "doubled"},
       .faults = false,
       .store = Emitters(OverlapsSlices)},
      {.name = "emitter_emits_unconditionally",
       .fault = "rows are emitted though schedule or child have changed since the scan",
       .rules = {"lost", "doubled", "checkpoint", "stale_epoch", "final"},
       .cast = Cast::kTimes,
       .store = Emitters(EmitsUnconditionally)},
      InDowntimes(
          {.name = "emitter_leaves_interval",
           .fault = "every second child of an interval stays where it is when it is emitted",
           .rules = {"doubled"},
           .store = Emitters(LeavesInterval)}),
      InDowntimes({.name = "emitter_forgets_skipped",
                   .fault = "every third missed occurrence leaves no record",
                   .rules = {"lost", "checkpoint"},
                   .store = Emitters(ForgetsSkipped)}),
      InDowntimes({.name = "emitter_records_skip_twice",
                   .fault = "every third record of a skip is written under two days",
                   .rules = {"lost"},
                   .store = Emitters(RecordsSkipTwice)}),
      InDowntimes({.name = "emitter_miscounts_summary",
                   .fault = "a summary of missed occurrences does not count its first",
                   .rules = {"lost"},
                   .store = Emitters(MiscountsSummary)}),
      InDowntimes({.name = "emitter_judges_ahead",
                   .fault = "what is missed is judged by a clock that is two seconds ahead",
                   .rules = {"times"},
                   .store = Emitters([] { return Rewrite{.ahead = absl::Seconds(2)}; })}),
      InDowntimes({.name = "emitter_forgets_active_run",
                   .fault = "every second run is launched without the mark that it is active",
                   .rules = {"overlap"},
                   .store = Emitters(ForgetsActiveRun)}),
      InDowntimes({.name = "emitter_closes_run_early",
                   .fault = "in a run's end an event that has succeeded counts twice",
                   .rules = {"overlap"},
                   .store = Emitters(ClosesRunEarly)}),
      InDowntimes({.name = "emitter_never_closes_run",
                   .fault = "of every tenth run that has ended the mark stays",
                   .rules = {"lost"},
                   .store = Emitters(NeverClosesRun)}),
      InDowntimes({.name = "emitter_launches_without_asking",
                   .fault = "a launch is not conditional on no run being active",
                   .rules = {"overlap"},
                   .store = Emitters(LaunchesWithoutAsking)}),
      InDowntimes({.name = "emitter_cancels_unrecorded",
                   .fault = "every second launch that cancels earlier runs does not say so",
                   .rules = {"overlap"},
                   .store = Emitters(CancelsUnrecorded)}),
  };
}

// Faults of the store, its client and the store's clock, planted in all services.

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
       .first_seed = 80},
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
