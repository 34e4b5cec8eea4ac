#include "services/master/runs/account_loop.h"

#include <memory>
#include <string>

#include "common/base/proto_time.h"
#include "common/metrics/metrics.h"
#include "common/records/row_judge.h"
#include "common/storage/event_table.h"
#include "common/storage/schedule_table.h"
#include "gtest/gtest.h"
#include "services/master/testing/master_world.h"

namespace escapement::master {
namespace account_loop_test {

constexpr absl::Duration kEvery = absl::Seconds(5);

struct Watched {
  Watched() {
    MasterOptions options;
    options.account_every = kEvery;
    options.metrics = &metrics;
    world.Restart(options);
    Emitted(world.Now() + absl::Seconds(5));
  }

  void Emitted(absl::Time to) { world.SetCheckpoints(to, to); }
  void Create(const std::string& tenant, const std::string& id) {
    v1::CreateScheduleRequest request = ValidSchedule(id, "* * * * * *");
    request.set_parent("tenants/" + tenant);
    const auto made = world.Call(&ScheduleApi::CreateSchedule, request);
    ASSERT_TRUE(made.ok()) << made.status();
  }
  void RemoveRow(size_t i) {
    world.Delete(kv::ColumnFamily::kEvents, EncodeEventKey(world.Events()[i].first));
  }
  double Value(const std::string& name) const {
    const std::string text = metrics.Serialize();
    const size_t at = text.find("\nescapement_master_" + name + " ");
    EXPECT_NE(at, std::string::npos) << name;
    return at == std::string::npos ? -1 : std::stod(text.substr(text.find(' ', at)));
  }

  Metrics metrics;
  MasterWorld world;
};

TEST(AccountLoop, CountsALostOccurrenceOfAnyTenant) {
  Watched watched;
  watched.Create("default", "s");
  watched.Create("other", "s");
  watched.world.runtime.AdvanceBy(2 * kEvery);
  EXPECT_EQ(watched.Value("occurrences_unaccounted_total"), 0);
  EXPECT_GT(watched.Value("occurrences_sampled_total"), 0);
  // One row of each schedule, because a step draws which of them it samples.
  watched.RemoveRow(0);
  watched.RemoveRow(0);
  watched.world.runtime.AdvanceBy(10 * kEvery);
  EXPECT_GT(watched.Value("occurrences_unaccounted_total"), 0);
}

TEST(AccountLoop, EmitterThatStandsStillIsSeenWithinAStep) {
  Watched watched;
  watched.world.runtime.AdvanceBy(kEvery + absl::Milliseconds(100));
  EXPECT_LT(watched.Value("emission_behind_seconds"), 1);
  watched.world.runtime.AdvanceBy(absl::Seconds(30));
  EXPECT_GT(watched.Value("emission_behind_seconds"), 20);
  watched.Emitted(watched.world.Now() + absl::Seconds(60));
  watched.world.runtime.AdvanceBy(kEvery + absl::Milliseconds(100));
  EXPECT_EQ(watched.Value("emission_behind_seconds"), 0);
}

TEST(AccountLoop, HeartbeatThatNobodyHandlesIsLate) {
  Watched watched;
  watched.Create(std::string(kHeartbeatTenant), std::string(kHeartbeatSchedule));
  watched.world.runtime.AdvanceBy(absl::Seconds(30));
  EXPECT_GT(watched.Value("heartbeat_late_seconds"), 20);
  v1::PauseScheduleRequest pause;
  pause.set_name("tenants/escapement/schedules/heartbeat");
  ASSERT_TRUE(watched.world.Call(&ScheduleApi::PauseSchedule, pause).ok());
  watched.world.runtime.AdvanceBy(2 * kEvery);
  EXPECT_EQ(watched.Value("heartbeat_late_seconds"), 0);
}

}  // namespace account_loop_test
}  // namespace escapement::master
