#include "services/token_manager/judging/policy_watch.h"

#include <utility>

#include "common/runtime/perturb.h"
#include "common/storage/policy_table.h"

namespace escapement::token_manager {
namespace {

constexpr absl::Duration kAgain = absl::Milliseconds(100);

// The policies' records; behind them is who refers to them.
std::string Begin() { return std::string(1, '\0'); }
std::string End() { return std::string(1, '\1'); }

}  // namespace

PolicyWatch::PolicyWatch(kv::KvClient& client, std::shared_ptr<Executor> executor,
                         Callbacks callbacks)
    : client_(client), executor_(std::move(executor)), callbacks_(std::move(callbacks)) {}

PolicyWatch::~PolicyWatch() = default;

void PolicyWatch::Start() {
  alive_ = std::make_shared<int>();
  watch_.reset();
  client_.Scan({.cf = kv::ColumnFamily::kPolicies,
                .begin = Begin(),
                .end = End(),
                .limit = 1,
                .keys_only = true},
               executor_,
               [this, alive = std::weak_ptr<int>(alive_)](absl::StatusOr<kv::ScanResult> result) {
                 if (alive.expired()) return;
                 if (!result.ok()) return Start();
                 OpenWatch(result->seq);
                 callbacks_.on_open();
               });
}

void PolicyWatch::OpenWatch(kv::CommitSeq from) {
  watch_ = client_.OpenWatch(
      {.cf = kv::ColumnFamily::kPolicies, .begin = Begin(), .end = End(), .from_seq = from},
      /*excluding_own=*/false, executor_,
      {.on_batch =
           [this, alive = std::weak_ptr<int>(alive_)](const kv::WatchBatch& batch) {
             if (!alive.expired()) OnBatch(batch);
           },
       .on_lagged =
           [this, alive = std::weak_ptr<int>(alive_)](const absl::Status&) {
             if (alive.expired()) return;
             executor_->PostAfter(kAgain, [this, alive] {
               if (!alive.expired()) Start();
             });
           }});
}

void PolicyWatch::OnBatch(const kv::WatchBatch& batch) {
  const bool none_told = Perturb(client_.runtime(), Site::kPolicyChangeNotTold);
  for (const kv::WatchedMutation& mutation : batch.mutations) {
    const std::optional<PolicyName> name = DecodePolicyKey(mutation.key);
    if (!name.has_value()) continue;
    const Uid policy = PolicyUid(name->tenant, name->policy_id);
    if (mutation.kind == kv::Mutation::Kind::kDelete) {
      callbacks_.on_policy(policy, std::nullopt, batch.seq);
    } else if (mutation.value_omitted || none_told) {
      callbacks_.on_large(policy);
    } else if (mutation.kind == kv::Mutation::Kind::kPut) {
      callbacks_.on_policy(policy, mutation.value, batch.seq);
    }
  }
}

}  // namespace escapement::token_manager
