#include "services/token_manager/shard/record_reader.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"

namespace escapement::token_manager {
namespace {

constexpr size_t kPoliciesAtOnce = 1000;
constexpr size_t kPartsAtOnce = 4000;
constexpr size_t kPayloadsAtOnce = 32;  // a row may have 256 KiB, and a commit 32 MiB

}  // namespace

void AwaitRecords(PolicyShardState& state, PolicyState& policy, const Uid& schedule) {
  policy.fetching.insert(schedule);
  state.fetching.insert(policy.uid);
}

void RecordsRead(PolicyShardState& state) {
  const std::set<Uid> waiting = std::exchange(state.fetching, {});
  for (const Uid& uid : waiting) {
    PolicyState* policy = state.Find(uid);
    if (policy == nullptr) continue;
    policy->fetching.clear();
    policy->waiting.queue().Reconsider(kBeingRead);
    state.MakeReady(*policy);
    state.Plan(*policy);
  }
}

void RecordReader::OnPolicy(PolicyShardState& state, const Uid& uid,
                            const std::optional<std::string>& value, kv::CommitSeq seq) {
  PolicyState* policy = state.Find(uid);
  if (policy == nullptr || policy->implicit()) return;
  policy->SetRecord(value, seq, state.core.client.NowLow());
  state.gates.OpenAll(uid);
  state.MakeReady(*policy);
  state.Plan(*policy);
}

void RecordReader::ReadAgain(PolicyShardState& state, PolicyState& policy) {
  if (policy.implicit()) return;
  policy.reading_is_old = policy.reading;
  if (!policy.reading) state.unread.insert(policy.uid);
}

void RecordReader::Step() {
  const std::shared_ptr<PolicyShardState> state = state_.lock();
  if (!policies_ && !state->unread.empty()) ReadPolicies(*state);
  if (!parts_ && state->parts.wanted()) ReadParts(*state);
  if (!payloads_ && !state->payloads.wanted.empty()) ReadPayloads(*state);
}

void RecordReader::ReadPolicies(PolicyShardState& state) {
  std::vector<Uid> uids;
  std::vector<kv::Key> keys;
  while (!state.unread.empty() && uids.size() < kPoliciesAtOnce) {
    const Uid uid = state.unread.extract(state.unread.begin()).value();
    PolicyState* policy = state.Find(uid);
    if (policy == nullptr) continue;
    policy->reading = true;
    uids.push_back(uid);
    keys.push_back(
        {.cf = kv::ColumnFamily::kPolicies, .key = PolicyKey(policy->tenant, policy->policy_id)});
    keys.push_back({.cf = kv::ColumnFamily::kGrants, .key = PolicyCountsKey(state.shard, uid)});
    keys.push_back({.cf = kv::ColumnFamily::kGrants, .key = PolicyHistoryKey(state.shard, uid)});
  }
  if (uids.empty()) return;
  policies_ = true;
  state.core.client.MultiGet(
      std::move(keys), state.core.executor,
      [this, weak = state_, uids = std::move(uids)](absl::StatusOr<kv::GetResult> result) {
        const std::shared_ptr<PolicyShardState> state = weak.lock();
        if (state == nullptr) return;
        policies_ = false;
        for (size_t i = 0; i < uids.size(); ++i) {
          PolicyState* policy = state->Find(uids[i]);
          if (policy == nullptr) continue;
          policy->reading = false;
          const bool old = std::exchange(policy->reading_is_old, false);
          if (old || !result.ok()) state->unread.insert(uids[i]);
          if (!result.ok()) continue;
          // The later of both times: one before the last grant could give back permits that it
          // took.
          const absl::Time now = std::max(result->store_time, state->core.client.NowLow());
          policy->SetRecord(result->values[3 * i], result->seq, now);
          if (!policy->known) {
            policy->SetCounts(result->values[3 * i + 1]);
            policy->SetHistory(result->values[3 * i + 2], now);
          }
          policy->known = true;
          state->gates.OpenAll(uids[i]);
          state->Plan(*policy);
          state->MakeReady(*policy);
        }
        RecordsRead(*state);
        state->core.wake();
      });
}

void RecordReader::ReadParts(PolicyShardState& state) {
  const std::vector<std::string> wanted = state.parts.TakeWanted(kPartsAtOnce);
  std::vector<kv::Key> keys;
  keys.reserve(wanted.size());
  for (const std::string& key : wanted)
    keys.push_back({.cf = kv::ColumnFamily::kRunParts, .key = key});
  parts_ = true;
  state.core.client.MultiGet(std::move(keys), state.core.executor,
                             [this, weak = state_, wanted](absl::StatusOr<kv::GetResult> result) {
                               const std::shared_ptr<PolicyShardState> state = weak.lock();
                               if (state == nullptr) return;
                               parts_ = false;
                               for (size_t i = 0; i < wanted.size(); ++i) {
                                 // After a failure, the next user of the part asks for it again.
                                 if (result.ok()) state->parts.Put(wanted[i], result->values[i]);
                               }
                               if (!result.ok()) {
                                 for (const std::string& key : wanted) state->parts.Find(key);
                               }
                               RecordsRead(*state);
                               state->core.wake();
                             });
}

void RecordReader::ReadPayloads(PolicyShardState& state) {
  std::vector<std::string> wanted;
  std::vector<kv::Key> keys;
  while (!state.payloads.wanted.empty() && keys.size() < kPayloadsAtOnce) {
    wanted.push_back(
        std::move(state.payloads.wanted.extract(state.payloads.wanted.begin()).value()));
    keys.push_back({.cf = kv::ColumnFamily::kEvents, .key = wanted.back()});
  }
  payloads_ = true;
  state.core.client.MultiGet(std::move(keys), state.core.executor,
                             [this, weak = state_, wanted](absl::StatusOr<kv::GetResult> result) {
                               const std::shared_ptr<PolicyShardState> state = weak.lock();
                               if (state == nullptr) return;
                               payloads_ = false;
                               // After a failure, the next round asks for them again.
                               for (size_t i = 0; result.ok() && i < wanted.size(); ++i) {
                                 storage::v1::EventRecord row;
                                 if (result->values[i].has_value())
                                   row.ParseFromString(*result->values[i]);
                                 state->payloads.known[wanted[i]] =
                                     std::move(*row.mutable_payload());
                               }
                               state->payloads.arrived = true;
                               RecordsRead(*state);
                               state->core.wake();
                             });
}

}  // namespace escapement::token_manager
