#include "services/master/heartbeat/heartbeat_loop.h"

#include <memory>

#include "gtest/gtest.h"
#include "services/master/testing/master_world.h"

namespace escapement::master {
namespace heartbeat_loop_test {

constexpr char kHeartbeat[] = "tenants/escapement/schedules/heartbeat";

class HeartbeatLoopTest : public ::testing::Test {
 protected:
  ~HeartbeatLoopTest() override { executor_->Stop(); }

  HeartbeatLoop Loop(absl::Duration every) {
    return HeartbeatLoop(executor_, world_.master->schedules(), every);
  }
  absl::StatusOr<v1::Schedule> Get() {
    v1::GetScheduleRequest request;
    request.set_name(kHeartbeat);
    return world_.Call(&ScheduleApi::GetSchedule, request);
  }

  MasterWorld world_;
  std::shared_ptr<Executor> executor_ = world_.runtime.NewExecutor("heartbeat");
};

TEST_F(HeartbeatLoopTest, MakesTheScheduleAndMakesItAgainWhenItIsDeleted) {
  HeartbeatLoop loop = Loop(absl::Seconds(10));
  loop.Start();
  world_.runtime.AdvanceBy(absl::Seconds(1));
  const auto made = Get();
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->interval().every().seconds(), 10);
  EXPECT_EQ(made->interval().anchor_time().seconds(), 0);
  EXPECT_EQ(made->target().ping().uri(), "heartbeat:");

  v1::DeleteScheduleRequest request;
  request.set_name(kHeartbeat);
  ASSERT_TRUE(world_.Call(&ScheduleApi::DeleteSchedule, request).ok());
  EXPECT_FALSE(Get().ok());
  world_.runtime.AdvanceBy(absl::Minutes(1));
  EXPECT_TRUE(Get().ok());
}

TEST_F(HeartbeatLoopTest, ChangesOnlyTheIntervalOfAScheduleThatIsThere) {
  HeartbeatLoop first = Loop(absl::Seconds(10));
  first.Start();
  world_.runtime.AdvanceBy(absl::Seconds(1));
  const int64_t version = Get()->version();
  world_.runtime.AdvanceBy(absl::Minutes(3));
  EXPECT_EQ(Get()->version(), version);  // the same interval is no change

  v1::PauseScheduleRequest pause;
  pause.set_name(kHeartbeat);
  ASSERT_TRUE(world_.Call(&ScheduleApi::PauseSchedule, pause).ok());
  HeartbeatLoop second = Loop(absl::Milliseconds(1500));
  second.Start();
  world_.runtime.AdvanceBy(absl::Seconds(1));
  EXPECT_EQ(Get()->interval().every().nanos(), 500'000'000);
  EXPECT_EQ(Get()->state(), v1::Schedule::PAUSED);
}

TEST_F(HeartbeatLoopTest, WithoutAnIntervalThereIsNoSchedule) {
  HeartbeatLoop loop = Loop(absl::ZeroDuration());
  loop.Start();
  world_.runtime.AdvanceBy(absl::Minutes(2));
  EXPECT_TRUE(absl::IsNotFound(Get().status()));
}

}  // namespace heartbeat_loop_test
}  // namespace escapement::master
