// Faults of token managers: grants, releases, limits, hold times.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "common/base/proto_time.h"
#include "common/storage/waiting_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "tests/simulation/mutants/mutants.h"
#include "tests/simulation/mutants/rewriting.h"

namespace escapement::simulation {
namespace {

using kv::ColumnFamily;
using kv::Mutation;
using storage::v1::GrantRecord;
using storage::v1::GrantReportRecord;
using storage::v1::PolicyCountsRecord;
using storage::v1::PolicyRecord;

StoreDecorator TokenManagers(std::function<Rewrite()> make) {
  return Rewriting("token_manager", std::move(make));
}

Mutant Throttled(Mutant mutant, bool faults = false) {
  mutant.cast = Cast::kThrottled;
  mutant.faults = faults;
  return mutant;
}

bool IsClaimOfTokens(const Mutation& mutation) {
  return mutation.cf == ColumnFamily::kInflight && IsPut(mutation);
}

bool IsWaitingRow(const Mutation& mutation) {
  return mutation.cf == ColumnFamily::kWaiting && !IsReportKey(mutation.key);
}

bool IsGrant(const Mutation& mutation) {
  return mutation.cf == ColumnFamily::kGrants && DecodeGrantKey(mutation.key).has_value();
}

void WaivePolicies(kv::CommitRequest* request) {
  WaiveConditions(request, [](const kv::Condition& condition) {
    return condition.cf == ColumnFamily::kPolicies;
  });
}

Rewrite GrantsOneMore() {
  return {.commit = WaivePolicies,
          .value = [](ColumnFamily cf, const std::string&, std::string* value) {
            if (cf != ColumnFamily::kPolicies) return;
            EditValue<PolicyRecord>(value, [](PolicyRecord* policy) {
              if (policy->max_concurrent() > 0)
                policy->set_max_concurrent(policy->max_concurrent() + 1);
            });
          }};
}

Rewrite GrantsOneMoreOfAKey() {
  return {
      .commit = WaivePolicies,
      .value = [](ColumnFamily cf, const std::string&, std::string* value) {
        if (cf != ColumnFamily::kPolicies) return;
        EditValue<PolicyRecord>(value, [](PolicyRecord* policy) {
          if (policy->has_per_key()) {
            policy->mutable_per_key()->set_max_concurrent(policy->per_key().max_concurrent() + 1);
          }
        });
      }};
}

// Edits the limits of all rows that wait and of all definitions that token managers read.
template <typename Edit>
Rewrite EditsLimits(Edit edit) {
  return {.value = [edit](ColumnFamily cf, const std::string& key, std::string* value) {
    if (cf == ColumnFamily::kWaiting && !IsReportKey(key)) {
      EditValue<storage::v1::EventRecord>(
          value, [&](storage::v1::EventRecord* row) { edit(row->mutable_throttle()); });
    } else if (cf == ColumnFamily::kDefinitions) {
      EditValue<storage::v1::DefinitionRecord>(value, [&](storage::v1::DefinitionRecord* record) {
        if (record->has_throttle()) edit(record->mutable_throttle());
      });
    }
  }};
}

Rewrite ForgetsALimit() {
  return EditsLimits([](storage::v1::ThrottleRecord* throttle) {
    if (!throttle->more().empty()) throttle->mutable_more()->RemoveLast();
  });
}

Rewrite IgnoresWeights() {
  return EditsLimits([](storage::v1::ThrottleRecord* throttle) {
    throttle->clear_weight();
    for (storage::v1::LimitRecord& limit : *throttle->mutable_more()) limit.set_weight(1);
  });
}

// Every policy stays as it was when the process first read it.
Rewrite KeepsLimits() {
  return {.commit = WaivePolicies,
          .value = [known = std::map<std::string, std::string>()](
                       ColumnFamily cf, const std::string& key, std::string* value) mutable {
            if (cf != ColumnFamily::kPolicies) return;
            *value = known.try_emplace(key, *value).first->second;
          }};
}

Rewrite GrantsOneMoreAtOnce() {
  return {.commit = WaivePolicies,
          .value = [](ColumnFamily cf, const std::string&, std::string* value) {
            if (cf != ColumnFamily::kPolicies) return;
            EditValue<PolicyRecord>(
                value, [](PolicyRecord* policy) { policy->set_burst(policy->burst() + 1); });
          }};
}

// Happens at takeover.
Rewrite MissesLastGrant() {
  return {.scan = [](const kv::ScanRequest& request, kv::ScanResult* result) {
    if (request.cf == ColumnFamily::kGrants && result->entries.size() > 1)
      result->entries.pop_back();
  }};
}

Rewrite MiscountsHeld() {
  return {.commit = [every = Every(10)](kv::CommitRequest* request) mutable {
    for (kv::Group& group : request->groups) {
      for (Mutation& mutation : group.mutations) {
        if (mutation.cf != ColumnFamily::kGrants || !IsPut(mutation) || IsGrant(mutation)) continue;
        EditValue<PolicyCountsRecord>(&mutation.value, [&](PolicyCountsRecord* counts) {
          if (counts->held() > 0 && every()) counts->set_held(counts->held() - 1);
        });
      }
    }
  }};
}

Rewrite MiscountsTokens() {
  return {.commit = [every = Every(10)](kv::CommitRequest* request) mutable {
    for (kv::Group& group : request->groups) {
      for (Mutation& mutation : group.mutations) {
        if (mutation.cf != ColumnFamily::kRunParts || !IsPut(mutation)) continue;
        EditValue<storage::v1::RunPartRecord>(&mutation.value,
                                              [&](storage::v1::RunPartRecord* part) {
                                                if (part->tokens() > 0 && every())
                                                  part->set_tokens(part->tokens() - 1);
                                              });
      }
    }
  }};
}

Rewrite LosesTokenOutcome() {
  return {.commit = [every = Every(20)](kv::CommitRequest* request) mutable {
    EraseMutations(request, [&](const Mutation& mutation) {
      return mutation.cf == ColumnFamily::kDone && every();
    });
  }};
}

// Its row in `events`.
Rewrite KeepsOneOff() {
  return {.commit = [every = Every(5)](kv::CommitRequest* request) mutable {
    EraseMutations(request, [&](const Mutation& mutation) {
      return mutation.cf == ColumnFamily::kEvents && !IsPut(mutation) && every();
    });
  }};
}

// Deletes the waiting rows in a commit of their own.
Rewrite GrantsOutsideBatch() {
  return {.split = [](kv::CommitRequest* request) -> std::optional<kv::Commit> {
            kv::Commit rows;
            for (kv::Group& group : request->groups) {
              if (!std::any_of(group.mutations.begin(), group.mutations.end(), IsClaimOfTokens))
                continue;
              kv::Group own;
              for (const Mutation& mutation : group.mutations) {
                if (IsWaitingRow(mutation)) own.mutations.push_back(mutation);
              }
              EraseMutations(&group, IsWaitingRow);
              rows.groups.push_back(std::move(own));
            }
            if (rows.groups.empty()) return std::nullopt;
            return rows;
          },
          .gap = absl::Milliseconds(1)};
}

Rewrite LosesClaim() {
  return {.commit = [every = Every(20)](kv::CommitRequest* request) mutable {
    EraseMutations(request,
                   [&](const Mutation& mutation) { return IsClaimOfTokens(mutation) && every(); });
  }};
}

Rewrite LosesRetry() {
  return {.commit = [every = Every(10)](kv::CommitRequest* request) mutable {
    for (kv::Group& group : request->groups) {
      if (std::any_of(group.mutations.begin(), group.mutations.end(), IsClaimOfTokens)) continue;
      EraseMutations(&group, [&](const Mutation& mutation) {
        return IsWaitingRow(mutation) && IsPut(mutation) && every();
      });
    }
  }};
}

Rewrite KeepsGrant() {
  return {.commit = [every = Every(20)](kv::CommitRequest* request) mutable {
    EraseMutations(request, [&](const Mutation& mutation) {
      return IsGrant(mutation) && !IsPut(mutation) && every();
    });
  }};
}

// Shifts the delivery times that handlers report; hold times count from them.
Rewrite CountsHoldTimeFrom(absl::Duration offset) {
  return {.value = [offset](ColumnFamily cf, const std::string& key, std::string* value) {
    if (cf != ColumnFamily::kWaiting || !IsReportKey(key)) return;
    EditValue<GrantReportRecord>(value, [&](GrantReportRecord* report) {
      for (auto& entry : *report->mutable_entries()) {
        if (entry.kind() == GrantReportRecord::DELIVERED)
          entry.set_time_micros(entry.time_micros() + absl::ToInt64Microseconds(offset));
      }
    });
  }};
}

Rewrite GrantsWhateverTheState() {
  return {.commit =
              [](kv::CommitRequest* request) {
                WaiveConditions(request, [](const kv::Condition& condition) {
                  return condition.cf == ColumnFamily::kStates;
                });
              },
          .delay = absl::Milliseconds(20)};
}

Rewrite MissesTokenWakeUp() {
  return {.hears = [every = Every(5)](ColumnFamily cf) mutable {
    return cf != ColumnFamily::kWaiting || !every();
  }};
}

// Remembers the token with which each event was last sent.
struct Tokens {
  std::map<std::string, std::string> event_of;
  std::map<std::string, std::string> last;  // by event

  std::string LastLike(const std::string& token) const {
    const auto event = event_of.find(token);
    return event == event_of.end() ? token : last.at(event->second);
  }
};

class NotingTransport final : public handler::DeliveryTransport {
 public:
  NotingTransport(std::unique_ptr<handler::DeliveryTransport> inner, std::shared_ptr<Tokens> tokens)
      : inner_(std::move(inner)), tokens_(std::move(tokens)) {}

  void Send(std::vector<handler::DeliveryAttempt> attempts,
            std::shared_ptr<handler::DeliverySink> sink) override {
    for (const handler::DeliveryAttempt& attempt : attempts) {
      if (attempt.token.empty()) continue;
      tokens_->event_of[attempt.token] = attempt.event_id;
      tokens_->last[attempt.event_id] = attempt.token;
    }
    inner_->Send(std::move(attempts), std::move(sink));
  }

 private:
  const std::unique_ptr<handler::DeliveryTransport> inner_;
  const std::shared_ptr<Tokens> tokens_;
};

// Treats all tokens of an event alike: it replaces each by the latest.
class CarelessDoor final : public TokenApi {
 public:
  CarelessDoor(TokenApi& inner, std::shared_ptr<Tokens> tokens)
      : inner_(inner), tokens_(std::move(tokens)) {}

  void CompleteTokens(const v1::CompleteTokensRequest& request,
                      Done<v1::CompleteTokensResponse> done) override {
    v1::CompleteTokensRequest changed = request;
    for (v1::TokenCompletion& completion : *changed.mutable_completions())
      completion.set_token(tokens_->LastLike(completion.token()));
    inner_.CompleteTokens(changed, std::move(done));
  }
  void ReleaseTokens(const v1::ReleaseTokensRequest& request,
                     Done<v1::ReleaseTokensResponse> done) override {
    v1::ReleaseTokensRequest changed = request;
    for (std::string& token : *changed.mutable_tokens()) token = tokens_->LastLike(token);
    inner_.ReleaseTokens(changed, std::move(done));
  }
  void ExtendTokens(const v1::ExtendTokensRequest& request,
                    Done<v1::ExtendTokensResponse> done) override {
    inner_.ExtendTokens(request, std::move(done));
  }

 private:
  TokenApi& inner_;
  const std::shared_ptr<Tokens> tokens_;
};

Mutant ReleasesAnyGeneration() {
  auto tokens = std::make_shared<Tokens>();
  return {
      .name = "token_manager_releases_any_generation",
      .fault = "a release is not asked for its generation: a late one frees the token of now",
      .rules = {"sink", "token_end", "doubled"},
      .transport =
          [tokens](std::unique_ptr<handler::DeliveryTransport> inner, sim::SimProcess&) {
            return std::make_unique<NotingTransport>(std::move(inner), tokens);
          },
      .door = [tokens](TokenApi& inner) { return std::make_unique<CarelessDoor>(inner, tokens); },
      // The fault shows when a late release meets a new grant of the same event.
      .work = WorkHabits{.fails = 600'000, .work_max = absl::Seconds(3)}};
}

}  // namespace

std::vector<Mutant> TokenManagerMutants() {
  return {
      Throttled({.name = "token_manager_grants_one_more",
                 .fault = "`<=` for `<`: as many are granted as the limit says, and one",
                 .rules = {"cap"},
                 .store = TokenManagers(GrantsOneMore)}),
      Throttled({.name = "token_manager_grants_one_more_of_a_key",
                 .fault = "every key of a policy gets one token more than it may",
                 .rules = {"cap", "sink"},
                 .store = TokenManagers(GrantsOneMoreOfAKey)}),
      Throttled({.name = "token_manager_forgets_a_limit",
                 .fault = "of an event with several limits the last one is not known",
                 .rules = {"token_end", "cap"},
                 .store = TokenManagers(ForgetsALimit)}),
      Throttled({.name = "token_manager_ignores_weights",
                 .fault = "each event holds one token of each of its policies",
                 .rules = {"token_end", "cap"},
                 .store = TokenManagers(IgnoresWeights)}),
      Throttled({.name = "token_manager_keeps_limits",
                 .fault = "the policy is read once, and grants are not conditional on it",
                 .rules = {"cap"},
                 .store = TokenManagers(KeepsLimits)}),
      Throttled({.name = "token_manager_grants_one_more_at_once",
                 .fault = "`<=` for `<`: a burst is one larger than the policy says",
                 .rules = {"cap"},
                 .store = TokenManagers(GrantsOneMoreAtOnce)}),
      Throttled({.name = "token_manager_misses_last_grant",
                 .fault = "whoever takes a shard over does not see the last grant in it",
                 .rules = {"cap", "token_end", "lost"},
                 .store = TokenManagers(MissesLastGrant)},
                true),
      Throttled({.name = "token_manager_miscounts_held",
                 .fault = "in every tenth count of a policy one holder is missing",
                 .rules = {"token_end", "cap"},
                 .store = TokenManagers(MiscountsHeld)}),
      Throttled({.name = "token_manager_miscounts_tokens",
                 .fault = "in every tenth count of a run one token is missing",
                 .rules = {"reports"},
                 .store = TokenManagers(MiscountsTokens)}),
      Throttled({.name = "token_manager_clock_ahead",
                 .fault = "what may go is judged by a clock that is 200 ms ahead",
                 .rules = {"early", "cap"},
                 .store = TokenManagers([] { return Rewrite{.ahead = absl::Milliseconds(200)}; })}),
      Throttled({.name = "token_manager_epoch_not_compared",
                 .fault = "every tenth commit is not conditional on the epoch of the shard's lease",
                 .rules = {"stale_epoch"},
                 .store = Unfenced("token_manager", 10)}),
      Throttled({.name = "token_manager_grants_outside_batch",
                 .fault = "who is granted leaves the queue in a commit of its own, 1 ms later",
                 .rules = {"token_end"},
                 .store = TokenManagers(GrantsOutsideBatch)}),
      Throttled({.name = "token_manager_loses_claim",
                 .fault = "every twentieth grant is made without its claim",
                 .rules = {"token_end"},
                 .store = TokenManagers(LosesClaim)}),
      Throttled({.name = "token_manager_loses_outcome",
                 .fault = "every twentieth record of Done is left out of a release",
                 .rules = {"token_end"},
                 .store = TokenManagers(LosesTokenOutcome)}),
      Throttled({.name = "token_manager_keeps_one_off",
                 .fault = "of every fifth one-off event that has ended the row stays",
                 .rules = {"lost"},
                 .store = TokenManagers(KeepsOneOff)}),
      Throttled({.name = "token_manager_loses_retry",
                 .fault = "every tenth event that is to wait again gets no row",
                 .rules = {"token_end"},
                 .store = TokenManagers(LosesRetry)}),
      Throttled({.name = "token_manager_keeps_grant",
                 .fault = "every twentieth grant whose events have ended stays",
                 .rules = {"token_end"},
                 .store = TokenManagers(KeepsGrant)}),
      Throttled(ReleasesAnyGeneration(), true),
      Throttled({.name = "token_manager_cuts_hold_time_short",
                 .fault = "the hold time begins a second before the delivery",
                 .rules = {"holds"},
                 .store = TokenManagers([] { return CountsHoldTimeFrom(-absl::Seconds(1)); })}),
      Throttled({.name = "token_manager_never_expires",
                 .fault = "the hold time begins ten minutes after the delivery",
                 .rules = {"holds"},
                 .store = TokenManagers([] { return CountsHoldTimeFrom(absl::Minutes(10)); })}),
      Throttled({.name = "token_manager_grants_whatever_the_state",
                 .fault = "grants are not conditional on the state of their schedules",
                 .rules = {"cap", "paused"},
                 .store = TokenManagers(GrantsWhateverTheState)}),
      Throttled({.name = "token_manager_misses_wake_up",
                 .fault = "of every fifth commit that adds a waiter or a report it is not told",
                 .rules = {"idle", "lost"},
                 .store = TokenManagers(MissesTokenWakeUp)}),
      Throttled({.name = "token_manager_is_slow",
                 .fault = "what has been freed is granted two seconds later",
                 .rules = {"idle"},
                 .store = TokenManagers([] { return Rewrite{.delay = absl::Seconds(2)}; })}),
  };
}

}  // namespace escapement::simulation
