#include "services/handler/testing/granted_world.h"

#include <algorithm>
#include <utility>

#include "common/base/proto_time.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"

namespace escapement::handler {
namespace {

constexpr char kPolicy[] = "gpu";

}  // namespace

GrantId TestTokenManager::Id(uint64_t number) const {
  return {.policy_shard = kPolicyShard,
          .policy = PolicyUid("default", kPolicy),
          .epoch = kEpoch,
          .number = number};
}

kv::Group TestTokenManager::GrantGroup(const Uid& uid, const std::vector<Granted>& grants,
                                       uint16_t queue_shard) {
  storage::v1::ClaimRecord claim;
  claim.set_claim_time_micros(ToMicros(world_.now()));
  claim.set_delivery_timeout_max_micros(absl::ToInt64Microseconds(world_.timeout));
  for (const Granted& granted : grants) {
    const GrantId id = Id(++last_grant_);
    const absl::Time due = granted.due.value_or(world_.now());
    auto& entry = *claim.add_entries();
    entry.set_event_key(EncodeWaitingKey({.policy_shard = id.policy_shard,
                                          .policy = id.policy,
                                          .uid = uid,
                                          .due_time = due,
                                          .occurrence = granted.occurrence,
                                          .first = granted.first}));
    auto& event = *entry.mutable_event();
    event.set_tenant("default");
    event.set_version(1);
    event.set_count(granted.count);
    event.set_run_count(granted.first + granted.count);
    event.set_attempts(granted.attempts);
    event.set_lost_claims(granted.lost_claims);
    event.set_nominal_time_micros(ToMicros(due));
    event.set_launch_time_micros(ToMicros(due));
    event.mutable_throttle()->set_policy_id(kPolicy);
    event.mutable_throttle()->set_on_release(granted.on_release);
    entry.set_claimed_version(granted.claimed_version);
    auto& range = *entry.add_ranges();
    range.set_first(granted.first);
    range.set_count(granted.count);
    auto& grant = *entry.mutable_grant();
    grant.set_policy_shard(id.policy_shard);
    grant.set_policy_uid(std::string(id.policy.bytes()));
    grant.set_epoch(id.epoch);
    grant.set_number(id.number);
    grant.set_send_before_micros(ToMicros(world_.now() + granted.send_within));
  }
  kv::Group group;
  group.mutations.push_back(
      {.cf = kv::ColumnFamily::kInflight,
       .key = EncodeClaimKey({.shard = queue_shard,
                              .epoch = kEpoch,
                              .number = GrantedClaimNumber(kPolicyShard, ++last_claim_)}),
       .value = claim.SerializeAsString()});
  return group;
}

uint64_t TestTokenManager::Grant(const Uid& uid, const std::vector<Granted>& grants,
                                 uint16_t queue_shard) {
  const uint64_t first = last_grant_ + 1;
  world_.Commit(GrantGroup(uid, grants, queue_shard));
  return first;
}

std::vector<GrantReport> TestTokenManager::TakeReports() {
  std::vector<GrantReport> reports;
  kv::Group group;
  for (const auto& [key, value] : world_.Rows(kv::ColumnFamily::kWaiting)) {
    if (!IsReportKey(key)) continue;
    storage::v1::GrantReportRecord record;
    record.ParseFromString(value);
    reports.insert(reports.end(), record.entries().begin(), record.entries().end());
    group.mutations.push_back(
        {.cf = kv::ColumnFamily::kWaiting, .kind = kv::Mutation::Kind::kDelete, .key = key});
  }
  report_rows_ += group.mutations.size();
  if (!group.mutations.empty()) world_.Commit(std::move(group));
  return reports;
}

uint64_t EventsOf(const std::vector<GrantReport>& reports,
                  storage::v1::GrantReportRecord::Kind kind) {
  uint64_t events = 0;
  for (const GrantReport& report : reports) events += report.kind() == kind ? report.count() : 0;
  return events;
}

}  // namespace escapement::handler
