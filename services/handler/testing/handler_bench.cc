// Measures how many events a second one handler claims, sends and ends over RocksKvStore, with a
// consumer that answers at once, so without the cost of the wire. Prints one line for each kind of
// row. Granted events come as token managers write them: at most 1,000 undelivered per queue shard.
//
//   handler_bench [events]

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/hash.h"
#include "common/base/proto_time.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/rocks/rocks_kv_store.h"
#include "common/runtime/system_runtime.h"
#include "common/storage/event_table.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/handler/service/handler_service.h"

namespace escapement::handler {
namespace {

constexpr size_t kPayloadBytes = 500;
constexpr size_t kRowsPerCommit = 1000;

class AcceptingTransport : public DeliveryTransport {
 public:
  explicit AcceptingTransport(Clock& clock) : clock_(clock) {}
  void Send(std::vector<DeliveryAttempt> attempts, std::shared_ptr<DeliverySink> sink) override {
    lateness.push_back(clock_.WallNow() - attempts[0].context->launch_time);
    for (const DeliveryAttempt& attempt : attempts) {
      sink->OnResult(attempt.tag, {.status = DeliveryStatus::kAccepted, .message = ""});
    }
  }
  std::vector<absl::Duration>
      lateness;  // the first event of each batch; used on the handler's executor

 private:
  Clock& clock_;
};

class Bench {
 public:
  explicit Bench(const std::string& dir) {
    kv::RocksKvStore::Options options;
    options.data_dir = dir;
    store_ = *kv::RocksKvStore::Open(options, runtime_.clock());
    executor_ = runtime_.NewExecutor("bench");
    client_ = std::make_unique<kv::KvClient>(*store_, runtime_, kv::KvClient::Options());
  }

  void Put(std::vector<kv::Mutation> mutations) {
    std::promise<bool> applied;
    kv::Commit commit;
    commit.groups.push_back({.mutations = std::move(mutations)});
    client_->CommitAsync(
        std::move(commit), executor_,
        [&](absl::StatusOr<kv::CommitResult> result) { applied.set_value(result.ok()); });
    if (!applied.get_future().get()) std::abort();
  }

  storage::v1::DefinitionRecord Definition() {
    storage::v1::DefinitionRecord definition;
    auto& delivery = *definition.mutable_delivery();
    delivery.mutable_target()->mutable_grpc()->set_uri("consumer");
    delivery.set_delivery_timeout_micros(10'000'000);
    delivery.mutable_retry()->set_max_attempts(1);
    definition.set_tenant("default");
    definition.set_schedule_id("s");
    definition.set_payload(std::string(kPayloadBytes, 'p'));
    return definition;
  }

  // Adds rows that have been due for a second; returns the number of their events.
  uint64_t AddOneOffs(uint64_t events) {
    const storage::v1::DefinitionRecord definition = Definition();
    const Uid hash = StableHash128(definition.SerializeAsString());
    std::vector<kv::Mutation> batch = {{.cf = kv::ColumnFamily::kDefinitions,
                                        .key = DefinitionKey(hash, 0),
                                        .value = definition.SerializeAsString()}};
    for (uint64_t i = 0; i < events; ++i) {
      storage::v1::EventRecord event = Event(1);
      event.set_definition_hash(std::string(hash.bytes()));
      event.set_event_id(absl::StrCat("00000000000000000000000000000000000", i));
      event.set_payload(std::string(kPayloadBytes, 'p'));
      batch.push_back(RowPut(static_cast<uint16_t>(i % 8),
                             StableHash128(absl::StrCat("one-off", i)), "", event));
      if (batch.size() >= kRowsPerCommit) Put(std::exchange(batch, {}));
    }
    if (!batch.empty()) Put(std::move(batch));
    return events;
  }

  // Adds one row every 5 ms, starting in 3 s: light load.
  uint64_t AddOnTime(uint64_t events) {
    const int64_t begin = ToMicros(runtime_.clock().WallNow() + absl::Seconds(3));
    for (uint64_t i = 0; i < events; ++i) {
      due_micros_ = begin + static_cast<int64_t>(i) * 5'000;
      std::vector<kv::Mutation> batch;
      const Uid uid = StableHash128("on time");
      if (i == 0) AddSchedule(uid, batch);
      storage::v1::EventRecord event = Event(1);
      event.set_version(1);
      batch.push_back(RowPut(static_cast<uint16_t>(i % 8), uid, absl::StrCat("on time", i), event));
      Put(std::move(batch));
    }
    return events;
  }

  // If `schedules`, each row belongs to another schedule, else to another occurrence of one.
  uint64_t AddOccurrences(uint64_t events, uint64_t per_row, bool schedules) {
    std::vector<kv::Mutation> batch;
    for (uint64_t i = 0; i < events / per_row; ++i) {
      const Uid uid =
          StableHash128(absl::StrCat("schedule", per_row, schedules ? i : 0, schedules));
      if (i == 0 || schedules) AddSchedule(uid, batch);
      storage::v1::EventRecord event = Event(per_row);
      event.set_version(1);
      batch.push_back(RowPut(static_cast<uint16_t>(i % 8), uid,
                             absl::StrCat("20260301T030000-0-UTC", i), event));
      if (batch.size() >= kRowsPerCommit) Put(std::exchange(batch, {}));
    }
    if (!batch.empty()) Put(std::move(batch));
    return events / per_row * per_row;
  }

  // Like Run, for granted events: claims with `entries` grants of `per_entry` events each.
  void RunGranted(const char* what, uint64_t events, uint64_t entries, uint64_t per_entry,
                  bool on_release) {
    std::vector<kv::Mutation> batch;
    granting_ = {.uid = StableHash128(what),
                 .left = events,
                 .entries = entries,
                 .per_entry = per_entry,
                 .on_release = on_release};
    AddSchedule(granting_.uid, batch);
    Put(std::move(batch));
    Run(what, events);
  }

  void Run(const char* what, uint64_t events, bool on_time = false) {
    AcceptingTransport transport(runtime_.clock());
    HandlerOptions options;
    options.instance = what;
    HandlerService service(options, *store_, runtime_, transport);
    const absl::Duration begin = runtime_.clock().Elapsed();
    const std::clock_t cpu = std::clock();
    service.Start();
    executor_->Post([this, &service] { Grant(service); });
    std::promise<void> done;
    Poll(service, events, done);
    done.get_future().get();
    const double seconds = absl::ToDoubleSeconds(runtime_.clock().Elapsed() - begin);
    const double cpu_seconds = static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
    std::printf("%-28s %8.0f events/s  %6.2f us cpu/event  (%llu claims)\n", what, events / seconds,
                cpu_seconds * 1e6 / events,
                static_cast<unsigned long long>(service.metrics().claims.Value()));
    std::promise<void> drained;
    service.Drain([&] { drained.set_value(); });
    drained.get_future().get();
    std::sort(transport.lateness.begin(), transport.lateness.end());
    if (on_time) {
      const auto at = [&](double q) {
        return absl::ToDoubleMilliseconds(transport.lateness[(transport.lateness.size() - 1) * q]);
      };
      std::printf("%-28s p50 %.2f ms  p99 %.2f ms  max %.2f ms late\n", "", at(0.5), at(0.99),
                  at(1));
    }
  }

 private:
  storage::v1::EventRecord Event(uint64_t count) {
    storage::v1::EventRecord event;
    event.set_tenant("default");
    event.set_count(count);
    event.set_run_count(count);
    event.set_nominal_time_micros(due_micros_);
    event.set_launch_time_micros(due_micros_);
    return event;
  }
  kv::Mutation RowPut(uint16_t shard, const Uid& uid, const std::string& occurrence,
                      const storage::v1::EventRecord& event) {
    return {.cf = kv::ColumnFamily::kEvents,
            .key = EncodeEventKey({.shard = shard,
                                   .lane = 5,
                                   .due_time = FromMicros(due_micros_),
                                   .uid = uid,
                                   .occurrence = occurrence,
                                   .first = 0}),
            .value = event.SerializeAsString()};
  }
  void AddSchedule(const Uid& uid, std::vector<kv::Mutation>& batch) {
    storage::v1::DefinitionRecord definition = Definition();
    definition.set_version(1);
    storage::v1::StateRecord state;
    state.set_kind(storage::v1::SCHEDULE_STATE_KIND_ENABLED);
    state.set_version(1);
    batch.push_back({.cf = kv::ColumnFamily::kDefinitions,
                     .key = DefinitionKey(uid, 1),
                     .value = definition.SerializeAsString()});
    batch.push_back({.cf = kv::ColumnFamily::kStates,
                     .key = StateKey(uid),
                     .value = state.SerializeAsString()});
  }
  // Writes another claim of as many events as the bound allows, again and again.
  void Grant(HandlerService& service) {
    const uint64_t of_claim = granting_.entries * granting_.per_entry;
    while (granting_.left > 0 &&
           granting_.granted - service.metrics().accepted.Value() + of_claim <= 8 * 1000) {
      kv::Commit commit;
      commit.groups.push_back({.mutations = {ClaimPut()}});
      client_->CommitAsync(std::move(commit), executor_, [](absl::StatusOr<kv::CommitResult>) {});
      granting_.granted += of_claim;
      granting_.left -= std::min(granting_.left, of_claim);
    }
    if (granting_.left > 0)
      executor_->PostAfter(absl::Milliseconds(1), [this, &service] { Grant(service); });
  }
  kv::Mutation ClaimPut() {
    const uint64_t number = ++claims_;
    storage::v1::ClaimRecord claim;
    claim.set_claim_time_micros(ToMicros(runtime_.clock().WallNow()));
    claim.set_delivery_timeout_max_micros(10'000'000);
    for (uint64_t i = 0; i < granting_.entries; ++i) {
      storage::v1::EventRecord event = Event(granting_.per_entry);
      event.set_version(1);
      event.mutable_throttle()->set_policy_id("gpu");
      event.mutable_throttle()->set_on_release(granting_.on_release);
      const WaitingKey key = WaitingKeyOf(event, granting_.uid, absl::StrCat("o", number), i,
                                          FromMicros(due_micros_), 8);
      auto& entry = *claim.add_entries();
      entry.set_event_key(EncodeWaitingKey(key));
      *entry.mutable_event() = std::move(event);
      entry.set_claimed_version(1);
      auto& range = *entry.add_ranges();
      range.set_first(i * granting_.per_entry);
      range.set_count(granting_.per_entry);
      auto& grant = *entry.mutable_grant();
      grant.set_policy_shard(key.policy_shard);
      grant.set_policy_uid(std::string(key.policy.bytes()));
      grant.set_epoch(1);
      grant.set_number(++grants_);
      grant.set_send_before_micros(claim.claim_time_micros() + 10'000'000);
    }
    return {.cf = kv::ColumnFamily::kInflight,
            .key = EncodeClaimKey({.shard = static_cast<uint16_t>(number % 8),
                                   .epoch = 1,
                                   .number = GrantedClaimNumber(0, number)}),
            .value = claim.SerializeAsString()};
  }
  // Waits until all events are accepted and none is out, which is cheap to ask and nearly the end.
  void Poll(HandlerService& service, uint64_t events, std::promise<void>& done) {
    if (service.metrics().accepted.Value() >= events) return done.set_value();
    executor_->PostAfter(absl::Milliseconds(1),
                         [this, &service, events, &done] { Poll(service, events, done); });
  }

  struct Granting {
    Uid uid;
    uint64_t left = 0;
    uint64_t entries = 1;
    uint64_t per_entry = 1;
    bool on_release = false;
    uint64_t granted = 0;
  };
  Granting granting_;
  uint64_t claims_ = 0;
  uint64_t grants_ = 0;
  SystemRuntime runtime_;
  int64_t due_micros_ = ToMicros(runtime_.clock().WallNow() - absl::Seconds(1));
  std::unique_ptr<kv::RocksKvStore> store_;
  std::shared_ptr<Executor> executor_;
  std::unique_ptr<kv::KvClient> client_;
};

}  // namespace
}  // namespace escapement::handler

int main(int argc, char** argv) {
  using escapement::handler::Bench;
  const uint64_t events = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 100'000;
  const std::string dir =
      (std::filesystem::temp_directory_path() / "escapement_handler_bench").string();
  std::filesystem::remove_all(dir);
  {
    Bench bench(dir);
    bench.Run("one-off events", bench.AddOneOffs(events));
    bench.Run("occurrences of one schedule", bench.AddOccurrences(events, 1, false));
    bench.Run("one of each schedule", bench.AddOccurrences(events, 1, true));
    bench.Run("slices of 10,000",
              bench.AddOccurrences(std::max<uint64_t>(events * 10, 10'000), 10'000, false));
    bench.RunGranted("granted, runs on delivery", events * 5, 1, 1000, false);
    bench.RunGranted("granted, 64 on release", events * 2, 8, 64, true);
    bench.RunGranted("granted, one each", events * 2, 100, 1, true);
    bench.Run("200 events/s, on time", bench.AddOnTime(1000), true);
  }
  std::filesystem::remove_all(dir);
}
