#include "tests/budget/rocks_rig.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/hash.h"
#include "common/base/proto_time.h"
#include "common/kv/group_parts.h"
#include "common/storage/event_table.h"
#include "common/storage/schedule_table.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement::budget {

RocksRig::RocksRig()
    : folder_(
          (std::filesystem::temp_directory_path() / absl::StrCat("escapement_budget_", getpid()))
              .string()) {
  std::filesystem::remove_all(folder_);
  kv::RocksKvStore::Options options;
  options.data_dir = folder_;
  // By the real clock the witness would run more often on a slower machine.
  options.witness_interval = absl::Hours(1);
  store_ = *kv::RocksKvStore::Open(std::move(options), runtime_.clock());
  executor_ = runtime_.NewExecutor("budget");
  client_ = std::make_unique<kv::KvClient>(*store_, runtime_, kv::KvClient::Options());
}

RocksRig::~RocksRig() {
  client_.reset();
  executor_->Stop();
  store_.reset();
  std::filesystem::remove_all(folder_);
}

void RocksRig::Commit(std::vector<kv::Group> groups) {
  std::promise<bool> applied;
  kv::Commit commit;
  commit.groups = std::move(groups);
  client_->CommitAsync(std::move(commit), executor_,
                       [&applied](absl::StatusOr<kv::CommitResult> result) {
                         bool all = result.ok();
                         for (size_t i = 0; all && i < result->verdicts.size(); ++i)
                           all = result->verdicts[i].applied;
                         applied.set_value(all);
                       });
  if (!applied.get_future().get()) std::abort();
}

storage::v1::DeliveryRecord DeliveryTo(const std::string& uri) {
  storage::v1::DeliveryRecord delivery;
  delivery.mutable_target()->mutable_grpc()->set_uri(uri);
  delivery.set_content_type("application/json");
  delivery.set_delivery_timeout_micros(60'000'000);
  delivery.mutable_retry()->set_max_attempts(1);
  return delivery;
}

std::vector<std::vector<kv::Group>> OneOffGroups(uint64_t events, absl::Time due,
                                                 uint32_t queue_shards, const std::string& uri,
                                                 bool client_ids) {
  const InternedDelivery interned = Intern(DeliveryTo(uri), due);
  EventRowBuilder builder({.tenant = "default",
                           .queue_shards = queue_shards,
                           .now = due - absl::Seconds(1),
                           .uid_high = 1,
                           .uid_low = 1});
  const std::string payload(kPayloadBytes, 'p');
  std::vector<std::vector<kv::Group>> batches;
  for (uint64_t i = 0; i < events; ++i) {
    if (i % kBatchEvents == 0) batches.emplace_back();
    if (i == 0) batches.back().push_back(InternGroup(interned));
    const std::string id = client_ids ? absl::StrCat("order-", i) : "";
    builder.Add({.client_id = id,
                 .nominal_micros = ToMicros(due),
                 .payload = payload,
                 .definition_hash = &interned.hash,
                 .priority = 5},
                batches.back().emplace_back());
  }
  return batches;
}

storage::v1::DefinitionRecord AddSchedule(uint64_t number, const std::string& cron,
                                          kv::Group* group) {
  const Uid uid = StableHash128(absl::StrCat("schedule ", number));
  storage::v1::DefinitionRecord definition;
  definition.set_tenant("default");
  definition.set_schedule_id(absl::StrCat("s", number));
  definition.set_uid(std::string(uid.bytes()));
  definition.set_version(1);
  definition.set_cron(cron);
  definition.set_time_zone("UTC");
  definition.set_event_count(1);
  definition.set_priority(5);
  definition.set_payload(std::string(kPayloadBytes, 'p'));
  *definition.mutable_delivery() = DeliveryTo("consumer");
  storage::v1::StateRecord state;
  state.set_kind(storage::v1::SCHEDULE_STATE_KIND_ENABLED);
  state.set_version(1);
  state.set_change_count(1);
  group->mutations.push_back(
      kv::Put(kv::ColumnFamily::kStates, StateKey(uid), state.SerializeAsString()));
  group->mutations.push_back(kv::Put(kv::ColumnFamily::kDefinitions, DefinitionKey(uid, 1),
                                     definition.SerializeAsString()));
  return definition;
}

}  // namespace escapement::budget
