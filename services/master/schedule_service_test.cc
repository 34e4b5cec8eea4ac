// Changes of schedules and what they agree with the emitter. The emitter is scripted: the test
// moves its checkpoints and writes the rows it would have written.

#include "services/master/schedule_service.h"

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/base/micros.h"
#include "common/status/errors.h"
#include "common/storage/children_table.h"
#include "common/storage/event_table.h"
#include "common/storage/policy_table.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "gtest/gtest.h"
#include "services/master/master_fixture.h"
#include "services/master/schedule_bench.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;

TEST(ScheduleService, CreateEmitsWhatIsPlannedAlreadyAndLeavesTheRestToTheEmitter) {
  ScheduleBench bench(2, 5);
  bench.MakeSchedule("* * * * * *");
  EXPECT_EQ(bench.Rows(), (Strings{"1@1", "2@1", "3@1", "4@1"}));
  EXPECT_EQ(ChildrenFrom(bench.fixture), bench.At(5));
  EXPECT_EQ(StateOf(bench.fixture).covered_to_micros(), ToMicros(bench.At(5)));
  EXPECT_EQ(bench.fixture.Rows(ColumnFamily::kInUse).size(), 1u);
}

TEST(ScheduleService, WithoutAnEmitterCreateMakesTheCheckpointsAndOwesNothingBeforeNow) {
  MasterFixture fixture;
  const auto made = fixture.Call(&ScheduleApi::CreateSchedule, ValidSchedule("s", "* * * * * *"));
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->state(), v1::Schedule::ENABLED);
  EXPECT_EQ(made->version(), 1);
  EXPECT_EQ(made->priority(), 5);
  EXPECT_EQ(made->retry_policy().max_attempts(), 4);
  EXPECT_TRUE(fixture.Events().empty());
  const Uid uid = Uid::FromHex(made->uid());
  const uint16_t partition = PartitionOf(uid, fixture.layout.partitions);
  const auto planned = fixture.Get(ColumnFamily::kCheckpoints, PlannedToKey(partition));
  ASSERT_TRUE(planned.has_value());
  EXPECT_EQ(DecodeCheckpoint(*planned), *ChildrenFrom(fixture));
  EXPECT_EQ(fixture.Get(ColumnFamily::kCheckpoints, EmittedToKey(partition)), planned);
}

TEST(ScheduleService, CreateWithABehindEmitterOwesNothingFromBeforeTheCreation) {
  ScheduleBench bench(-3600, -3590);
  bench.MakeSchedule("* * * * * *");
  EXPECT_EQ(bench.Rows(), Strings{});
  EXPECT_GE(*ChildrenFrom(bench.fixture), bench.start);
  // And neither does a later update, though the emitter is still an hour behind.
  bench.fixture.runtime.AdvanceBy(absl::Seconds(2));
  ASSERT_TRUE(bench.fixture.Call(&ScheduleApi::UpdateSchedule, CronUpdate("0 * * * *")).ok());
  EXPECT_EQ(bench.Rows(), (Strings{"1@1", "2@1"}));
}

TEST(ScheduleService, UpdateEmitsOnlyWhatTheFormerVersionHadNot) {
  ScheduleBench bench(3, 6);
  bench.MakeSchedule("0/2 * * * * *");  // even seconds; the start may be odd
  const Strings before = bench.Rows();
  const bool even_start = absl::ToUnixSeconds(bench.start) % 2 == 0;
  EXPECT_EQ(before, even_start ? (Strings{"2@1", "4@1"}) : (Strings{"1@1", "3@1", "5@1"}));
  // The emitter went on; its rows of [6, 8) failed or not: the update emits from its emitted_to on.
  bench.Plan(4, 8);
  ASSERT_TRUE(bench.fixture.Call(&ScheduleApi::UpdateSchedule, CronUpdate("* * * * * *")).ok());
  // Before 6 all of the former version is there, so only the others come; from 6 on everything of
  // the new version.
  EXPECT_EQ(bench.Rows(), even_start ? (Strings{"1@2", "2@1", "3@2", "4@1", "5@2", "6@2", "7@2"})
                                     : (Strings{"1@1", "2@2", "3@1", "4@2", "5@1", "6@2", "7@2"}));
  EXPECT_EQ(ChildrenFrom(bench.fixture), bench.At(8));
  storage::v1::ChildRecord child;
  for (const auto& [key, value] : bench.fixture.Rows(ColumnFamily::kChildren)) {
    ASSERT_TRUE(child.ParseFromString(value));
    EXPECT_EQ(child.version(), 2u);  // the former ones are gone
  }
}

TEST(ScheduleService, AnUpdateOfABehindEmitterEmitsWhatTheFormerVersionOwes) {
  ScheduleBench bench(1, 1);
  bench.MakeSchedule("* * * * * *");
  // Now is 4.5; the emitter stopped at 1.
  bench.fixture.runtime.AdvanceBy(absl::Milliseconds(4500));
  ASSERT_TRUE(bench.fixture.Call(&ScheduleApi::UpdateSchedule, CronUpdate("0 0 * * *")).ok());
  EXPECT_EQ(bench.Rows(), (Strings{"1@1", "2@1", "3@1", "4@1"}));
}

TEST(ScheduleService, ChangesThatRaceWithAnEmitterStepDecideAnew) {
  // The emitter commits at every step of the update: rows of the former version up to its new
  // emitted_to.
  int retried = 0;
  for (int steps = 1; steps < 40; ++steps) {
    ScheduleBench bench(2, 2);
    bench.MakeSchedule("* * * * * *");
    std::optional<absl::StatusOr<v1::Schedule>> answer;
    bench.fixture.master->schedules().UpdateSchedule(
        CronUpdate("0 0 1 1 *"),
        [&](absl::StatusOr<v1::Schedule> schedule) { answer = std::move(schedule); });
    for (int i = 0; i < steps && bench.fixture.runtime.world().Step(); ++i) {
    }
    kv::Group group;
    for (uint16_t partition = 0; partition < 2; ++partition) {
      group.mutations.push_back({.cf = ColumnFamily::kCheckpoints,
                                 .key = PlannedToKey(partition),
                                 .value = EncodeCheckpoint(bench.At(5))});
      group.mutations.push_back({.cf = ColumnFamily::kCheckpoints,
                                 .key = EmittedToKey(partition),
                                 .value = EncodeCheckpoint(bench.At(5))});
    }
    std::optional<bool> applied;
    bench.fixture.TryCommit({group}, [&](bool all) { applied = all; });
    ASSERT_TRUE(bench.fixture.runtime.RunUntil(
        [&] { return answer.has_value() && applied.has_value(); }, absl::Minutes(1)));
    ASSERT_TRUE(answer->ok()) << answer->status();
    const absl::Time covered = FromMicros(StateOf(bench.fixture).covered_to_micros());
    EXPECT_TRUE(covered == bench.At(5) || covered == bench.At(2)) << covered;
    EXPECT_EQ(ChildrenFrom(bench.fixture), covered);
    retried += covered == bench.At(5);
  }
  EXPECT_GT(retried, 0);
}

TEST(ScheduleService, AChangeWaitsForAnEmitterInTheMiddleOfAWindow) {
  ScheduleBench bench(2, 2);
  bench.MakeSchedule("* * * * * *");
  for (uint16_t partition = 0; partition < 2; ++partition) {
    bench.fixture.Put(ColumnFamily::kCheckpoints, CursorKey(partition), "cursor");
  }
  std::optional<absl::StatusOr<v1::Schedule>> answer;
  bench.fixture.master->schedules().PauseSchedule(
      Named<v1::PauseScheduleRequest>(),
      [&](absl::StatusOr<v1::Schedule> schedule) { answer = std::move(schedule); });
  bench.fixture.runtime.AdvanceBy(absl::Milliseconds(300));
  EXPECT_FALSE(answer.has_value());
  for (uint16_t partition = 0; partition < 2; ++partition) {
    bench.fixture.Delete(ColumnFamily::kCheckpoints, CursorKey(partition));
  }
  ASSERT_TRUE(bench.fixture.runtime.RunUntil([&] { return answer.has_value(); }, absl::Minutes(1)));
  EXPECT_TRUE(answer->ok()) << answer->status();
}

TEST(ScheduleService, AChangeThatNeverGetsThroughIsAborted) {
  ScheduleBench bench(2, 2);
  bench.MakeSchedule("* * * * * *");
  for (uint16_t partition = 0; partition < 2; ++partition) {
    bench.fixture.Put(ColumnFamily::kCheckpoints, CursorKey(partition), "cursor");
  }
  const auto answer =
      bench.fixture.Call(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>());
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ErrorReason(answer.status()), "CONTENDED");
  EXPECT_EQ(StateOf(bench.fixture).kind(), storage::v1::SCHEDULE_STATE_KIND_ENABLED);
}

TEST(ScheduleService, MoreOwedThanOneChangeMayWriteIsRefusedUntilTheEmitterHasCaughtUp) {
  ScheduleBench bench(1, 1);
  bench.MakeSchedule("* * * * * *");
  bench.fixture.runtime.AdvanceBy(absl::Hours(12));
  const auto answer =
      bench.fixture.Call(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>());
  EXPECT_EQ(ErrorReason(answer.status()), "EMISSION_BEHIND");
  EXPECT_TRUE(RetryDelayOf(answer.status()).has_value());
  EXPECT_EQ(bench.Rows(), Strings{});
}

TEST(ScheduleService, TriggerMakesOneMarkedRunNow) {
  ScheduleBench bench(2, 2);
  bench.MakeSchedule("0 0 1 1 *");
  v1::TriggerScheduleRequest trigger = Named<v1::TriggerScheduleRequest>("t");
  trigger.set_event_count(3);
  const auto run = bench.fixture.Call(&ScheduleApi::TriggerSchedule, trigger);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->event_count(), 3);
  EXPECT_EQ(run->state(), v1::Run::ACTIVE);
  const auto again = bench.fixture.Call(&ScheduleApi::TriggerSchedule, trigger);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->name(), run->name());
  const auto events = bench.fixture.Events();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_TRUE(events[0].second.triggered());
  EXPECT_LE(events[0].first.due_time, bench.fixture.Now());
  EXPECT_EQ(run->name(), absl::StrCat(kName, "/runs/", events[0].first.occurrence));
}

TEST(ScheduleService, TheSameRequestIdGivesTheFirstAnswerWithoutASecondEffect) {
  ScheduleBench bench(2, 2);
  bench.MakeSchedule("0 0 1 1 *");
  v1::PauseScheduleRequest pause = Named<v1::PauseScheduleRequest>("p");
  const auto first = bench.fixture.Call(&ScheduleApi::PauseSchedule, pause);
  ASSERT_TRUE(first.ok());
  const std::string before = bench.fixture.Dump();
  const auto second = bench.fixture.Call(&ScheduleApi::PauseSchedule, pause);
  ASSERT_TRUE(second.ok()) << second.status();  // though it is paused already
  EXPECT_EQ(second->SerializeAsString(), first->SerializeAsString());
  pause.set_reason("other");
  EXPECT_EQ(ErrorReason(bench.fixture.Call(&ScheduleApi::PauseSchedule, pause).status()),
            "REQUEST_ID_REUSED");
  EXPECT_EQ(
      ErrorReason(
          bench.fixture.Call(&ScheduleApi::ResumeSchedule, Named<v1::ResumeScheduleRequest>("p"))
              .status()),
      "REQUEST_ID_REUSED");
  EXPECT_EQ(bench.fixture.Dump(), before);
}

TEST(ScheduleService, UpdateChangesOnlyWhatTheMaskNamesAndCountsVersions) {
  ScheduleBench bench(2, 2);
  v1::CreateScheduleRequest request = ValidSchedule("s", "0 0 1 1 *");
  request.mutable_schedule()->set_display_name("Old");
  (*request.mutable_schedule()->mutable_labels())["team"] = "a";
  const auto made = bench.fixture.Call(&ScheduleApi::CreateSchedule, request);
  ASSERT_TRUE(made.ok());
  v1::UpdateScheduleRequest update;
  update.mutable_schedule()->set_name(kName);
  update.mutable_schedule()->set_etag(made->etag());
  update.mutable_schedule()->set_display_name("New");
  update.mutable_schedule()->set_cron("5 5 5 5 *");
  update.mutable_schedule()->set_priority(0);
  update.mutable_update_mask()->add_paths("display_name");
  update.mutable_update_mask()->add_paths("priority");
  const auto masked = bench.fixture.Call(&ScheduleApi::UpdateSchedule, update);
  ASSERT_TRUE(masked.ok()) << masked.status();
  EXPECT_EQ(masked->display_name(), "New");
  EXPECT_EQ(masked->cron(), "0 0 1 1 *");
  EXPECT_EQ(masked->priority(), 0);
  EXPECT_TRUE(masked->has_priority());
  EXPECT_EQ(masked->version(), 2);
  EXPECT_NE(masked->etag(), made->etag());
  EXPECT_EQ(masked->labels().at("team"), "a");
  EXPECT_EQ(masked->uid(), made->uid());
  // Without a mask: what is set.
  update.clear_update_mask();
  update.mutable_schedule()->clear_etag();
  const auto unmasked = bench.fixture.Call(&ScheduleApi::UpdateSchedule, update);
  ASSERT_TRUE(unmasked.ok()) << unmasked.status();
  EXPECT_EQ(unmasked->cron(), "5 5 5 5 *");
  EXPECT_EQ(unmasked->payload(), "{}");
  v1::GetScheduleRequest get;
  get.set_name(kName);
  EXPECT_EQ(bench.fixture.Call(&ScheduleApi::GetSchedule, get)->SerializeAsString(),
            unmasked->SerializeAsString());
}

TEST(ScheduleService, AThrottledScheduleWaitsAsOneRowUnderItsPolicyAndIsNotedAsItsUser) {
  ScheduleBench bench(2, 4);
  v1::CreateScheduleRequest request = ValidSchedule("s", "* * * * * *");
  v1::Schedule& schedule = *request.mutable_schedule();
  schedule.set_event_count(1000);
  schedule.set_priority(3);
  schedule.set_policy(PutPolicy(&bench.fixture, "p"));
  schedule.mutable_window()->mutable_duration()->set_seconds(60);
  schedule.mutable_window()->set_pacing(v1::Window::EVEN);
  schedule.mutable_on_complete()->mutable_http()->set_uri("http://h/done");
  const auto made = bench.fixture.Call(&ScheduleApi::CreateSchedule, request);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->policy(), "tenants/default/policies/p");
  EXPECT_EQ(made->completion(), v1::ON_RELEASE);
  EXPECT_EQ(made->window().duration().seconds(), 60);
  EXPECT_EQ(made->window().pacing(), v1::Window::EVEN);
  EXPECT_EQ(made->window().on_close(), v1::Window::FINISH_LATE);
  EXPECT_EQ(made->on_complete().http().uri(), "http://h/done");
  EXPECT_EQ(made->on_complete().http().method(), "POST");
  const Uid uid = Uid::FromHex(made->uid());
  EXPECT_EQ(UsedPolicies(&bench.fixture, uid, {"p"}), Strings{"p"});
  EXPECT_TRUE(bench.fixture.Events().empty());
  const auto waiting = Waiting(bench.fixture);
  ASSERT_EQ(waiting.size(), 3u);  // 1, 2, 3
  EXPECT_EQ(waiting[0].first.policy, PolicyUid("default", "p"));
  EXPECT_EQ(waiting[0].first.priority, 3);
  EXPECT_EQ(waiting[0].first.due_time, bench.At(1));
  EXPECT_EQ(waiting[0].second.count(), 1000u);
  EXPECT_EQ(waiting[0].second.throttle().pace_count(), 1000u);
  EXPECT_TRUE(waiting[0].second.run_kept());
  EXPECT_EQ(bench.fixture.Rows(ColumnFamily::kRuns).size(), 3u);
  for (const auto& [key, value] : bench.fixture.Rows(ColumnFamily::kChildren)) {
    storage::v1::ChildRecord child;
    ASSERT_TRUE(child.ParseFromString(value));
    EXPECT_EQ(child.throttle().policy_id(), "p");
    EXPECT_TRUE(child.run_kept());
  }
  storage::v1::DefinitionRecord definition;
  ASSERT_TRUE(
      definition.ParseFromString(bench.fixture.Rows(ColumnFamily::kDefinitions).begin()->second));
  EXPECT_EQ(definition.on_complete().retry().max_attempts(), 4u);
  EXPECT_EQ(definition.on_complete().delivery_timeout_micros(), 10'000'000);
}

TEST(ScheduleService, WhatIsThrottledIsDecidedByPolicyWindowOrCompletionAlone) {
  struct Case {
    std::function<void(v1::Schedule*)> change;
    bool throttled, on_release;
  };
  const std::vector<Case> cases = {
      {[](auto* s) {}, false, false},
      {[](auto* s) { s->set_completion(v1::ON_DELIVERY); }, false, false},
      {[](auto* s) { s->set_completion(v1::ON_RELEASE); }, true, true},
      {[](auto* s) { s->mutable_window()->mutable_duration()->set_seconds(1); }, true, false},
      {[](auto* s) { s->set_policy("tenants/default/policies/p"); }, true, true},
      {[](auto* s) {
         s->set_policy("tenants/default/policies/p");
         s->set_completion(v1::ON_DELIVERY);
       },
       true, false}};
  for (size_t i = 0; i < cases.size(); ++i) {
    MasterFixture fixture;
    PutPolicy(&fixture, "p");
    v1::CreateScheduleRequest request = ValidSchedule("s");
    cases[i].change(request.mutable_schedule());
    const auto made = fixture.Call(&ScheduleApi::CreateSchedule, request);
    ASSERT_TRUE(made.ok()) << made.status();
    storage::v1::DefinitionRecord definition;
    ASSERT_TRUE(
        definition.ParseFromString(fixture.Rows(ColumnFamily::kDefinitions).begin()->second));
    EXPECT_EQ(definition.has_throttle(), cases[i].throttled) << i;
    EXPECT_EQ(definition.throttle().on_release(), cases[i].on_release) << i;
    EXPECT_EQ(made->completion(), cases[i].on_release ? v1::ON_RELEASE : v1::ON_DELIVERY) << i;
  }
}

TEST(ScheduleService, APolicyThatIsNotThereIsRefusedAndNothingIsWritten) {
  MasterFixture fixture;
  const std::string before = fixture.Dump();
  v1::CreateScheduleRequest request = ValidSchedule("s");
  request.mutable_schedule()->set_policy("tenants/default/policies/none");
  for (const bool validate_only : {true, false}) {
    request.set_validate_only(validate_only);
    const auto answer = fixture.Call(&ScheduleApi::CreateSchedule, request);
    EXPECT_EQ(answer.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(ErrorReason(answer.status()), "POLICY_NOT_FOUND");
    EXPECT_EQ(ErrorMetadataValue(answer.status(), "field"), "schedule.policy");
    EXPECT_EQ(ErrorMetadataValue(answer.status(), "resource"), "tenants/default/policies/none");
  }
  EXPECT_EQ(fixture.Dump(), before);
}

TEST(ScheduleService, APolicyThatIsDeletedWhileItsFirstScheduleIsMadeIsNeverLeftInUse) {
  int made_first = 0;
  int refused = 0;
  for (int steps = 1; steps < 60; ++steps) {
    MasterFixture fixture;
    v1::CreateScheduleRequest request = ValidSchedule("s", "0 0 1 1 *");
    request.mutable_schedule()->set_policy(PutPolicy(&fixture, "p"));
    std::optional<absl::StatusOr<v1::Schedule>> answer;
    fixture.master->schedules().CreateSchedule(
        request, [&](absl::StatusOr<v1::Schedule> schedule) { answer = std::move(schedule); });
    for (int i = 0; i < steps && fixture.runtime.world().Step(); ++i) {
    }
    // As a policy is deleted: under the condition that it has no users.
    const std::string users = PolicyUserPrefix(PolicyUid("default", "p"));
    kv::Group group;
    group.conditions.push_back({.cf = ColumnFamily::kPolicies,
                                .key = users,
                                .kind = kv::Condition::Kind::kRangeCount,
                                .value = PrefixEnd(users),
                                .number = 0});
    group.mutations.push_back({.cf = ColumnFamily::kPolicies,
                               .kind = kv::Mutation::Kind::kDelete,
                               .key = PolicyKey("default", "p")});
    std::optional<bool> deleted;
    fixture.TryCommit({group}, [&](bool all) { deleted = all; });
    ASSERT_TRUE(fixture.runtime.RunUntil([&] { return answer.has_value() && deleted.has_value(); },
                                         absl::Minutes(1)));
    EXPECT_NE(answer->ok(), *deleted) << steps << answer->status();
    made_first += answer->ok();
    refused += ErrorReason(answer->status()) == "POLICY_NOT_FOUND";
  }
  EXPECT_GT(made_first, 0);
  EXPECT_GT(refused, 0);
}

TEST(ScheduleService, AnUpdateOfThePolicyMovesTheUseAndDeleteEndsIt) {
  ScheduleBench bench(2, 2);
  bench.MakeThrottled("0 0 1 1 *", 5, "p");
  const std::string other = PutPolicy(&bench.fixture, "q");
  const Strings both = {"p", "q"};
  const Uid uid = Uid::FromBytes(bench.fixture.Rows(ColumnFamily::kStates).begin()->first);
  const auto update = [&](const std::string& policy) {
    v1::UpdateScheduleRequest request;
    request.mutable_schedule()->set_name(kName);
    request.mutable_schedule()->set_policy(policy);
    request.mutable_update_mask()->add_paths("policy");
    return bench.fixture.Call(&ScheduleApi::UpdateSchedule, request);
  };
  ASSERT_EQ(UsedPolicies(&bench.fixture, uid, both), Strings{"p"});
  EXPECT_EQ(ErrorReason(update("tenants/default/policies/none").status()), "POLICY_NOT_FOUND");
  EXPECT_EQ(UsedPolicies(&bench.fixture, uid, both), Strings{"p"});
  auto updated = update(other);
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ(updated->policy(), other);
  EXPECT_EQ(UsedPolicies(&bench.fixture, uid, both), Strings{"q"});
  // Another change leaves it as it is.
  ASSERT_TRUE(bench.fixture.Call(&ScheduleApi::UpdateSchedule, CronUpdate("1 0 1 1 *")).ok());
  EXPECT_EQ(UsedPolicies(&bench.fixture, uid, both), Strings{"q"});
  // Without a policy the completion is by default that of the delivery again.
  updated = update("");
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ(updated->policy(), "");
  EXPECT_EQ(updated->completion(), v1::ON_DELIVERY);
  EXPECT_EQ(UsedPolicies(&bench.fixture, uid, both), Strings{});
  updated = update(other);
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ(updated->completion(), v1::ON_RELEASE);
  ASSERT_TRUE(
      bench.fixture.Call(&ScheduleApi::DeleteSchedule, Named<v1::DeleteScheduleRequest>()).ok());
  EXPECT_EQ(UsedPolicies(&bench.fixture, uid, both), Strings{});
}

TEST(ScheduleService, AGivenCompletionStaysWhenThePolicyChanges) {
  ScheduleBench bench(2, 2);
  v1::CreateScheduleRequest request = ValidSchedule("s", "0 0 1 1 *");
  request.mutable_schedule()->set_policy(PutPolicy(&bench.fixture, "p"));
  request.mutable_schedule()->set_completion(v1::ON_DELIVERY);
  request.mutable_schedule()->mutable_on_complete()->mutable_grpc()->set_uri("dns:///h:1");
  ASSERT_TRUE(bench.fixture.Call(&ScheduleApi::CreateSchedule, request).ok());
  v1::UpdateScheduleRequest update;
  update.mutable_schedule()->set_name(kName);
  update.mutable_schedule()->set_policy(PutPolicy(&bench.fixture, "q"));
  update.mutable_schedule()->mutable_window()->mutable_duration()->set_seconds(5);
  for (const char* path : {"policy", "window", "on_complete"})
    update.mutable_update_mask()->add_paths(path);
  const auto updated = bench.fixture.Call(&ScheduleApi::UpdateSchedule, update);
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ(updated->completion(), v1::ON_DELIVERY);
  EXPECT_EQ(updated->window().duration().seconds(), 5);
  EXPECT_FALSE(updated->has_on_complete());
}

TEST(ScheduleService, TriggerOfAThrottledScheduleMakesOneWaitingRow) {
  ScheduleBench bench(2, 2);
  bench.MakeThrottled("0 0 1 1 *", 1, "p");
  for (const int64_t n : {int64_t{1}, int64_t{100'000'000}}) {
    v1::TriggerScheduleRequest trigger = Named<v1::TriggerScheduleRequest>();
    trigger.set_event_count(n);
    const auto run = bench.fixture.Call(&ScheduleApi::TriggerSchedule, trigger);
    ASSERT_TRUE(run.ok()) << run.status();
    const auto [key, record] = Waiting(bench.fixture).back();
    EXPECT_EQ(run->name(), absl::StrCat(kName, "/runs/", key.occurrence));
    EXPECT_EQ(record.count(), static_cast<uint64_t>(n));
    EXPECT_TRUE(record.triggered());
    bench.fixture.runtime.AdvanceBy(absl::Milliseconds(1));
  }
  EXPECT_EQ(Waiting(bench.fixture).size(), 2u);
  EXPECT_EQ(bench.fixture.Rows(ColumnFamily::kRuns).size(), 1u);
  EXPECT_TRUE(bench.fixture.Events().empty());
}

TEST(ScheduleService, ListGoesOnWhereTheTokenSays) {
  MasterFixture fixture;
  for (const char* id : {"a", "b", "c", "d", "e"}) {
    ASSERT_TRUE(fixture.Call(&ScheduleApi::CreateSchedule, ValidSchedule(id, "0 0 1 1 *")).ok());
  }
  v1::ListSchedulesRequest list;
  list.set_parent("tenants/default");
  list.set_page_size(2);
  Strings names;
  int pages = 0;
  do {
    const auto page = fixture.Call(&ScheduleApi::ListSchedules, list);
    ASSERT_TRUE(page.ok()) << page.status();
    ASSERT_LE(page->schedules_size(), 2);
    for (const v1::Schedule& schedule : page->schedules())
      names.push_back(schedule.name().substr(26));
    list.set_page_token(page->next_page_token());
    // What comes or goes before the position changes nothing behind it.
    if (++pages == 1) {
      ASSERT_TRUE(
          fixture.Call(&ScheduleApi::CreateSchedule, ValidSchedule("aa", "0 0 1 1 *")).ok());
    }
  } while (!list.page_token().empty());
  EXPECT_EQ(names, (Strings{"a", "b", "c", "d", "e"}));
  EXPECT_EQ(pages, 3);
  list.set_page_token("nonsense");
  EXPECT_EQ(FieldViolationsOf(fixture.Call(&ScheduleApi::ListSchedules, list).status())[0].first,
            "page_token");
  list.clear_page_token();
  list.set_page_size(-1);
  EXPECT_EQ(FieldViolationsOf(fixture.Call(&ScheduleApi::ListSchedules, list).status())[0].first,
            "page_size");
}

TEST(ScheduleService, TwoCreationsOfOneNameMakeOneSchedule) {
  MasterFixture fixture;
  std::vector<absl::Status> answers;
  for (int i = 0; i < 2; ++i) {
    fixture.master->schedules().CreateSchedule(
        ValidSchedule("s"),
        [&](absl::StatusOr<v1::Schedule> schedule) { answers.push_back(schedule.status()); });
  }
  ASSERT_TRUE(fixture.runtime.RunUntil([&] { return answers.size() == 2; }, absl::Minutes(1)));
  EXPECT_TRUE(answers[0].ok() != answers[1].ok());
  EXPECT_TRUE(absl::IsAlreadyExists(answers[0]) || absl::IsAlreadyExists(answers[1]));
  EXPECT_EQ(fixture.Rows(ColumnFamily::kStates).size(), 1u);
}

}  // namespace
}  // namespace escapement::master
