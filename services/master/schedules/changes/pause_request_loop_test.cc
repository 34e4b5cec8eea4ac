// Schedules that are paused because handlers found their targets gone.

#include <string>

#include "common/storage/name_tables.h"
#include "escapement/storage/v1/access_records.pb.h"
#include "gtest/gtest.h"
#include "services/master/testing/master_world.h"
#include "services/master/testing/schedule_world.h"

namespace escapement::master {
namespace pause_request_loop_test {

using kv::ColumnFamily;

constexpr char kReason[] = "the target answered 410 Gone";

class PauseRequestTest : public testing::Test {
 protected:
  PauseRequestTest() { world_.MakeSchedule("* * * * * *"); }

  Uid uid() {
    storage::v1::ScheduleRecord record;
    EXPECT_TRUE(record.ParseFromString(fixture().Rows(ColumnFamily::kSchedules).begin()->second));
    return Uid::FromBytes(record.uid());
  }
  // As a handler writes it.
  void Request(const Uid& uid, uint64_t version) {
    storage::v1::PauseRequestRecord request;
    request.set_tenant("default");
    request.set_schedule_id("s");
    request.set_version(version);
    request.set_reason(kReason);
    fixture().Put(ColumnFamily::kPauseRequests, PauseRequestKey(uid), request.SerializeAsString());
    fixture().runtime.AdvanceBy(absl::Seconds(3));
  }
  v1::Schedule Get() {
    v1::GetScheduleRequest request;
    request.set_name(kName);
    const auto got = fixture().Call(&ScheduleApi::GetSchedule, request);
    EXPECT_TRUE(got.ok()) << got.status();
    return got.ok() ? *got : v1::Schedule();
  }
  MasterWorld& fixture() { return world_.fixture; }
  size_t requests() { return fixture().Rows(ColumnFamily::kPauseRequests).size(); }

  ScheduleWorld world_{3, 6};
};

TEST_F(PauseRequestTest, ScheduleIsPausedWithTheReason) {
  Request(uid(), 1);
  const v1::Schedule schedule = Get();
  EXPECT_EQ(schedule.state(), v1::Schedule::PAUSED);
  EXPECT_EQ(schedule.pause_reason(), kReason);
  EXPECT_FALSE(ChildrenFrom(fixture()).has_value());
  EXPECT_EQ(requests(), 0u);
  // The audit has it: created and paused.
  int paused = 0;
  for (const auto& [key, value] : fixture().Rows(ColumnFamily::kAudit)) {
    storage::v1::AuditRecord record;
    ASSERT_TRUE(record.ParseFromString(value));
    if (record.method() != "PauseSchedule") continue;
    ++paused;
    EXPECT_EQ(record.principal(), "platform");
    EXPECT_EQ(record.resource(), kName);
  }
  EXPECT_EQ(paused, 1);
}

TEST_F(PauseRequestTest, ResumedScheduleCanBePausedAgain) {
  Request(uid(), 1);
  ASSERT_TRUE(
      fixture().Call(&ScheduleApi::ResumeSchedule, Named<v1::ResumeScheduleRequest>()).ok());
  ASSERT_EQ(Get().state(), v1::Schedule::ENABLED);
  Request(uid(), 1);
  EXPECT_EQ(Get().state(), v1::Schedule::PAUSED);
  EXPECT_EQ(requests(), 0u);
}

TEST_F(PauseRequestTest, NewerVersionIsNotPaused) {
  ASSERT_TRUE(fixture().Call(&ScheduleApi::UpdateSchedule, CronUpdate("*/2 * * * * *")).ok());
  Request(uid(), 1);
  EXPECT_EQ(Get().state(), v1::Schedule::ENABLED);
  EXPECT_EQ(requests(), 0u);
  Request(uid(), 2);
  EXPECT_EQ(Get().state(), v1::Schedule::PAUSED);
}

TEST_F(PauseRequestTest, PauseOfTheUserKeepsItsReason) {
  v1::PauseScheduleRequest pause = Named<v1::PauseScheduleRequest>();
  pause.set_reason("holiday");
  ASSERT_TRUE(fixture().Call(&ScheduleApi::PauseSchedule, pause).ok());
  Request(uid(), 1);
  EXPECT_EQ(Get().pause_reason(), "holiday");
  EXPECT_EQ(requests(), 0u);
}

TEST_F(PauseRequestTest, RequestsForOtherSchedulesVanish) {
  // A schedule of the same name that was deleted and created again has another uid.
  Request(Uid::FromHalves(1, 2), 1);
  EXPECT_EQ(Get().state(), v1::Schedule::ENABLED);
  EXPECT_EQ(requests(), 0u);
  const Uid old = uid();
  ASSERT_TRUE(
      fixture().Call(&ScheduleApi::DeleteSchedule, Named<v1::DeleteScheduleRequest>()).ok());
  Request(old, 1);
  EXPECT_EQ(requests(), 0u);
}

}  // namespace pause_request_loop_test
}  // namespace escapement::master
