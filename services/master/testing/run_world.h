// RunWorld: a schedule and scripted emitter, handler and token manager; for tests of what runs
// show. The test writes the rows that those would have written.

#ifndef SERVICES_MASTER_TESTING_RUN_WORLD_H_
#define SERVICES_MASTER_TESTING_RUN_WORLD_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "common/storage/occurrence_rows.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"
#include "gtest/gtest.h"
#include "services/master/testing/master_world.h"

namespace escapement::master {

inline constexpr char kParent[] = "tenants/default/schedules/s";

struct RunWorld {
  using Strings = std::vector<std::string>;

  MasterWorld fixture;
  Uid uid;
  absl::Time start;

  explicit RunWorld(int n, const std::function<void(v1::Schedule&)>& change = nullptr) {
    storage::v1::PolicyRecord policy;
    policy.set_max_concurrent(1);
    fixture.Put(kv::ColumnFamily::kPolicies, PolicyKey("default", "p"), policy.SerializeAsString());
    v1::CreateScheduleRequest request = ValidSchedule("s", "0 0 1 1 *");
    request.mutable_schedule()->set_event_count(n);
    if (change) change(*request.mutable_schedule());
    const auto made = fixture.Call(&ScheduleApi::CreateSchedule, request);
    EXPECT_TRUE(made.ok()) << made.status();
    uid = Uid::FromHex(made->uid());
    start = fixture.Now();
  }

  // Emits an occurrence of n events at `time`, as the emitter would; its id.
  std::string Emit(absl::Time time, uint64_t n) {
    EmittedOccurrence occurrence;
    occurrence.id = Id(time);
    occurrence.nominal_time = occurrence.launch_time = time;
    storage::v1::DefinitionRecord definition;
    EXPECT_TRUE(
        definition.ParseFromString(fixture.Rows(kv::ColumnFamily::kDefinitions).begin()->second));
    OccurrenceSource source = SourceOf(definition);
    source.event_count = n;
    kv::Group group;
    AddOccurrenceRows(source, occurrence, fixture.layout, fixture.Now(), group.mutations);
    fixture.Commit({group});
    return occurrence.id;
  }
  static std::string Id(absl::Time time) {
    return absl::FormatTime("%Y%m%dT%H%M%S-0-UTC", time, absl::UTCTimeZone());
  }

  // Ends events [first, first + count) of a run, as the handler of the shard would.
  void End(uint16_t shard, const std::string& occurrence, absl::Time launch, uint64_t first,
           uint64_t count, uint64_t n, storage::v1::OutcomeKind outcome) {
    storage::v1::DoneRecord done;
    done.set_tenant("default");
    done.set_count(count);
    done.set_run_count(n);
    done.set_outcome(outcome);
    done.set_attempts(1);
    done.set_version(1);
    done.set_nominal_time_micros(ToMicros(launch));
    done.set_launch_time_micros(ToMicros(launch));
    done.set_complete_time_micros(ToMicros(launch) + 1000);
    fixture.Put(kv::ColumnFamily::kDone,
                EncodeDoneKey({.shard = shard,
                               .day = DoneDay(launch),
                               .uid = uid,
                               .occurrence = occurrence,
                               .first = first}),
                done.SerializeAsString());
  }
  std::string EndSingle(absl::Time launch) {
    const std::string id = Id(launch);
    End(ShardOf(id), id, launch, 0, 1, 1, storage::v1::OUTCOME_KIND_SUCCEEDED);
    return id;
  }
  uint16_t ShardOf(const std::string& occurrence) const {
    return ShardOfEventId(RunIdentity("default", uid, occurrence).EventId(0),
                          fixture.layout.queue_shards);
  }

  // The row of `waiting`, which goes.
  std::pair<WaitingKey, storage::v1::EventRecord> TakeWaiting() {
    const auto& rows = fixture.Rows(kv::ColumnFamily::kWaiting);
    EXPECT_EQ(rows.size(), 1u);
    const std::string key = rows.begin()->first;
    storage::v1::EventRecord row;
    EXPECT_TRUE(row.ParseFromString(rows.begin()->second));
    fixture.Delete(kv::ColumnFamily::kWaiting, key);
    return {*DecodeWaitingKey(key), row};
  }
  // Events that hold tokens of policy "p", as the token manager notes them; the key.
  std::string Grant(const std::string& occurrence, const storage::v1::EventRecord& row,
                    uint64_t first, uint64_t count, uint64_t number) {
    storage::v1::GrantRecord grant;
    *grant.mutable_event() = row;
    grant.set_uid(std::string(uid.bytes()));
    grant.set_occurrence(occurrence);
    grant.add_holders()->set_first(first);
    grant.mutable_holders(0)->set_count(count);
    const Uid policy = PolicyUid("default", "p");
    const std::string key =
        EncodeGrantKey({.policy_shard = PolicyShardOf(policy, fixture.layout.policy_shards),
                        .policy = policy,
                        .epoch = 1,
                        .number = number});
    fixture.Put(kv::ColumnFamily::kGrants, key, grant.SerializeAsString());
    return key;
  }

  Strings List(int page_size, int* pages = nullptr) {
    v1::ListRunsRequest request;
    request.set_parent(kParent);
    request.set_page_size(page_size);
    Strings occurrences;
    do {
      const auto page = fixture.Call(&RunApi::ListRuns, request);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok()) break;
      EXPECT_LE(page->runs_size(), page_size);
      for (const v1::Run& run : page->runs())
        occurrences.push_back(run.name().substr(sizeof(kParent) + 5));
      request.set_page_token(page->next_page_token());
      if (pages != nullptr) ++*pages;
    } while (!request.page_token().empty());
    return occurrences;
  }
  absl::StatusOr<v1::Run> Get(const std::string& occurrence) {
    v1::GetRunRequest request;
    request.set_name(absl::StrCat(kParent, "/runs/", occurrence));
    return fixture.Call(&RunApi::GetRun, request);
  }
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_TESTING_RUN_WORLD_H_
