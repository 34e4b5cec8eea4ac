// Measures the cost of the token manager over a store in memory and in virtual time: processor time
// of one thread, with store, client and this harness.
//
//   token_manager_bench ranges 1000000     one run, ON_DELIVERY, no limit, reported in ranges
//   token_manager_bench singles 200000     one run, ON_RELEASE, 2,000 out, completed one by one
//   token_manager_bench policies 100000    so many policies with one event each
//   token_manager_bench schedules 10000    so many schedules of one policy, 10 events each, 500 out

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

#include "common/base/hash.h"
#include "common/base/proto_time.h"
#include "common/storage/schedule_table.h"
#include "services/token_manager/testing/token_world.h"

namespace escapement::token_manager {
namespace {

using kv::ColumnFamily;
using storage::v1::GrantReportRecord;

double CpuSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

double ResidentMiB() {
  std::ifstream statm("/proc/self/statm");
  double pages = 0;
  double resident = 0;
  statm >> pages >> resident;
  return resident * 4096 / (1 << 20);
}

void Show(const char* what, uint64_t events, double cpu, const TokenManagerService& service) {
  const TokenManagerMetrics& metrics = service.metrics();
  std::printf(
      "%s: %llu events, %.2f s of processor time: %.0f per second; %llu commits; resident %.0f "
      "MiB\n",
      what, static_cast<unsigned long long>(events), cpu, static_cast<double>(events) / cpu,
      static_cast<unsigned long long>(metrics.commits.Value()), ResidentMiB());
}

// Takes all claims; each entry is reported as a range. Returns how many events there were.
uint64_t HandleRanges(TokenWorld& world, GrantReportRecord::Kind kind,
                      std::vector<TokenWorld::Entry>* tokens) {
  uint64_t events = 0;
  kv::Group group;
  static uint64_t reports = 0;
  for (const auto& [key, value] : world.Rows(ColumnFamily::kInflight)) {
    storage::v1::ClaimRecord claim;
    claim.ParseFromString(value);
    GrantReportRecord report;
    uint32_t shard = 0;
    for (const auto& entry : claim.entries()) {
      TokenWorld::Entry& range = *report.add_entries();
      shard = entry.grant().policy_shard();
      range.set_policy_uid(entry.grant().policy_uid());
      range.set_epoch(entry.grant().epoch());
      range.set_number(entry.grant().number());
      range.set_kind(kind);
      range.set_first(entry.ranges(0).first());
      range.set_count(entry.ranges(0).count());
      range.set_attempts(1);
      range.set_time_micros(ToMicros(world.now()));
      events += range.count();
      for (uint64_t i = 0; tokens != nullptr && i < range.count(); ++i) {
        tokens->push_back(range);
        tokens->back().set_first(range.first() + i);
        tokens->back().set_count(1);
        tokens->back().set_kind(GrantReportRecord::COMPLETED);
      }
    }
    group.mutations.push_back(
        {.cf = ColumnFamily::kInflight, .kind = kv::Mutation::Kind::kDelete, .key = key});
    group.mutations.push_back(
        {.cf = ColumnFamily::kWaiting,
         .key = EncodeReportKey(
             {.policy_shard = static_cast<uint16_t>(shard), .origin = 1, .a = 2, .b = ++reports}),
         .value = report.SerializeAsString()});
  }
  if (!group.mutations.empty()) world.Commit(std::move(group));
  return events;
}

void Ranges(uint64_t n) {
  TokenWorld world;
  const TokenWorld::Schedule schedule{.policy_id = "p", .on_release = false};
  world.PutPolicy("p", TokenWorld::Limits(0));
  const Uid uid = world.AddSchedule("s", schedule);
  world.AddRow(uid, schedule, {.due = world.now(), .count = n});
  const TokenManagerService& service = world.Start("a");
  const double begin = CpuSeconds();
  for (uint64_t done = 0; done < n;) {
    world.Advance(absl::Milliseconds(1));
    done += HandleRanges(world, GrantReportRecord::SUCCEEDED, nullptr);
  }
  Show("ranges", n, CpuSeconds() - begin, service);
}

void Singles(uint64_t n) {
  TokenWorld world;
  const TokenWorld::Schedule schedule{.policy_id = "p"};
  const Uid policy = world.PutPolicy("p", TokenWorld::Limits(2000));
  const Uid uid = world.AddSchedule("s", schedule);
  world.AddRow(uid, schedule, {.due = world.now(), .count = n});
  TokenManagerService& service = world.Start("a");
  const uint16_t shard = PolicyShardOf(policy, TokenWorld::kPolicyShards);
  std::vector<TokenWorld::Entry> tokens;
  Random& random = world.runtime.random();
  uint64_t done = 0;
  const double begin = CpuSeconds();
  while (done < n) {
    world.Advance(absl::Milliseconds(1));
    HandleRanges(world, GrantReportRecord::DELIVERED, &tokens);
    // Half of what is out comes back, in random order, 20 in a call.
    for (size_t calls = tokens.size() / 40 + 1; calls > 0 && !tokens.empty(); --calls) {
      std::vector<TokenWorld::Entry> call;
      for (int i = 0; i < 20 && !tokens.empty(); ++i) {
        std::swap(tokens[random.Below(tokens.size())], tokens.back());
        call.push_back(std::move(tokens.back()));
        tokens.pop_back();
      }
      service.Apply(shard, std::move(call), [&](absl::StatusOr<std::vector<bool>> answer) {
        if (!answer.ok()) std::abort();
        for (bool effect : *answer) done += effect ? 1 : 0;
      });
    }
  }
  Show("singles", n, CpuSeconds() - begin, service);
}

storage::v1::EventRecord AddScheduleTo(const std::string& id, const std::string& policy,
                                       kv::Group& group) {
  const Uid uid = StableHash128(id);
  storage::v1::StateRecord state;
  state.set_kind(storage::v1::SCHEDULE_STATE_KIND_ENABLED);
  state.set_version(1);
  storage::v1::DefinitionRecord definition;
  definition.set_uid(std::string(uid.bytes()));
  definition.set_version(1);
  definition.mutable_delivery()->mutable_target()->mutable_grpc()->set_uri("consumer");
  definition.mutable_throttle()->set_policy_id(policy);
  definition.mutable_throttle()->set_on_release(true);
  group.mutations.push_back(
      {.cf = ColumnFamily::kStates, .key = StateKey(uid), .value = state.SerializeAsString()});
  group.mutations.push_back({.cf = ColumnFamily::kDefinitions,
                             .key = DefinitionKey(uid, 1),
                             .value = definition.SerializeAsString()});
  storage::v1::EventRecord event;
  event.set_tenant("default");
  event.set_version(1);
  event.set_priority(5);
  *event.mutable_throttle() = definition.throttle();
  return event;
}

void Schedules(uint64_t n) {
  TokenWorld world;
  const Uid policy = world.PutPolicy("p", TokenWorld::Limits(500));
  const uint16_t shard = PolicyShardOf(policy, TokenWorld::kPolicyShards);
  const absl::Time due = world.now() + absl::Seconds(60);
  kv::Group group;
  for (uint64_t i = 0; i < n; ++i) {
    const std::string id = "s" + std::to_string(i);
    storage::v1::EventRecord event = AddScheduleTo(id, "p", group);
    event.set_count(10);
    event.set_run_count(10);
    event.set_launch_time_micros(ToMicros(due));
    group.mutations.push_back(
        {.cf = ColumnFamily::kWaiting,
         .key = EncodeWaitingKey(
             WaitingKeyOf(event, StableHash128(id), "o", 0, due, TokenWorld::kPolicyShards)),
         .value = event.SerializeAsString()});
    if (group.mutations.size() >= 4000) world.Commit(std::exchange(group, {}));
  }
  if (!group.mutations.empty()) world.Commit(std::move(group));
  TokenManagerService& service = world.Start("a");
  world.Advance(due - world.now() - absl::Seconds(1));
  const double begin = CpuSeconds();
  uint64_t done = 0;
  std::vector<TokenWorld::Entry> tokens;
  while (done < 10 * n) {
    world.Advance(absl::Milliseconds(1));
    HandleRanges(world, GrantReportRecord::DELIVERED, &tokens);
    for (TokenWorld::Entry& token : tokens) {
      service.Apply(shard, {std::move(token)}, [&](absl::StatusOr<std::vector<bool>> answer) {
        if (!answer.ok()) std::abort();
        done += (*answer)[0] ? 1 : 0;
      });
    }
    tokens.clear();
  }
  Show("schedules", 10 * n, CpuSeconds() - begin, service);
}

void Policies(uint64_t n) {
  TokenWorld world;
  const absl::Time due = world.now() + absl::Seconds(600);
  kv::Group group;
  for (uint64_t i = 0; i < n; ++i) {
    const std::string id = "p" + std::to_string(i);
    storage::v1::PolicyRecord policy = TokenWorld::Limits(1);
    policy.set_tenant("default");
    policy.set_policy_id(id);
    const Uid uid = StableHash128(id);
    storage::v1::EventRecord event = AddScheduleTo(id, id, group);
    event.set_count(1);
    event.set_run_count(1);
    event.set_launch_time_micros(ToMicros(due));
    group.mutations.push_back({.cf = ColumnFamily::kPolicies,
                               .key = PolicyKey("default", id),
                               .value = policy.SerializeAsString()});
    group.mutations.push_back(
        {.cf = ColumnFamily::kWaiting,
         .key = EncodeWaitingKey(WaitingKeyOf(event, uid, "o", 0, due, TokenWorld::kPolicyShards)),
         .value = event.SerializeAsString()});
    if (group.mutations.size() >= 4000) world.Commit(std::exchange(group, {}));
  }
  if (!group.mutations.empty()) world.Commit(std::move(group));
  const double before = ResidentMiB();
  double begin = CpuSeconds();
  TokenManagerService& service = world.Start("a");
  world.Advance(absl::Seconds(20));
  std::printf("loaded: %llu policies in memory, %.2f s, %.0f MiB of the token manager's\n",
              static_cast<unsigned long long>(service.metrics().policies_active.Value()),
              CpuSeconds() - begin, ResidentMiB() - before);
  world.Advance(due - world.now() - absl::Seconds(1));
  begin = CpuSeconds();
  uint64_t done = 0;
  std::vector<TokenWorld::Entry> tokens;
  while (done < n) {
    world.Advance(absl::Milliseconds(1));
    HandleRanges(world, GrantReportRecord::DELIVERED, &tokens);
    for (TokenWorld::Entry& token : tokens) {
      const auto shard =
          PolicyShardOf(Uid::FromBytes(token.policy_uid()), TokenWorld::kPolicyShards);
      service.Apply(shard, {std::move(token)}, [&](absl::StatusOr<std::vector<bool>> answer) {
        if (!answer.ok()) std::abort();
        done += (*answer)[0] ? 1 : 0;
      });
    }
    tokens.clear();
  }
  Show("policies", n, CpuSeconds() - begin, service);
  world.Advance(absl::Seconds(1));
  std::printf("then: %llu policies in memory\n",
              static_cast<unsigned long long>(service.metrics().policies_active.Value()));
}

}  // namespace
}  // namespace escapement::token_manager

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string what = argv[1];
  const uint64_t n = std::strtoull(argv[2], nullptr, 10);
  if (what == "ranges") escapement::token_manager::Ranges(n);
  if (what == "singles") escapement::token_manager::Singles(n);
  if (what == "schedules") escapement::token_manager::Schedules(n);
  if (what == "policies") escapement::token_manager::Policies(n);
  return 0;
}
