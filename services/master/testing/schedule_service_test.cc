// Changes of schedules and what they agree with the emitter. The emitter is scripted: the test
// moves its checkpoints and writes the rows it would have written.

#include "services/master/schedules/schedule_service.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/proto_time.h"
#include "common/status/errors.h"
#include "common/storage/children_table.h"
#include "common/storage/event_table.h"
#include "common/storage/schedule_table.h"
#include "gtest/gtest.h"
#include "services/master/testing/master_world.h"
#include "services/master/testing/schedule_world.h"

namespace escapement::master {
namespace schedule_service_test {

using kv::ColumnFamily;

TEST(ScheduleService, CreateEmitsWhatIsPlannedAlreadyAndLeavesTheRestToTheEmitter) {
  ScheduleWorld bench(2, 5);
  bench.MakeSchedule("* * * * * *");
  EXPECT_EQ(bench.Rows(), (Strings{"1@1", "2@1", "3@1", "4@1"}));
  EXPECT_EQ(ChildrenFrom(bench.fixture), bench.At(5));
  EXPECT_EQ(StateOf(bench.fixture).covered_to_micros(), ToMicros(bench.At(5)));
  EXPECT_EQ(bench.fixture.Rows(ColumnFamily::kInUse).size(), 1u);
}

TEST(ScheduleService, CreateWithoutEmitterMakesCheckpointsThatBeginNow) {
  MasterWorld fixture;
  const auto made = fixture.Call(&ScheduleApi::CreateSchedule, ValidSchedule("s", "* * * * * *"));
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->state(), v1::Schedule::ENABLED);
  EXPECT_EQ(made->version(), 1);
  EXPECT_EQ(made->priority(), 5);
  EXPECT_EQ(made->retry_policy().max_attempts(), 25);
  EXPECT_TRUE(fixture.Events().empty());
  const Uid uid = Uid::FromHex(made->uid());
  const uint16_t partition = PartitionOf(uid, fixture.layout.partitions);
  const auto planned = fixture.Get(ColumnFamily::kCheckpoints, PlannedToKey(partition));
  ASSERT_TRUE(planned.has_value());
  // The first occurrence is after the creation.
  EXPECT_EQ(DecodeCheckpoint(*planned) + absl::Microseconds(1), *ChildrenFrom(fixture));
  EXPECT_EQ(fixture.Get(ColumnFamily::kCheckpoints, EmittedToKey(partition)), planned);
}

// The creation is an instant of the interval's grid, but nothing fires at it.
TEST(ScheduleService, IntervalWithoutAnchorFirstFiresOnePeriodAfterItsCreation) {
  ScheduleWorld bench(1, 6);
  v1::CreateScheduleRequest request = ValidSchedule("s", "");
  request.mutable_schedule()->mutable_interval()->mutable_every()->set_seconds(2);
  const auto made = bench.fixture.Call(&ScheduleApi::CreateSchedule, request);
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_EQ(bench.Rows(), (Strings{"2@1", "4@1"}));
  EXPECT_GE(made->next_time().seconds(), absl::ToUnixSeconds(bench.At(2)));
  EXPECT_LT(made->next_time().seconds(), absl::ToUnixSeconds(bench.At(3)));
}

TEST(ScheduleService, CreateWithABehindEmitterOwesNothingFromBeforeTheCreation) {
  ScheduleWorld bench(-3600, -3590);
  bench.MakeSchedule("* * * * * *");
  EXPECT_EQ(bench.Rows(), Strings{});
  EXPECT_GE(*ChildrenFrom(bench.fixture), bench.start);
  // And neither does a later update, though the emitter is still an hour behind.
  bench.fixture.runtime.AdvanceBy(absl::Seconds(2));
  ASSERT_TRUE(bench.fixture.Call(&ScheduleApi::UpdateSchedule, CronUpdate("0 * * * *")).ok());
  EXPECT_EQ(bench.Rows(), (Strings{"1@1", "2@1"}));
}

TEST(ScheduleService, UpdateEmitsOnlyWhatTheFormerVersionHadNot) {
  ScheduleWorld bench(3, 6);
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
  ScheduleWorld bench(1, 1);
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
    ScheduleWorld bench(2, 2);
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
  ScheduleWorld bench(2, 2);
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
  ScheduleWorld bench(2, 2);
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

TEST(ScheduleService, DebtOfAnEmitterLongBehindFollowsTheMisfirePolicy) {
  ScheduleWorld bench(1, 1);
  bench.MakeSchedule("* * * * * *");
  bench.fixture.runtime.AdvanceBy(absl::Hours(12) + absl::Milliseconds(500));
  const auto paused =
      bench.fixture.Call(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>());
  ASSERT_TRUE(paused.ok()) << paused.status();
  // Missed are 1 to 43140; the latest 100 of them fire, and what is not missed.
  EXPECT_EQ(SkippedSince(bench.fixture, bench.start), Strings{"1*43040 misfire"});
  EXPECT_EQ(bench.Rows().size(), 160u);
  EXPECT_EQ(bench.Rows().front(), "43041@1");
  EXPECT_EQ(bench.Rows().back(), "43200@1");
  for (const auto& [key, record] : bench.fixture.Events())
    EXPECT_EQ(key.lane == kLaneCatchUp, key.due_time < bench.fixture.Now() - absl::Seconds(10));
}

TEST(ScheduleService, ChangeWithTooManyOccurrencesIsRefusedUntilEmitterCatchesUp) {
  ScheduleWorld bench(1, 1);
  bench.change = [](v1::Schedule& schedule) {
    SetMisfire(v1::MisfirePolicy::FIRE_ALL, 7200, 1000, schedule);
  };
  bench.MakeSchedule("* * * * * *", /*n=*/8);
  bench.fixture.runtime.AdvanceBy(absl::Hours(12));
  const auto answer =
      bench.fixture.Call(&ScheduleApi::PauseSchedule, Named<v1::PauseScheduleRequest>());
  EXPECT_EQ(ErrorReason(answer.status()), "EMISSION_BEHIND");
  EXPECT_TRUE(RetryDelayOf(answer.status()).has_value());
  EXPECT_EQ(bench.Rows(), Strings{});
}

TEST(ScheduleService, TriggerMakesOneMarkedRunNow) {
  ScheduleWorld bench(2, 2);
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
  ScheduleWorld bench(2, 2);
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
  ScheduleWorld bench(2, 2);
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

TEST(ScheduleService, ListGoesOnWhereTheTokenSays) {
  MasterWorld fixture;
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
    // Changes before the position change nothing behind it.
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
  MasterWorld fixture;
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

}  // namespace schedule_service_test
}  // namespace escapement::master
