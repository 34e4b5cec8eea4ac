// A handler or an emitter stands still (SIGSTOP) for longer than its leases. Other processes take
// over, and then it goes on as if nothing had happened.

#include <signal.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/http_receiver.h"
#include "tests/fixtures/process/child_process.h"
#include "tests/fixtures/receipts.h"
#include "tests/integration/api_client.h"
#include "tests/integration/platform.h"
#include "tests/integration/probes.h"

namespace escapement::integration {
namespace pause_test {

using fixtures::Receipt;

constexpr char kSource[] = "/tenants/default/schedules/ticks";
constexpr int kEvents = 20;  // events of each second
// Bounds the events that a handler had claimed when it was stopped. Claims are made up to 40 ms
// ahead, and the machine itself may pause the handler, too.
constexpr int64_t kClaimedAheadMicros = 200'000;

class PauseTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string folder = NewFolder("pause");
    const std::vector<std::string> short_leases = {"--lease_ttl=1s", "--lease_renew_every=200ms"};
    platform_ = std::make_unique<Platform>(
        Platform::Options{.bin = BuiltFolder(),
                          .folder = folder,
                          .extra_arguments = {{"store", {"--store_lease_ttl=1s"}},
                                              {"emitter", short_leases},
                                              {"handler", short_leases}}});
    http_ = *fixtures::HttpReceiver::Start({}, &receipts_);
    const absl::Status status = platform_->Start({"store", "master", "emitter", "handler"});
    ASSERT_TRUE(status.ok()) << status;
    api_ = std::make_unique<ApiClient>(platform_->grpc_address("master"));
    v1::Schedule schedule;
    schedule.set_cron("* * * * * *");
    schedule.set_event_count(kEvents);
    schedule.set_payload("{}");
    *schedule.mutable_target() = HttpTo(http_->origin() + "/tick");
    schedule.mutable_delivery_timeout()->set_seconds(1);
    schedule.mutable_retry_policy()->set_max_attempts(50);
    schedule.mutable_retry_policy()->mutable_max_backoff()->set_seconds(1);
    schedule.mutable_retry_policy()->set_keep(true);
    ASSERT_TRUE(api_->CreateSchedule("ticks", schedule).ok());
  }

  // Returns -1 if the service cannot be asked.
  double MetricOf(const std::string& service, absl::string_view metric) {
    return integration::MetricOf(platform_->http_address(service), metric);
  }
  uint64_t Distinct() { return receipts_.Stats(kSource).distinct; }

  // Stops `service` until "`service`.2" holds everything that it held, and then until two more
  // seconds' events are delivered. Returns the wall time of the stop.
  int64_t Freeze(const std::string& service, absl::string_view held_metric) {
    EXPECT_TRUE(Await([&] { return Distinct() >= 2 * kEvents; }));
    const double all = MetricOf(service, held_metric);
    EXPECT_GT(all, 0);
    const int64_t stopped = absl::ToUnixMicros(absl::Now());
    platform_->Signal(service, SIGSTOP);
    const absl::Status status = platform_->Restart(service + ".2");
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(Await([&] { return MetricOf(service + ".2", held_metric) == all; }));
    const uint64_t before = Distinct();
    EXPECT_TRUE(Await([&] { return Distinct() >= before + 2 * kEvents; }));
    platform_->Signal(service, SIGCONT);
    // It serves again and finds that it has lost its leases. It may have acquired some since.
    EXPECT_TRUE(Await([&] {
      const double held = MetricOf(service, held_metric);
      return held >= 0 && held < all;
    }));
    return stopped;
  }

  // Expects every second between the first and the last, each with all its events under one id
  // each.
  void ExpectWhole() {
    const uint64_t before = Distinct();
    EXPECT_TRUE(Await([&] { return Distinct() >= before + 3 * kEvents; }));
    ASSERT_TRUE(api_->PauseSchedule("ticks").ok());
    std::map<int64_t, std::set<std::string>> ids;
    auto whole = [&] {
      ids.clear();
      for (const Receipt& receipt : receipts_.List(kSource))
        ids[receipt.launch_micros].insert(receipt.event_id);
      return std::all_of(ids.begin(), ids.end(),
                         [](const auto& second) { return second.second.size() == kEvents; });
    };
    EXPECT_TRUE(Await(whole));
    for (const auto& [second, of_second] : ids) {
      EXPECT_EQ(of_second.size(), size_t{kEvents}) << "at " << second;
      EXPECT_TRUE(second == ids.begin()->first || ids.count(second - 1'000'000) == 1)
          << "nothing a second before " << second;
    }
    EXPECT_EQ(receipts_.Stats(kSource).early, 0u);
    EXPECT_EQ(receipts_.Stats(kSource).changed, 0u);
  }

  // Receipts of events that had been accepted before.
  std::vector<Receipt> Doubled() {
    std::vector<Receipt> doubled;
    std::set<std::string> accepted;
    for (const Receipt& receipt : receipts_.List(kSource)) {
      if (accepted.count(receipt.event_id) > 0) doubled.push_back(receipt);
      if (receipt.accepted()) accepted.insert(receipt.event_id);
    }
    return doubled;
  }

  fixtures::Receipts receipts_;
  std::unique_ptr<fixtures::HttpReceiver> http_;
  std::unique_ptr<Platform> platform_;
  std::unique_ptr<ApiClient> api_;
};

TEST_F(PauseTest, StoppedHandlerSendsNoEventsOfNewOwnerAfterItsLeaseEnded) {
  const int64_t stopped = Freeze("handler", "escapement_handler_shards_held");
  ExpectWhole();
  // W1: the event was sent, and the handler stopped before the end was committed.
  for (const Receipt& receipt : Doubled()) {
    EXPECT_LT(receipt.launch_micros, stopped + kClaimedAheadMicros)
        << receipt.event_id << " attempt " << receipt.attempt;
  }
}

TEST_F(PauseTest, AnEmitterThatStoodStillBeyondItsLeaseEmitsNothingTwice) {
  Freeze("emitter", "escapement_emitter_partitions");
  ExpectWhole();
  EXPECT_TRUE(Doubled().empty());
}

}  // namespace pause_test
}  // namespace escapement::integration
