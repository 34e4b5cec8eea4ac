#include "tests/budget/paths.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/proto_time.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/group_parts.h"
#include "common/kv/memory/mem_kv_store.h"
#include "common/sim/sim_runtime.h"
#include "common/storage/children_table.h"
#include "common/storage/event_table.h"
#include "common/storage/waiting_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/emitter/service/emitter_service.h"
#include "services/handler/testing/handler_world.h"
#include "services/master/testing/master_world.h"
#include "services/token_manager/testing/token_world.h"
#include "tests/budget/mark.h"
#include "tests/budget/rocks_rig.h"

namespace escapement::budget {

namespace {

constexpr kv::Layout kLayout = {.partitions = 4, .queue_shards = 4};

}  // namespace

void RunEmissionPath(uint64_t events) {
  sim::SimWorld::Options world;
  world.start_time = absl::FromUnixSeconds(1'772'323'200);  // 2026-03-01T00:00:00Z
  sim::SimRuntime runtime(1, world);
  kv::MemKvStore::Options options;
  options.layout = kLayout;
  kv::MemKvStore store(runtime, options);
  const std::shared_ptr<Executor> executor = runtime.NewExecutor("budget");
  kv::KvClient client(store, runtime, kv::KvClient::Options());
  for (uint64_t i = 0; i < events;) {
    kv::Commit commit;
    for (uint64_t n = 0; n < kBatchEvents && i < events; ++n) {
      kv::Group& group = commit.groups.emplace_back();
      const storage::v1::DefinitionRecord definition = AddSchedule(i++, "1 * * * *", &group);
      AddChildren(definition, TimetableOf(definition).value(), runtime.world().Now(), kLayout,
                  group.mutations);
    }
    bool applied = false;
    client.CommitAsync(std::move(commit), executor, [&](absl::StatusOr<kv::CommitResult> result) {
      applied = result.ok() && result->verdicts[0].applied;
    });
    if (!runtime.RunUntil([&] { return applied; }, absl::Seconds(10))) std::abort();
  }
  emitter::EmitterService service({}, store, runtime);
  service.Start();
  // The schedules fire at 00:01; rows are written five seconds ahead.
  const absl::Time begin = world.start_time + absl::Seconds(53);
  runtime.AdvanceBy(begin - runtime.world().Now());
  const auto& rows = store.disk()->families[static_cast<size_t>(kv::ColumnFamily::kEvents)];
  if (!rows.empty()) std::abort();
  escapement_budget_mark();
  const bool done = runtime.RunUntil([&] { return rows.size() == events; }, absl::Seconds(5));
  escapement_budget_mark();
  if (!done) std::abort();
  executor->Stop();
}

void RunIngestPath(uint64_t events) {
  master::MasterWorld fixture;
  const absl::Time due = fixture.Now() + absl::Hours(1);
  std::vector<v1::IngestRequest> batches;
  for (uint64_t first = 0; first < events; first += kBatchEvents) {
    batches.push_back(
        master::ValidBatch(due, static_cast<int>(std::min(kBatchEvents, events - first))));
    for (v1::IngestEvent& event : *batches.back().mutable_events())
      event.set_payload(std::string(kPayloadBytes, 'p'));
  }
  // The first batch stores the delivery record that all batches share.
  if (!fixture.Ingest(master::ValidBatch(due, 1)).ok()) std::abort();
  escapement_budget_mark();
  for (v1::IngestRequest& batch : batches) {
    if (!fixture.Ingest(std::move(batch)).ok()) std::abort();
  }
  escapement_budget_mark();
}

namespace {

// Ends each row of a batch: the row must be there; it is deleted, and a Done record is put.
std::vector<kv::Group> Ends(const std::vector<kv::Group>& puts) {
  std::vector<kv::Group> ends;
  for (const kv::Group& put : puts) {
    if (put.mutations[0].cf != kv::ColumnFamily::kEvents) continue;
    const std::optional<EventKey> key = DecodeEventKey(put.mutations[0].key);
    storage::v1::DoneRecord done;
    done.set_tenant("default");
    done.set_count(1);
    done.set_run_count(1);
    done.set_outcome(storage::v1::OUTCOME_KIND_SUCCEEDED);
    done.set_attempts(1);
    done.set_nominal_time_micros(ToMicros(key->due_time));
    done.set_launch_time_micros(ToMicros(key->due_time));
    done.set_dispatch_time_micros(ToMicros(key->due_time));
    done.set_complete_time_micros(ToMicros(key->due_time));
    kv::Group& end = ends.emplace_back();
    end.conditions.push_back({.cf = kv::ColumnFamily::kEvents,
                              .key = put.mutations[0].key,
                              .kind = kv::Condition::Kind::kPresent});
    end.mutations.push_back({.cf = kv::ColumnFamily::kEvents,
                             .kind = kv::Mutation::Kind::kDelete,
                             .key = put.mutations[0].key});
    end.mutations.push_back({.cf = kv::ColumnFamily::kDone,
                             .key = EncodeDoneKey({.shard = key->shard,
                                                   .day = DoneDay(key->due_time),
                                                   .uid = key->uid,
                                                   .occurrence = "",
                                                   .first = 0}),
                             .value = done.SerializeAsString()});
  }
  return ends;
}

}  // namespace

void RunStorePath(uint64_t events) {
  std::vector<std::vector<kv::Group>> puts = OneOffGroups(
      events, absl::FromUnixSeconds(1'772'323'200), 8, "consumer", /*client_ids=*/true);
  std::vector<std::vector<kv::Group>> ends;
  for (const std::vector<kv::Group>& batch : puts) ends.push_back(Ends(batch));
  RocksRig rig;
  rig.Commit({});  // opens the session
  escapement_budget_mark();
  for (size_t i = 0; i < puts.size(); ++i) {
    rig.Commit(std::move(puts[i]));
    rig.Commit(std::move(ends[i]));
  }
  escapement_budget_mark();
}

namespace {

using storage::v1::GrantReportRecord;
using token_manager::TokenWorld;

constexpr uint64_t kSchedules = 8;
constexpr uint64_t kOut = 500;
constexpr size_t kCompletionsOfCall = 20;

// A handler that delivers everything at once, with a consumer that completes it at once.
class Consumer {
 public:
  explicit Consumer(TokenWorld& world, token_manager::TokenManagerService& service,
                    uint16_t policy_shard)
      : world_(world), service_(service), policy_shard_(policy_shard) {
    world.on_commit = [this](const kv::CommitRecord& record) { TakeClaims(record); };
  }
  ~Consumer() { world_.on_commit = nullptr; }

  // Reports all granted events as delivered, and gives all tokens back.
  void Step() {
    if (claims_.empty()) return;
    GrantReportRecord delivered;
    std::vector<TokenWorld::Entry> completed;
    kv::Group group;
    for (const auto& [key, claim] : std::exchange(claims_, {})) {
      for (const auto& entry : claim.entries()) Deliver(entry, &delivered, &completed);
      group.mutations.push_back(kv::Delete(kv::ColumnFamily::kInflight, key));
    }
    group.mutations.push_back(kv::Put(
        kv::ColumnFamily::kWaiting,
        EncodeReportKey({.policy_shard = policy_shard_, .origin = 1, .a = 1, .b = ++reports_}),
        delivered.SerializeAsString()));
    if (!world_.Commit(std::move(group))) std::abort();
    for (size_t i = 0; i < completed.size(); i += kCompletionsOfCall) {
      const auto begin = completed.begin() + static_cast<ptrdiff_t>(i);
      const auto end = completed.begin() +
                       static_cast<ptrdiff_t>(std::min(i + kCompletionsOfCall, completed.size()));
      service_.Apply(policy_shard_, {begin, end}, [this](absl::StatusOr<std::vector<bool>> answer) {
        if (!answer.ok()) std::abort();
        for (const bool effect : *answer) done_ += effect ? 1 : 0;
      });
    }
  }

  uint64_t done() const { return done_; }

 private:
  void TakeClaims(const kv::CommitRecord& record) {
    for (size_t i = 0; i < record.request->groups.size(); ++i) {
      if (!record.verdicts[i].applied) continue;
      for (const kv::Mutation& mutation : record.request->groups[i].mutations) {
        if (mutation.cf != kv::ColumnFamily::kInflight || mutation.kind != kv::Mutation::Kind::kPut)
          continue;
        if (!claims_[mutation.key].ParseFromString(mutation.value)) std::abort();
      }
    }
  }

  void Deliver(const storage::v1::ClaimRecord::Entry& entry, GrantReportRecord* delivered,
               std::vector<TokenWorld::Entry>* completed) {
    TokenWorld::Entry& range = *delivered->add_entries();
    range.set_policy_uid(entry.grant().policy_uid());
    range.set_epoch(entry.grant().epoch());
    range.set_number(entry.grant().number());
    range.set_kind(GrantReportRecord::DELIVERED);
    range.set_first(entry.ranges(0).first());
    range.set_count(entry.ranges(0).count());
    range.set_attempts(1);
    range.set_time_micros(ToMicros(world_.now()));
    for (uint64_t i = 0; i < range.count(); ++i) {
      TokenWorld::Entry& token = completed->emplace_back(range);
      token.set_first(range.first() + i);
      token.set_count(1);
      token.set_kind(GrantReportRecord::COMPLETED);
    }
  }

  TokenWorld& world_;
  token_manager::TokenManagerService& service_;
  const uint16_t policy_shard_;
  std::map<std::string, storage::v1::ClaimRecord> claims_;
  uint64_t reports_ = 0;
  uint64_t done_ = 0;
};

// Measures until the consumer has given so many tokens back.
void Consume(TokenWorld& world, Consumer& consumer, uint64_t events) {
  escapement_budget_mark();
  for (int i = 0; i < 60'000 && consumer.done() < events; ++i) {
    world.Advance(absl::Milliseconds(1));
    consumer.Step();
  }
  escapement_budget_mark();
  if (consumer.done() < events) std::abort();
}

// Runs `rows` rows of `slice` events each, spread over the schedules.
void Run(uint64_t rows, uint64_t slice) {
  TokenWorld world;
  const TokenWorld::Schedule schedule{.policy_id = "p"};
  const Uid policy = world.PutPolicy("p", TokenWorld::Limits(kOut));
  token_manager::TokenManagerService& service = world.Start("a");
  world.Advance(token_manager::kSettle);
  const absl::Time due = world.now() + absl::Seconds(3);
  std::vector<Uid> uids;
  for (uint64_t i = 0; i < kSchedules; ++i)
    uids.push_back(world.AddSchedule(absl::StrCat("s", i), schedule));
  for (uint64_t i = 0; i < rows; ++i) {
    world.AddRow(uids[i % kSchedules], schedule,
                 {.due = due, .count = slice, .occurrence = absl::StrCat("o", i / kSchedules)});
  }
  Consumer consumer(world, service, TokenWorld::ShardOf(policy));
  world.Advance(due - world.now() - absl::Milliseconds(10));
  Consume(world, consumer, rows * slice);
}

// Runs one-off events that are each under `policies` policies, of which only the first binds.
void RunOneOffs(uint64_t events, int policies) {
  TokenWorld world;
  TokenWorld::OneOff event{.policy_id = "p", .by_tenant = true};
  for (int i = 0; i < policies; ++i) {
    storage::v1::PolicyRecord limits = TokenWorld::Limits(i == 0 ? kOut : 10'000'000);
    limits.set_by_tenant(true);
    const std::string id = i == 0 ? event.policy_id : absl::StrCat("further-", i);
    world.PutPolicy(id, limits);
    if (i > 0) event.more.emplace_back().set_policy_id(id);
  }
  token_manager::TokenManagerService& service = world.Start("a");
  world.Advance(token_manager::kSettle);
  event.due = world.now() + absl::Seconds(3);
  for (uint64_t i = 0; i < events; ++i) world.AddOneOff(event);
  const auto rows = world.Waiting();
  if (rows.empty()) std::abort();
  Consumer consumer(world, service, rows[0].first.policy_shard);
  world.Advance(event.due - world.now() - absl::Milliseconds(10));
  Consume(world, consumer, events);
}

}  // namespace

void RunThrottlePath(uint64_t events) { Run(kSchedules, events / kSchedules); }

void RunThrottledRowsPath(uint64_t events) { Run(events, 1); }

void RunLimitedPath(uint64_t events) { RunOneOffs(events, /*policies=*/1); }

void RunSeveralLimitsPath(uint64_t events) { RunOneOffs(events, /*policies=*/4); }

namespace {

using handler::HandlerWorld;

class AcceptingTransport : public handler::DeliveryTransport {
 public:
  void Send(std::vector<handler::DeliveryAttempt> attempts,
            std::shared_ptr<handler::DeliverySink> sink) override {
    for (const handler::DeliveryAttempt& attempt : attempts) {
      sink->OnResult(attempt.tag, {.status = handler::DeliveryStatus::kAccepted, .message = ""});
    }
  }
};

// Adds a schedule with an occurrence that is due.
void AddOccurrence(uint64_t number, absl::Time due, kv::Group* group) {
  const storage::v1::DefinitionRecord definition = AddSchedule(number, "0 3 * * *", group);
  storage::v1::EventRecord event;
  event.set_tenant("default");
  event.set_version(1);
  event.set_count(1);
  event.set_run_count(1);
  event.set_nominal_time_micros(ToMicros(due));
  event.set_launch_time_micros(ToMicros(due));
  group->mutations.push_back(
      kv::Put(kv::ColumnFamily::kEvents,
              EncodeEventKey({.shard = static_cast<uint16_t>(number % HandlerWorld::kShards),
                              .lane = 5,
                              .due_time = due,
                              .uid = Uid::FromBytes(definition.uid()),
                              .occurrence = "20260301T030000-0-UTC",
                              .first = 0}),
              event.SerializeAsString()));
}

void Commit(HandlerWorld& world, kv::Group group) {
  if (!world.Commit(std::move(group))) std::abort();
}

// Starts a handler, which loads the stored rows, and waits until the last end is durable.
void Deliver(HandlerWorld& world, uint64_t events) {
  AcceptingTransport transport;
  handler::HandlerService service({}, world.store, world.runtime, transport);
  escapement_budget_mark();
  service.Start();
  const bool done = world.runtime.RunUntil(
      [&] { return service.metrics().succeeded.Value() == events; }, absl::Seconds(60));
  escapement_budget_mark();
  if (!done) std::abort();
}

}  // namespace

void RunDeliveryPath(uint64_t events) {
  HandlerWorld world;
  for (std::vector<kv::Group>& batch : OneOffGroups(events, world.now() - absl::Seconds(1),
                                                    HandlerWorld::kShards, "consumer", false)) {
    kv::Group all;
    for (kv::Group& group : batch) {
      for (kv::Mutation& mutation : group.mutations) all.mutations.push_back(std::move(mutation));
    }
    Commit(world, std::move(all));
  }
  Deliver(world, events);
}

void RunOccurrencesPath(uint64_t events) {
  HandlerWorld world;
  kv::Group group;
  for (uint64_t i = 0; i < events; ++i) {
    AddOccurrence(i, world.now() - absl::Seconds(1), &group);
    if (i % kBatchEvents == 0 || i + 1 == events) Commit(world, std::exchange(group, {}));
  }
  Deliver(world, events);
}

}  // namespace escapement::budget
