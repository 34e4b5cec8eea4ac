#include "services/master/testing/master_world.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/kv/group_parts.h"
#include "common/storage/children_table.h"
#include "common/storage/event_table.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"
#include "common/tokens/token_batch.h"
#include "gtest/gtest.h"

namespace escapement::master {

MasterWorld::MasterWorld() {
  kv::MemKvStore::Options options;
  options.layout = {.partitions = 2, .queue_shards = 4};
  layout = options.layout;
  store = std::make_unique<kv::MemKvStore>(runtime, options);
  executor_ = runtime.NewExecutor("test");
  kv::KvClient::Options client;
  client.name = "test";
  client.session_executor = executor_;
  client.on_session_lost = [] {};
  client_ = std::make_unique<kv::KvClient>(*store, runtime, std::move(client));
  Restart();
}

void MasterWorld::Restart(MasterOptions options) {
  master.reset();
  options.fresh_token_key = std::string(kTokenKeyBytes, 'k');
  master = std::make_unique<MasterService>(std::move(options), *store, runtime);
  master->Start();
  EXPECT_TRUE(runtime.RunUntil([this] { return master->Ready(); }, absl::Minutes(1)));
}

MasterWorld::~MasterWorld() {
  master.reset();
  client_.reset();
  executor_->Stop();
}

absl::Time MasterWorld::runtime_now() const {
  return const_cast<sim::SimRuntime&>(runtime).world().Now();
}

absl::StatusOr<v1::IngestResponse> MasterWorld::Ingest(v1::IngestRequest request, bool return_ids) {
  std::optional<absl::StatusOr<v1::IngestResponse>> answer;
  master->events().IngestBatch(
      std::make_shared<const v1::IngestRequest>(std::move(request)), {.return_ids = return_ids},
      [&](absl::StatusOr<v1::IngestResponse> response) { answer = std::move(response); });
  if (!runtime.RunUntil([&] { return answer.has_value(); }, absl::Minutes(5)))
    return absl::DeadlineExceededError("-");
  return *std::move(answer);
}

void MasterWorld::Commit(std::vector<kv::Group> groups) {
  std::optional<absl::StatusOr<kv::CommitResult>> answer;
  kv::Commit commit;
  commit.groups = std::move(groups);
  client_->CommitAsync(std::move(commit), executor_, [&](absl::StatusOr<kv::CommitResult> result) {
    answer = std::move(result);
  });
  ASSERT_TRUE(runtime.RunUntil([&] { return answer.has_value(); }, absl::Minutes(1)));
  ASSERT_TRUE(answer->ok()) << answer->status();
  for (const kv::Verdict& verdict : (*answer)->verdicts) ASSERT_TRUE(verdict.applied);
}

void MasterWorld::TryCommit(std::vector<kv::Group> groups,
                            absl::AnyInvocable<void(bool applied)> done) {
  kv::Commit commit;
  commit.groups = std::move(groups);
  client_->CommitAsync(std::move(commit), executor_,
                       [done = std::move(done)](absl::StatusOr<kv::CommitResult> result) mutable {
                         bool applied = result.ok();
                         for (size_t i = 0; applied && i < result->verdicts.size(); ++i) {
                           applied = result->verdicts[i].applied;
                         }
                         done(applied);
                       });
}

void MasterWorld::Put(kv::ColumnFamily cf, std::string key, std::string value) {
  kv::Group group;
  group.mutations.push_back({.cf = cf, .key = std::move(key), .value = std::move(value)});
  Commit({group});
}

void MasterWorld::Delete(kv::ColumnFamily cf, std::string key) {
  kv::Group group;
  group.mutations.push_back({.cf = cf, .kind = kv::Mutation::Kind::kDelete, .key = std::move(key)});
  Commit({group});
}

const kv::MemDisk::Family& MasterWorld::Rows(kv::ColumnFamily cf) const {
  return store->disk()->families[static_cast<size_t>(cf)];
}

std::optional<std::string> MasterWorld::Get(kv::ColumnFamily cf, const std::string& key) {
  const auto it = Rows(cf).find(key);
  if (it == Rows(cf).end()) return std::nullopt;
  return it->second;
}

std::string MasterWorld::Dump() const {
  std::string dump;
  for (size_t cf = 0; cf < kv::kColumnFamilyCount; ++cf) {
    const auto family = static_cast<kv::ColumnFamily>(cf);
    if (family == kv::ColumnFamily::kMeta || family == kv::ColumnFamily::kAudit) continue;
    for (const auto& [key, value] : Rows(static_cast<kv::ColumnFamily>(cf))) {
      absl::StrAppend(&dump, cf, " ", absl::BytesToHexString(key), " ",
                      absl::BytesToHexString(value), "\n");
    }
  }
  return dump;
}

std::vector<std::pair<EventKey, storage::v1::EventRecord>> MasterWorld::Events() const {
  std::vector<std::pair<EventKey, storage::v1::EventRecord>> events;
  for (const auto& [key, value] : Rows(kv::ColumnFamily::kEvents)) {
    auto& [event_key, record] = events.emplace_back();
    event_key = *DecodeEventKey(key);
    EXPECT_TRUE(record.ParseFromString(value));
  }
  std::sort(events.begin(), events.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first.due_time, a.first.occurrence, a.first.first) <
           std::tie(b.first.due_time, b.first.occurrence, b.first.first);
  });
  return events;
}

uint16_t MasterWorld::PolicyShardOfTenant() const {
  storage::v1::PolicyRecord policy;
  policy.set_tenant("default");
  policy.set_by_tenant(true);
  return WaitingPlaceOf(policy, layout.policy_shards).policy_shard;
}

void MasterWorld::SetCheckpoints(absl::Time emitted_to, absl::Time planned_to) {
  kv::Group group;
  for (uint16_t partition = 0; partition < layout.partitions; ++partition) {
    group.mutations.push_back({.cf = kv::ColumnFamily::kCheckpoints,
                               .key = EmittedToKey(partition),
                               .value = EncodeCheckpoint(emitted_to)});
    group.mutations.push_back({.cf = kv::ColumnFamily::kCheckpoints,
                               .key = PlannedToKey(partition),
                               .value = EncodeCheckpoint(planned_to)});
  }
  Commit({group});
}

v1::CreateScheduleRequest ValidSchedule(const std::string& id, const std::string& cron) {
  v1::CreateScheduleRequest request;
  request.set_parent("tenants/default");
  request.set_schedule_id(id);
  request.mutable_schedule()->set_cron(cron);
  request.mutable_schedule()->mutable_target()->mutable_http()->set_uri(
      "http://127.0.0.1:8080/hook");
  request.mutable_schedule()->set_payload("{}");
  return request;
}

kv::Group ClaimOf(const EventKey& key, uint64_t number) {
  storage::v1::ClaimRecord claim;
  claim.add_entries()->set_event_key(EncodeEventKey(key));
  claim.mutable_entries(0)->set_row_stays(true);
  kv::Group group;
  group.conditions.push_back(kv::Present(kv::ColumnFamily::kEvents, EncodeEventKey(key)));
  group.mutations.push_back(kv::Put(kv::ColumnFamily::kInflight,
                                    EncodeClaimKey({key.shard, 1, number}),
                                    claim.SerializeAsString()));
  group.mutations.push_back(kv::Put(kv::ColumnFamily::kMeta, ClaimMarkKey(key.shard), ""));
  return group;
}

v1::CreateEventRequest ValidEvent(absl::Time due, const std::string& id) {
  v1::CreateEventRequest request;
  request.set_parent("tenants/default");
  request.set_event_id(id);
  SetTimestamp(ToMicros(due), *request.mutable_event()->mutable_due_time());
  request.mutable_event()->mutable_target()->mutable_grpc()->set_uri("dns:///localhost:50051");
  request.mutable_event()->set_payload("payload");
  return request;
}

v1::IngestRequest ValidBatch(absl::Time due, int count) {
  v1::IngestRequest request;
  request.set_parent("tenants/default");
  request.mutable_defaults()->mutable_target()->mutable_grpc()->set_uri("dns:///localhost:50051");
  for (int i = 0; i < count; ++i) {
    v1::IngestEvent* event = request.add_events();
    event->set_due_time_micros(ToMicros(due) + i);
    event->set_payload(absl::StrCat("payload ", i));
  }
  return request;
}

}  // namespace escapement::master
