// ScheduleWorld: a schedule and a scripted emitter; for tests of what changes of schedules agree
// with the emitter. The test moves the emitter's checkpoints and writes the rows it would have
// written.

#ifndef SERVICES_MASTER_TESTING_SCHEDULE_WORLD_H_
#define SERVICES_MASTER_TESTING_SCHEDULE_WORLD_H_

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/storage/event_table.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"
#include "gtest/gtest.h"
#include "services/master/testing/master_world.h"

namespace escapement::master {

inline constexpr char kName[] = "tenants/default/schedules/s";

template <typename Request>
Request Named(const std::string& request_id = "") {
  Request request;
  request.set_name(kName);
  request.set_request_id(request_id);
  return request;
}

inline v1::UpdateScheduleRequest CronUpdate(const std::string& cron) {
  v1::UpdateScheduleRequest request;
  request.mutable_schedule()->set_name(kName);
  request.mutable_schedule()->set_cron(cron);
  request.mutable_update_mask()->add_paths("cron");
  return request;
}

// Seconds after `start` of each event row, with its version: "3@1".
inline std::vector<std::string> RowsSince(const MasterWorld& fixture, absl::Time start) {
  std::vector<std::string> rows;
  for (const auto& [key, record] : fixture.Events()) {
    rows.push_back(absl::StrCat(absl::ToInt64Seconds(key.due_time - start), "@", record.version()));
  }
  return rows;
}

inline storage::v1::StateRecord StateOf(const MasterWorld& fixture) {
  storage::v1::StateRecord state;
  const auto& rows = fixture.Rows(kv::ColumnFamily::kStates);
  EXPECT_EQ(rows.size(), 1u);
  EXPECT_TRUE(state.ParseFromString(rows.begin()->second));
  return state;
}

// `from` of the children, all the same; unset if there are none.
inline std::optional<absl::Time> ChildrenFrom(const MasterWorld& fixture) {
  std::set<int64_t> froms;
  for (const auto& [key, value] : fixture.Rows(kv::ColumnFamily::kChildren)) {
    storage::v1::ChildRecord child;
    EXPECT_TRUE(child.ParseFromString(value));
    froms.insert(child.from_micros());
  }
  EXPECT_LE(froms.size(), 1u);
  if (froms.empty()) return std::nullopt;
  return FromMicros(*froms.begin());
}

// `waiting`, decoded, by their keys.
inline std::vector<std::pair<WaitingKey, storage::v1::EventRecord>> Waiting(
    const MasterWorld& fixture) {
  std::vector<std::pair<WaitingKey, storage::v1::EventRecord>> rows;
  for (const auto& [key, value] : fixture.Rows(kv::ColumnFamily::kWaiting)) {
    auto& [waiting_key, record] = rows.emplace_back();
    waiting_key = *DecodeWaitingKey(key);
    EXPECT_TRUE(record.ParseFromString(value));
  }
  return rows;
}

// tenants/default/policies/…
// At most `max_concurrent` events at once; 0: one a second instead.
inline std::string PutPolicy(MasterWorld& fixture, const std::string& id,
                             uint64_t max_concurrent = 1) {
  storage::v1::PolicyRecord policy;
  policy.set_tenant("default");
  policy.set_policy_id(id);
  policy.set_version(1);
  policy.set_max_concurrent(max_concurrent);
  if (max_concurrent == 0) policy.set_max_per_second(1);
  policy.set_hold_timeout_micros(absl::ToInt64Microseconds(absl::Minutes(30)));
  fixture.Put(kv::ColumnFamily::kPolicies, PolicyKey("default", id), policy.SerializeAsString());
  return absl::StrCat("tenants/default/policies/", id);
}

// Ids of the policies among `ids` that the schedule is noted as a user of.
inline std::vector<std::string> UsedPolicies(MasterWorld& fixture, const Uid& schedule,
                                             const std::vector<std::string>& ids) {
  std::vector<std::string> used;
  for (const std::string& id : ids) {
    if (fixture.Get(kv::ColumnFamily::kPolicies, PolicyUserKey(PolicyUid("default", id), schedule))
            .has_value())
      used.push_back(id);
  }
  return used;
}

// A schedule that fires each second, made with the emitter planned `planned` and emitted `emitted`
// seconds ahead. The start is a whole second: rows are counted from it.
struct ScheduleWorld {
  MasterWorld fixture;
  absl::Time start;
  // Applied to each schedule that is created.
  std::function<void(v1::Schedule&)> change = nullptr;

  explicit ScheduleWorld(int emitted, int planned) {
    start = absl::FromUnixSeconds(absl::ToUnixSeconds(fixture.Now())) + absl::Seconds(1);
    fixture.runtime.AdvanceBy(start - fixture.Now());
    Plan(emitted, planned);
  }
  void Plan(int emitted, int planned) {
    fixture.SetCheckpoints(start + absl::Seconds(emitted), start + absl::Seconds(planned));
  }
  void MakeSchedule(const std::string& cron, int n = 1) {
    v1::CreateScheduleRequest request = ValidSchedule("s", cron);
    request.mutable_schedule()->set_event_count(n);
    if (change) change(*request.mutable_schedule());
    const auto made = fixture.Call(&ScheduleApi::CreateSchedule, request);
    ASSERT_TRUE(made.ok()) << made.status();
  }
  // Throttled by a policy of this id.
  void MakeThrottled(const std::string& cron, int n, const std::string& policy_id) {
    v1::CreateScheduleRequest request = ValidSchedule("s", cron);
    request.mutable_schedule()->set_event_count(n);
    request.mutable_schedule()->set_policy(PutPolicy(fixture, policy_id));
    if (change) change(*request.mutable_schedule());
    const auto made = fixture.Call(&ScheduleApi::CreateSchedule, request);
    ASSERT_TRUE(made.ok()) << made.status();
  }
  std::vector<std::string> Rows() const { return RowsSince(fixture, start); }
  absl::Time At(int seconds) const { return start + absl::Seconds(seconds); }
};

using Strings = std::vector<std::string>;

inline void SetMisfire(v1::MisfirePolicy::Action action, int threshold_seconds, int max_catch_up,
                       v1::Schedule& schedule) {
  schedule.mutable_misfire_policy()->set_action(action);
  schedule.mutable_misfire_policy()->mutable_threshold()->set_seconds(threshold_seconds);
  schedule.mutable_misfire_policy()->set_max_catch_up(max_catch_up);
}
// Occurrences that are more than a second late do not fire.
inline void SkipMissed(v1::Schedule& schedule) {
  SetMisfire(v1::MisfirePolicy::SKIP, 1, 100, schedule);
}

// The records of occurrences that were skipped as a whole, seconds after `start`, with how many
// they stand for where that is more than one: "3 paused", "4*100 misfire".
inline std::vector<std::string> SkippedSince(const MasterWorld& fixture, absl::Time start) {
  std::map<int64_t, std::string> skipped;
  for (const auto& [key, value] : fixture.Rows(kv::ColumnFamily::kDone)) {
    storage::v1::DoneRecord record;
    EXPECT_TRUE(record.ParseFromString(value));
    if (!record.run_skipped()) continue;
    const int64_t at = absl::ToInt64Seconds(FromMicros(record.nominal_time_micros()) - start);
    skipped[at] = absl::StrCat(
        at, record.skipped_occurrences() > 1 ? absl::StrCat("*", record.skipped_occurrences()) : "",
        " ", record.reason());
  }
  std::vector<std::string> texts;
  for (const auto& [at, text] : skipped) texts.push_back(text);
  return texts;
}

// Moves the rows due from `begin` on to `parked`, as the handler does when it meets them.
inline void Park(MasterWorld& fixture, absl::Time begin) {
  kv::Group group;
  for (const auto& [key, record] : fixture.Events()) {
    if (key.due_time < begin) continue;
    const std::string row = EncodeEventKey(key);
    group.mutations.push_back(
        {.cf = kv::ColumnFamily::kEvents, .kind = kv::Mutation::Kind::kDelete, .key = row});
    group.mutations.push_back({.cf = kv::ColumnFamily::kParked,
                               .key = ParkedKey(key.uid, row),
                               .value = record.SerializeAsString()});
  }
  fixture.Commit({group});
}

// The same of waiting rows, as the token manager does; `taken` events of each have been granted.
inline void ParkWaiting(MasterWorld& fixture, uint64_t taken = 0) {
  kv::Group group;
  for (auto& [key, record] : Waiting(fixture)) {
    const std::string row = EncodeWaitingKey(key);
    record.mutable_throttle()->set_taken(taken);
    group.mutations.push_back(
        {.cf = kv::ColumnFamily::kWaiting, .kind = kv::Mutation::Kind::kDelete, .key = row});
    group.mutations.push_back({.cf = kv::ColumnFamily::kParked,
                               .key = ParkedKey(key.uid, row),
                               .value = record.SerializeAsString()});
  }
  fixture.Commit({group});
}

}  // namespace escapement::master

#endif  // SERVICES_MASTER_TESTING_SCHEDULE_WORLD_H_
