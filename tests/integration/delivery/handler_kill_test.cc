// kill -9 of the handler under load, for every kind of target: nothing is lost, and no more events
// arrive twice than had arrived without a durable end when the handler was killed.

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/fixtures/process/child_process.h"
#include "tests/integration/api_client.h"
#include "tests/integration/delivery/delivery_peer.h"
#include "tests/integration/platform.h"
#include "tests/integration/probes.h"

namespace escapement::integration {
namespace handler_kill_test {

// The events that both kills met are sent one at a time (SuspectLoop), some thousand at worst.
constexpr absl::Duration kAwaitMax = absl::Minutes(5);
constexpr int kKills = 2;
// Events of one target that are out (HandlerOptions; twice, because claims may be made early), and
// ends of answered ones: a commit that is under way, and the next (kEndOutcomesMax).
constexpr int64_t kInFlightMax = 2 * 4096 + 2 * 4000;

struct Kind {
  const char* name;
  int64_t events;  // some seconds' work
};

class HandlerKillTest : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    peer_ = NewDeliveryPeer(GetParam().name, folder_);
    const absl::Status status = platform_.Start({"store", "master", "emitter", "handler"});
    ASSERT_TRUE(status.ok()) << status;
    api_ = std::make_unique<ApiClient>(platform_.grpc_address("master"));
  }

  void TearDown() override {
    if (HasFailure()) platform_.ShowLogs({"handler"});
  }

  v1::Run Trigger() {
    v1::Schedule schedule;
    schedule.set_cron("0 0 1 1 *");  // fires only when triggered
    schedule.set_event_count(GetParam().events);
    schedule.set_payload("{\"kill\":9}");
    *schedule.mutable_target() = peer_->target();
    // A successor waits so long until it sends what the former handler may have sent.
    schedule.mutable_delivery_timeout()->set_seconds(4);
    schedule.mutable_retry_policy()->set_max_attempts(100);
    schedule.mutable_retry_policy()->mutable_max_backoff()->set_seconds(1);
    schedule.mutable_retry_policy()->set_keep(true);
    const auto created = api_->CreateSchedule("load", schedule);
    EXPECT_TRUE(created.ok()) << created.status();
    const auto run = api_->TriggerSchedule("load");
    EXPECT_TRUE(run.ok()) << run.status();
    return run.value_or(v1::Run());
  }

  // Events that ended durably as succeeded, by the present handler's count.
  double Succeeded() const {
    return std::max(
        0.0, MetricOf(platform_.http_address("handler"), "escapement_handler_succeeded_total"));
  }

  v1::Run RunOf(const std::string& name) {
    const auto run = api_->GetRun(name);
    EXPECT_TRUE(run.ok()) << run.status();
    return run.value_or(v1::Run());
  }

  // The number of arrivals, once the peer has taken all that the killed handler had written.
  int64_t SettledCount() {
    size_t count = peer_->Count();
    int unchanged = 0;
    const auto settled = [&] {
      const size_t now = peer_->Count();
      unchanged = now == count ? unchanged + 1 : 0;
      count = now;
      return unchanged == 5;
    };
    EXPECT_TRUE(Await(settled, kAwaitMax, absl::Milliseconds(20)));
    return static_cast<int64_t>(count);
  }

  // How many events the `count` arrivals are. A ping has no id: there repetitions count, too.
  int64_t DistinctOf(int64_t count) {
    std::set<std::string> ids;
    for (Arrived& arrived : peer_->Arrivals()) ids.insert(std::move(arrived.event_id));
    return ids.empty() ? count : static_cast<int64_t>(ids.size());
  }

  const std::string folder_ = NewFolder("kill");
  Platform platform_{
      {.bin = BuiltFolder(),
       .folder = folder_,
       .extra_arguments = {{"store", {"--store_lease_ttl=1s"}},
                           {"emitter", {"--lease_ttl=1s", "--lease_renew_every=200ms"}},
                           {"handler", {"--lease_ttl=1s", "--lease_renew_every=200ms"}}}}};
  std::unique_ptr<DeliveryPeer> peer_;
  std::unique_ptr<ApiClient> api_;
};

TEST_P(HandlerKillTest, NothingIsLostAndOnlyWhatWasInFlightIsRepeated) {
  const int64_t n = GetParam().events;
  const std::string run = Trigger().name();
  int64_t in_flight = 0;  // events that a kill met
  for (int kill = 0; kill < kKills; ++kill) {
    const double enough = static_cast<double>(n) / (kKills + 2);
    ASSERT_TRUE(Await([&] { return Succeeded() >= enough; }, kAwaitMax, absl::Milliseconds(2)));
    platform_.Kill("handler");
    const int64_t count = SettledCount();
    const int64_t durable = RunOf(run).succeeded_count();
    ASSERT_LT(durable, n) << "the load was over before the kill";
    const int64_t distinct = DistinctOf(count);
    EXPECT_GE(distinct, durable) << "a success is recorded that never arrived";
    EXPECT_LE(distinct - durable, kInFlightMax);
    // Events without a durable end, and those that have been repeated since an earlier kill.
    in_flight = count - durable;
    const absl::Status status = platform_.Restart("handler");
    ASSERT_TRUE(status.ok()) << status;
  }
  ASSERT_TRUE(Await([&] { return RunOf(run).state() == v1::Run::COMPLETED; }, kAwaitMax))
      << RunOf(run).ShortDebugString();
  EXPECT_EQ(RunOf(run).succeeded_count(), n) << RunOf(run).ShortDebugString();

  const int64_t arrived = SettledCount();
  EXPECT_GE(arrived, n);
  EXPECT_GT(in_flight, 0) << "no kill met an event in flight";
  EXPECT_LE(arrived - n, in_flight) << "more was repeated than had been in flight";
  std::cerr << GetParam().name << ": " << n << " events, " << in_flight
            << " in flight at the kills, " << arrived - n << " repeated\n";
  const std::vector<Arrived> arrivals = peer_->Arrivals();
  if (arrivals.empty()) return;  // a ping has no id
  std::map<std::string, std::string> bodies;
  for (const Arrived& one : arrivals) {
    const auto known = bodies.emplace(one.event_id, one.body).first;
    EXPECT_EQ(known->second, one.body) << one.event_id << " has two bodies";
  }
  EXPECT_EQ(static_cast<int64_t>(bodies.size()), n);
}

INSTANTIATE_TEST_SUITE_P(Kinds, HandlerKillTest,
                         ::testing::Values(Kind{"http", 60'000}, Kind{"https", 20'000},
                                           Kind{"grpc", 100'000}, Kind{"sqs", 60'000},
                                           Kind{"kafka", 40'000}, Kind{"email", 3'000},
                                           Kind{"slack", 30'000}, Kind{"ping", 40'000}),
                         [](const auto& info) { return info.param.name; });

}  // namespace handler_kill_test
}  // namespace escapement::integration
