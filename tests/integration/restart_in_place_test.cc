// A process that is killed and started again where it was goes on at once: its instance file proves
// that its predecessor is dead, so it waits neither for leases nor for attempts. Leases have their
// usual length here.

#include <algorithm>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/http_receiver.h"
#include "tests/fixtures/policy_client.h"
#include "tests/fixtures/process/child_process.h"
#include "tests/fixtures/receipts.h"
#include "tests/integration/api_client.h"
#include "tests/integration/platform.h"

namespace escapement::integration {
namespace restart_in_place_test {

using fixtures::HttpReceiver;
using fixtures::Receipt;

constexpr char kSource[] = "/tenants/default/schedules/ticks";
constexpr int kEvents = 50;
// Less than a lease (5 s): the successor cannot have waited for it.
constexpr absl::Duration kLateMax = absl::Milliseconds(4500);

class RestartInPlaceTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    platform_ = std::make_unique<Platform>(Platform::Options{
        .bin = BuiltFolder(), .folder = NewFolder("in_place"), .instance_files = true});
    http_ = *HttpReceiver::Start({}, &receipts_);
  }

  void TearDown() override {
    if (HasFailure())
      platform_->ShowLogs({"store", "master", "emitter", "handler", "token_manager"});
  }

  // Waits until all events of these instants have arrived. Returns how late the last one was.
  absl::Duration AwaitLast(int64_t first, int64_t last) {
    const size_t count = static_cast<size_t>((last - first) / 1'000'000 + 1) * kEvents;
    int64_t late = 0;
    const bool all = Await([&] {
      std::set<std::string> ids;
      late = 0;
      for (const Receipt& receipt : receipts_.List(kSource)) {
        if (receipt.launch_micros < first || receipt.launch_micros > last) continue;
        if (ids.insert(receipt.event_id).second)
          late = std::max(late, receipt.wall_micros - receipt.launch_micros);
      }
      return ids.size() == count;
    });
    return all ? absl::Microseconds(late) : absl::InfiniteDuration();
  }
  bool AwaitDistinct(uint64_t count) {
    return Await([&] { return receipts_.Stats(kSource).distinct >= count; }, absl::Seconds(60),
                 absl::Milliseconds(1));
  }

  fixtures::Receipts receipts_;
  std::unique_ptr<HttpReceiver> http_;
  std::unique_ptr<Platform> platform_;
};

TEST_P(RestartInPlaceTest, DueEventsAreDeliveredBeforeALeaseEnds) {
  const absl::Status started =
      platform_->Start({"store", "master", "emitter", "handler", "token_manager"});
  ASSERT_TRUE(started.ok()) << started;
  ApiClient api(platform_->grpc_address("master"));
  v1::Schedule schedule;
  schedule.set_cron("* * * * * *");
  schedule.set_event_count(kEvents);
  schedule.set_payload("{}");
  *schedule.mutable_target() = HttpTo(http_->origin() + "/tick");
  if (GetParam() == "token_manager") {
    v1::ThrottlePolicy policy;
    policy.set_max_concurrent(10);
    const auto name =
        fixtures::PolicyClient(platform_->grpc_address("master")).Create("ten", policy);
    ASSERT_TRUE(name.ok()) << name.status();
    schedule.set_policy(*name);
    schedule.set_completion(v1::ON_DELIVERY);
  }
  const auto created = api.CreateSchedule("ticks", schedule);
  ASSERT_TRUE(created.ok()) << created.status();
  ASSERT_TRUE(AwaitDistinct(kEvents));

  for (int kills = 0; kills < 2; ++kills) {
    // In the middle of a second's events, as far as that can be hit.
    ASSERT_TRUE(AwaitDistinct(receipts_.Stats(kSource).distinct + kEvents + 5));
    const int64_t second = absl::ToUnixSeconds(absl::Now()) * 1'000'000;
    platform_->Kill(GetParam());
    const absl::Status restarted = platform_->Restart(GetParam());
    ASSERT_TRUE(restarted.ok()) << restarted;
    const absl::Duration late = AwaitLast(second, second + 3'000'000);
    std::cout << GetParam() << " killed: the last of what was due came " << late << " late\n";
    EXPECT_LT(late, kLateMax);
  }
}

INSTANTIATE_TEST_SUITE_P(Of, RestartInPlaceTest,
                         ::testing::Values("handler", "emitter", "token_manager"),
                         [](const auto& info) { return info.param; });

}  // namespace restart_in_place_test
}  // namespace escapement::integration
