#include "services/token_manager/shard/record_reader.h"

#include <algorithm>
#include <utility>

#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"

namespace escapement::token_manager {
namespace {

constexpr size_t kPoliciesAtOnce = 1000;
constexpr size_t kPartsAtOnce = 4000;
constexpr size_t kPayloadsAtOnce = 32;  // a row may have 256 KiB, and a commit 32 MiB

}  // namespace

void RecordReader::OnPolicy(PolicyShardState& state, PolicyState& policy,
                            const std::optional<std::string>& value, kv::CommitSeq seq) {
  if (policy.implicit()) return;
  policy.SetRecord(value, seq, state.core.client.NowLow());
  state.gates.OpenAll(policy.uid);
  state.Revisit(policy);
}

void RecordReader::ReadAgain(PolicyShardState& state, PolicyState& policy) {
  if (policy.implicit()) return;
  policy.reading_is_old = policy.reading;
  state.WantRecord(policy);
}

void RecordReader::Step() {
  if (!policies_ && !state_.unread.empty()) ReadPolicies();
  if (!parts_ && state_.parts.wanted()) ReadParts();
  if (!payloads_ && !state_.payloads.wanted.empty()) ReadPayloads();
}

template <typename Then>
void RecordReader::Read(std::vector<kv::Key> keys, bool& reading, Then then) {
  reading = true;
  state_.core.client.MultiGet(std::move(keys), state_.core.executor,
                              state_.WhileOwned([this, &reading, then = std::move(then)](
                                                    const absl::StatusOr<kv::GetResult>& result) {
                                reading = false;
                                then(result);
                                state_.RecordsRead();
                                state_.core.wake();
                              }));
}

void RecordReader::ReadPolicies() {
  std::vector<Uid> uids = TakeFirst(state_.unread, kPoliciesAtOnce);
  std::vector<kv::Key> keys;
  for (const Uid& uid : uids) {
    PolicyState& policy = *state_.Find(uid);
    policy.reading = true;
    keys.push_back(
        {.cf = kv::ColumnFamily::kPolicies, .key = PolicyKey(policy.tenant, policy.policy_id)});
    keys.push_back({.cf = kv::ColumnFamily::kGrants, .key = PolicyCountsKey(state_.shard, uid)});
    keys.push_back({.cf = kv::ColumnFamily::kGrants, .key = PolicyHistoryKey(state_.shard, uid)});
  }
  Read(std::move(keys), policies_,
       [this, uids = std::move(uids)](const absl::StatusOr<kv::GetResult>& result) {
         for (size_t i = 0; i < uids.size(); ++i) {
           PolicyState* policy = state_.Find(uids[i]);
           if (policy == nullptr) continue;
           policy->reading = false;
           const bool old = std::exchange(policy->reading_is_old, false);
           if (old || !result.ok()) state_.WantRecord(*policy);
           if (!result.ok()) continue;
           // The later of both times: one before the last grant could give back permits that it
           // took.
           const absl::Time now = std::max(result->store_time, state_.core.client.NowLow());
           policy->SetRecord(result->values[3 * i], result->seq, now);
           if (!policy->known) {
             policy->SetCounts(result->values[3 * i + 1]);
             policy->SetHistory(result->values[3 * i + 2], now);
           }
           policy->known = true;
           state_.gates.OpenAll(uids[i]);
           state_.Revisit(*policy);
         }
       });
}

void RecordReader::ReadParts() {
  std::vector<std::string> wanted = state_.parts.TakeWanted(kPartsAtOnce);
  std::vector<kv::Key> keys;
  keys.reserve(wanted.size());
  for (const std::string& key : wanted)
    keys.push_back({.cf = kv::ColumnFamily::kRunParts, .key = key});
  Read(std::move(keys), parts_,
       [this, wanted = std::move(wanted)](const absl::StatusOr<kv::GetResult>& result) {
         for (size_t i = 0; i < wanted.size(); ++i) {
           if (result.ok()) {
             state_.parts.Put(wanted[i], result->values[i]);
           } else {
             state_.parts.Find(wanted[i]);  // it is wanted again
           }
         }
       });
}

void RecordReader::ReadPayloads() {
  std::vector<kv::Key> keys;
  for (std::string& key : TakeFirst(state_.payloads.wanted, kPayloadsAtOnce))
    keys.push_back({.cf = kv::ColumnFamily::kEvents, .key = std::move(key)});
  Read(keys, payloads_, [this, keys](const absl::StatusOr<kv::GetResult>& result) {
    // After a failure, the next round asks for them again.
    for (size_t i = 0; result.ok() && i < keys.size(); ++i) {
      storage::v1::EventRecord row;
      if (result->values[i].has_value()) row.ParseFromString(*result->values[i]);
      state_.payloads.known[keys[i].key] = std::move(*row.mutable_payload());
    }
    state_.payloads.arrived = true;
  });
}

}  // namespace escapement::token_manager
