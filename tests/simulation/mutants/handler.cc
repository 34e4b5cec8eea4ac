// Faults of handlers: claim, send, end, retries, parking, reports.

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "common/base/proto_time.h"
#include "common/storage/event_table.h"
#include "common/storage/run_table.h"
#include "common/storage/waiting_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "tests/simulation/mutants/mutants.h"
#include "tests/simulation/mutants/rewriting.h"

namespace escapement::simulation {
namespace {

using kv::ColumnFamily;
using kv::Mutation;
using storage::v1::ClaimRecord;
using storage::v1::DoneRecord;
using storage::v1::EventRecord;
using storage::v1::GrantReportRecord;

bool IsClaim(const Mutation& mutation) {
  if (mutation.cf != ColumnFamily::kInflight || !IsPut(mutation)) return false;
  const auto key = DecodeInflightKey(mutation.key);
  return key.has_value() && key->is_claim();
}

bool IsOutcome(const Mutation& mutation) {
  return mutation.cf == ColumnFamily::kDone && IsPut(mutation);
}

bool IsRetry(const Mutation& mutation) {
  if (mutation.cf != ColumnFamily::kEvents || !IsPut(mutation)) return false;
  const auto key = DecodeEventKey(mutation.key);
  return key.has_value() && key->lane == kLaneRetry;
}

Rewrite ClaimsAfterSending() {
  return {
      .unawaited = [](const kv::CommitRequest& request) { return AnyMutation(request, IsClaim); },
      .gap = absl::Milliseconds(3)};
}

Rewrite ClaimsWhateverTheState() {
  return {.commit =
              [](kv::CommitRequest* request) {
                WaiveConditions(request, [](const kv::Condition& condition) {
                  return condition.cf == ColumnFamily::kStates;
                });
              },
          .value = nullptr};
}

Rewrite OverlooksCancelledRuns() {
  Rewrite rewrite = ClaimsWhateverTheState();
  rewrite.value = [](ColumnFamily cf, const std::string& key, std::string* value) {
    if (cf != ColumnFamily::kStates) return;
    EditValue<storage::v1::StateRecord>(
        value, [](storage::v1::StateRecord* state) { state->clear_cancelled_runs(); });
  };
  return rewrite;
}

Rewrite LosesOutcome() {
  return {.commit = [every = Every(20)](kv::CommitRequest* request) mutable {
    EraseMutations(request,
                   [&](const Mutation& mutation) { return IsOutcome(mutation) && every(); });
  }};
}

// The retry is kept in memory only.
Rewrite RetriesUnwritten() {
  return {.commit = [](kv::CommitRequest* request) { EraseMutations(request, IsRetry); }};
}

// Edits the retry policy of every definition that handlers read.
Rewrite RetriesBy(std::function<void(storage::v1::RetryRecord*)> edit) {
  return {.value = [edit](ColumnFamily cf, const std::string&, std::string* value) {
    if (cf != ColumnFamily::kDefinitions) return;
    EditValue<storage::v1::DefinitionRecord>(value, [&](storage::v1::DefinitionRecord* record) {
      edit(record->mutable_delivery()->mutable_retry());
    });
  }};
}

Rewrite GivesUpAnAttemptEarly() {
  return RetriesBy(
      [](storage::v1::RetryRecord* retry) { retry->set_max_attempts(retry->max_attempts() - 1); });
}

Rewrite EndsInTwoCommits() {
  return {.split = [](kv::CommitRequest* request) { return TakeMutations(request, IsOutcome); },
          .gap = absl::Milliseconds(20)};
}

// The counts of a schedule are left out of an end.
Rewrite CountsTooFew() {
  return {.commit = [every = Every(10)](kv::CommitRequest* request) mutable {
    EraseMutations(request, [&](const Mutation& mutation) {
      if (mutation.cf != ColumnFamily::kRunParts || !IsPut(mutation)) return false;
      const Uid uid = Uid::FromBytes(mutation.key.substr(0, Uid::kBytes));
      return absl::StartsWith(mutation.key, ScheduleCountsPrefix(uid)) && every();
    });
  }};
}

// Writes the outcomes in the commit that claims; for every tenth row of a schedule.
Rewrite EndsBeforeAnswer() {
  return {.commit = [every = Every(10)](kv::CommitRequest* request) mutable {
    for (kv::Group& group : request->groups) {
      std::vector<Mutation> outcomes;
      for (const Mutation& mutation : group.mutations) {
        ClaimRecord claim;
        if (!IsClaim(mutation) || !claim.ParseFromString(mutation.value)) continue;
        for (const ClaimRecord::Entry& entry : claim.entries()) {
          const auto key = DecodeEventKey(entry.event_key());
          if (entry.row_stays() || !key.has_value() || !every()) continue;
          DoneRecord done = DoneRecordOf(entry.event());
          done.set_count(1);
          done.set_outcome(storage::v1::OUTCOME_KIND_SUCCEEDED);
          done.set_attempts(entry.event().attempts() + 1);
          outcomes.push_back(
              {.cf = ColumnFamily::kDone,
               .key = EncodeDoneKey({.shard = key->shard,
                                     .day = DoneDay(FromMicros(entry.event().launch_time_micros())),
                                     .uid = key->uid,
                                     .occurrence = key->occurrence,
                                     .first = entry.ranges(0).first()}),
               .value = done.SerializeAsString()});
        }
      }
      group.mutations.insert(group.mutations.end(), outcomes.begin(), outcomes.end());
    }
  }};
}

Rewrite DeletesOneOffWithClaim() {
  return {.commit = [](kv::CommitRequest* request) {
    for (kv::Group& group : request->groups) {
      std::vector<Mutation> gone;
      for (const Mutation& mutation : group.mutations) {
        ClaimRecord claim;
        if (!IsClaim(mutation) || !claim.ParseFromString(mutation.value)) continue;
        for (const ClaimRecord::Entry& entry : claim.entries()) {
          if (!entry.row_stays()) continue;
          gone.push_back({.cf = ColumnFamily::kEvents,
                          .kind = Mutation::Kind::kDelete,
                          .key = entry.event_key()});
        }
      }
      group.mutations.insert(group.mutations.end(), gone.begin(), gone.end());
    }
  }};
}

Rewrite EndsOneShort() {
  return {.commit = [](kv::CommitRequest* request) {
    for (kv::Group& group : request->groups) {
      for (Mutation& mutation : group.mutations) {
        const auto key = DecodeInflightKey(mutation.key);
        if (mutation.cf != ColumnFamily::kInflight || !IsPut(mutation) || !key || !key->is_end())
          continue;
        EditValue<storage::v1::ClaimEndRecord>(
            &mutation.value, [](storage::v1::ClaimEndRecord* record) {
              auto& entry = *record->mutable_entries(record->entries_size() - 1);
              auto& last = *entry.mutable_ranges(entry.ranges_size() - 1);
              last.set_count(last.count() - 1);
            });
      }
    }
  }};
}

Rewrite LosesParked() {
  return {.commit = [every = Every(5)](kv::CommitRequest* request) mutable {
    EraseMutations(request, [&](const Mutation& mutation) {
      return mutation.cf == ColumnFamily::kParked && every();
    });
  }};
}

Rewrite MissesWakeUp() {
  return {.hears = [every = Every(10)](ColumnFamily cf) mutable {
    return cf != ColumnFamily::kEvents || !every();
  }};
}

template <typename Edit>
void EditReports(kv::CommitRequest* request, Edit edit) {
  for (kv::Group& group : request->groups) {
    for (Mutation& mutation : group.mutations) {
      if (mutation.cf == ColumnFamily::kWaiting && IsPut(mutation) && IsReportKey(mutation.key))
        EditValue<GrantReportRecord>(&mutation.value, edit);
    }
  }
}

Rewrite ReportsReturned() {
  return {.commit = [every = Every(20)](kv::CommitRequest* request) mutable {
    EditReports(request, [&](GrantReportRecord* record) {
      for (auto& entry : *record->mutable_entries()) {
        if (entry.kind() == GrantReportRecord::DELIVERED && every())
          entry.set_kind(GrantReportRecord::RETURNED);
      }
    });
  }};
}

Rewrite LosesReport() {
  return {.commit = [every = Every(20)](kv::CommitRequest* request) mutable {
    EditReports(request, [&](GrantReportRecord* record) {
      GrantReportRecord kept;
      for (const auto& entry : record->entries()) {
        if (!every()) *kept.add_entries() = entry;
      }
      *record = kept;
    });
  }};
}

// Attempts and results pass through `change`, which may edit either.
class ChangingTransport final : public handler::DeliveryTransport {
 public:
  struct Change {
    std::function<void(std::vector<handler::DeliveryAttempt>*)> attempts = nullptr;
    std::function<void(handler::DeliveryResult*)> result = nullptr;
    int twice_every = 0;  // one in this many attempts is sent twice; 0: none
  };
  ChangingTransport(std::unique_ptr<handler::DeliveryTransport> inner, Change change)
      : inner_(std::move(inner)), change_(std::move(change)), twice_(change_.twice_every) {}

  void Send(std::vector<handler::DeliveryAttempt> attempts,
            std::shared_ptr<handler::DeliverySink> sink) override {
    std::vector<handler::DeliveryAttempt> again;
    for (const handler::DeliveryAttempt& attempt : attempts) {
      if (change_.twice_every > 0 && twice_()) again.push_back(attempt);
    }
    if (!again.empty()) inner_->Send(std::move(again), std::make_shared<Deaf>());
    if (change_.attempts) change_.attempts(&attempts);
    if (change_.result) sink = std::make_shared<Changed>(std::move(sink), change_.result);
    inner_->Send(std::move(attempts), std::move(sink));
  }

 private:
  struct Deaf final : handler::DeliverySink {
    void OnResult(uint64_t, handler::DeliveryResult) override {}
  };
  struct Changed final : handler::DeliverySink {
    Changed(std::shared_ptr<handler::DeliverySink> sink,
            std::function<void(handler::DeliveryResult*)> change)
        : sink(std::move(sink)), change(std::move(change)) {}
    void OnResult(uint64_t tag, handler::DeliveryResult result) override {
      change(&result);
      sink->OnResult(tag, std::move(result));
    }
    const std::shared_ptr<handler::DeliverySink> sink;
    const std::function<void(handler::DeliveryResult*)> change;
  };
  const std::unique_ptr<handler::DeliveryTransport> inner_;
  const Change change_;
  Every twice_;
};

TransportDecorator Sending(std::function<ChangingTransport::Change()> make) {
  return [make](std::unique_ptr<handler::DeliveryTransport> inner, sim::SimProcess&) {
    return std::make_unique<ChangingTransport>(std::move(inner), make());
  };
}

ChangingTransport::Change NumbersAttemptsWrongly() {
  return {.attempts = [every = Every(3)](std::vector<handler::DeliveryAttempt>* attempts) mutable {
    for (handler::DeliveryAttempt& attempt : *attempts) {
      if (attempt.attempt > 1 && every()) --attempt.attempt;
    }
  }};
}

// Takes every second failure that the consumer reported for a success.
ChangingTransport::Change TakesFailureForSuccess() {
  return {.result = [every = Every(2)](handler::DeliveryResult* result) mutable {
    if (result->status == handler::DeliveryStatus::kFailed && every())
      result->status = handler::DeliveryStatus::kAccepted;
  }};
}

ChangingTransport::Change IgnoresRetryAfter() {
  return {.result = [](handler::DeliveryResult* result) {
    result->retry_after = absl::ZeroDuration();
  }};
}

}  // namespace

std::vector<Mutant> HandlerMutants() {
  return {
      {.name = "handler_claims_after_sending",
       .fault = "a claim is taken for granted, and committed 3 ms later",
       .rules = {"claimed", "doubled", "lost"},
       .store = Handlers(ClaimsAfterSending)},
      {.name = "handler_claims_whatever_the_state",
       .fault = "claims are not conditional on the state of their schedules",
       .rules = {"paused", "lost"},
       .store = Handlers(ClaimsWhateverTheState)},
      {.name = "handler_overlooks_cancelled_runs",
       .fault = "the runs that a state names as cancelled are not looked at",
       .rules = {"cancelled"},
       .cast = Cast::kMixed,
       .faults = false,
       .store = Handlers(OverlooksCancelledRuns)},
      {.name = "handler_epoch_not_compared",
       .fault = "every tenth commit is not conditional on the epoch of the shard's lease",
       .rules = {"stale_epoch"},
       .store = Unfenced("handler", 10)},
      {.name = "handler_clock_ahead",
       .fault = "what is due is judged by a clock that is 30 ms ahead",
       .rules = {"early"},
       .faults = false,
       .store = Handlers([] { return Rewrite{.ahead = absl::Milliseconds(30)}; })},
      {.name = "handler_sends_twice",
       .fault = "every fiftieth attempt goes out twice",
       .rules = {"doubled"},
       .transport = Sending([] { return ChangingTransport::Change{.twice_every = 50}; })},
      {.name = "handler_loses_outcome",
       .fault = "every twentieth record of Done is left out of an end",
       .rules = {"lost"},
       .faults = false,
       .store = Handlers(LosesOutcome)},
      {.name = "handler_counts_too_few",
       .fault = "every tenth time the counts of a schedule do not grow with its ends",
       .rules = {"counts"},
       .store = Handlers(CountsTooFew)},
      {.name = "handler_ends_in_two_commits",
       .fault = "the claim is deleted first, and Done is written 20 ms later",
       .rules = {"lost"},
       .store = Handlers(EndsInTwoCommits)},
      {.name = "handler_ends_before_answer",
       .fault = "every tenth event is written down as succeeded with its claim",
       .rules = {"stale_epoch"},
       .store = Handlers(EndsBeforeAnswer)},
      {.name = "handler_ends_one_short",
       .fault = "the end of a part of a claim leaves its last event out",
       .rules = {"stale_epoch", "final", "doubled", "lost"},
       .cast = Cast::kTimes,
       .store = Handlers(EndsOneShort)},
      {.name = "handler_retries_unwritten",
       .fault = "a retry is kept in memory only",
       .rules = {"lost"},
       .store = Handlers(RetriesUnwritten)},
      {.name = "handler_numbers_attempts_wrongly",
       .fault = "every third retry bears the number of the attempt before it",
       .rules = {"doubled", "claimed"},
       .faults = false,
       .transport = Sending(NumbersAttemptsWrongly)},
      {.name = "handler_takes_failure_for_success",
       .fault = "every second answer that says failed counts as accepted",
       .rules = {"attempts"},
       .faults = false,
       .transport = Sending(TakesFailureForSuccess)},
      {.name = "handler_ignores_retry_after",
       .fault = "how long the consumer asks to be left alone is not heeded",
       .rules = {"attempts"},
       .transport = Sending(IgnoresRetryAfter)},
      {.name = "handler_gives_up_an_attempt_early",
       .fault = "`>=` for `>`: the last attempt is not made",
       .rules = {"attempts"},
       .store = Handlers(GivesUpAnAttemptEarly)},
      {.name = "handler_deletes_one_off_with_claim",
       .fault = "the row of a one-off event goes with its claim, not with its end",
       .rules = {"lost", "doubled"},
       .store = Handlers(DeletesOneOffWithClaim)},
      {.name = "handler_loses_parked",
       .fault = "every fifth row of a paused schedule is deleted and not parked",
       .rules = {"lost"},
       .store = Handlers(LosesParked)},
      {.name = "handler_misses_wake_up",
       .fault = "of every tenth commit that adds rows the loader is not told",
       .rules = {"lost", "overdue"},
       .faults = false,
       .store = Handlers(MissesWakeUp)},
      {.name = "handler_reports_returned",
       .fault = "every twentieth report of an acceptance says that nothing was sent",
       .rules = {"sink"},
       .cast = Cast::kThrottled,
       .faults = false,
       .store = Handlers(ReportsReturned)},
      {.name = "handler_loses_report",
       .fault = "every twentieth report on a granted event is left out",
       .rules = {"doubled", "sink", "idle", "token_end"},
       .cast = Cast::kThrottled,
       .faults = false,
       .store = Handlers(LosesReport)},
  };
}

}  // namespace escapement::simulation
