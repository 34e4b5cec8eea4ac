// Handler, token manager, emitter and store are killed with -9 in turn, at random instants, during
// a batch. The batch goes out under a policy to a consumer that works and gives its tokens back.
// The consumer must never see more distinct events out than the policy allows, except for expiries
// that the platform has recorded. The platform's own counts must say that each event ended once.
//
//   bazel test //tests/integration:throttle_kill_test --test_timeout=3000
//   --test_arg=--kills=200 --test_arg=--events=200000

#include <poll.h>

#include <functional>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/grpc_receiver.h"
#include "tests/fixtures/http_receiver.h"
#include "tests/fixtures/policy_client.h"
#include "tests/fixtures/process/child_process.h"
#include "tests/fixtures/receipts.h"
#include "tests/fixtures/worker.h"
#include "tests/integration/api_client.h"
#include "tests/integration/platform.h"

ABSL_FLAG(int, kills, 20, "in all");
ABSL_FLAG(int64_t, events, 20'000, "of the schedule with short work, by HTTP");
ABSL_FLAG(int64_t, concurrent, 50, "the policy's limit");
ABSL_FLAG(int, work_ms, 20, "of short work");
ABSL_FLAG(int, long_work_ms, 3000,
          "of each of events / 50 further events, by gRPC: out for longer than a takeover takes");
ABSL_FLAG(uint32_t, seed, 1, "of the instants of kills");

namespace escapement::integration {
namespace throttle_kill_test {

const std::vector<std::string> kVictims = {"handler", "token_manager", "emitter", "store"};
const std::vector<std::string> kServices = {"store", "master", "emitter", "token_manager",
                                            "handler"};
constexpr absl::Duration kStandstillMax = absl::Seconds(90);
constexpr char kShort[] = "short-work";
constexpr char kLong[] = "long-work";
constexpr int64_t kShortPerLong = 50;

class ThrottleKillTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = NewFolder("throttle");
    const std::vector<std::string> short_leases = {"--lease_ttl=1s", "--lease_renew_every=200ms"};
    platform_ = std::make_unique<Platform>(
        Platform::Options{.bin = BuiltFolder(),
                          .folder = folder_,
                          .extra_arguments = {{"store", {"--store_lease_ttl=1s"}},
                                              {"emitter", short_leases},
                                              {"handler", short_leases},
                                              {"token_manager", short_leases}}});
    const absl::Status status = platform_->Start(kServices);
    ASSERT_TRUE(status.ok()) << status;
    worker_ = std::make_unique<fixtures::Worker>(
        fixtures::Worker::Options{.token_addresses = {platform_->grpc_address("token_manager"),
                                                      platform_->grpc_address("master")}});
    http_ = *fixtures::HttpReceiver::Start({.worker = worker_.get()}, &receipts_);
    grpc_ = *fixtures::GrpcReceiver::Start(
        {.behaviour = WorkOf(absl::GetFlag(FLAGS_long_work_ms)), .worker = worker_.get()},
        &receipts_);
    api_ = std::make_unique<ApiClient>(platform_->grpc_address("master"));
    policies_ = std::make_unique<fixtures::PolicyClient>(platform_->grpc_address("master"));
  }

  void TearDown() override {
    if (HasFailure()) platform_->ShowLogs(kServices);
  }

  static std::string WorkOf(int millis) { return absl::StrCat("/work/", millis); }

  void CreateSchedule(const std::string& id, v1::Target target, int64_t events) {
    v1::Schedule schedule;
    schedule.set_cron("0 0 1 1 *");  // fires only when triggered
    schedule.set_event_count(events);
    schedule.set_payload("{}");
    schedule.set_policy(policy_);
    *schedule.mutable_target() = std::move(target);
    schedule.mutable_delivery_timeout()->set_seconds(1);
    schedule.mutable_retry_policy()->set_max_attempts(100);
    schedule.mutable_retry_policy()->mutable_min_backoff()->set_nanos(100'000'000);
    schedule.mutable_retry_policy()->mutable_max_backoff()->set_seconds(1);
    const auto created = api_->CreateSchedule(id, schedule);
    ASSERT_TRUE(created.ok()) << created.status();
    const auto run = api_->TriggerSchedule(id, 0, id);
    ASSERT_TRUE(run.ok()) << run.status();
  }

  // Waits until `done` is true. Returns false if the consumer's work stands still for a long time.
  bool Await(const std::function<bool()>& done) {
    uint64_t seen = worker_->Work().ended;
    absl::Time moved = absl::Now();
    while (!done()) {
      const uint64_t now = worker_->Work().ended;
      if (now != seen) moved = absl::Now();
      seen = now;
      if (absl::Now() - moved > kStandstillMax) return false;
      poll(nullptr, 0, 10);
    }
    return true;
  }

  // Kills the victims in turn. It waits for a random part of the batch to end before each kill. One
  // time in four it waits less than a second instead, so the platform may still be recovering.
  void KillAll(uint64_t events) {
    std::mt19937 random(absl::GetFlag(FLAGS_seed));
    const int kills = absl::GetFlag(FLAGS_kills);
    for (int kill = 0; kill < kills; ++kill) {
      if (kill > 0 && random() % 4 == 0) {
        poll(nullptr, 0, static_cast<int>(random() % 1000));
      } else {
        const uint64_t share = events / static_cast<uint64_t>(kills + 1);
        const uint64_t at = share * static_cast<uint64_t>(kill) + 1 + random() % share;
        ASSERT_TRUE(Await([&] { return worker_->Work().ended >= at; })) << Story();
      }
      const std::string& victim = kVictims[static_cast<size_t>(kill) % kVictims.size()];
      platform_->Kill(victim);
      const absl::Status status = platform_->Restart(victim);
      ASSERT_TRUE(status.ok()) << status;
    }
    EXPECT_LT(worker_->Work().ended, events) << "the last kill came after the end";
  }

  // Waits until the platform's record of the run is complete, and checks it.
  void ExpectRunAddsUp(const std::string& id, int64_t n) {
    v1::Run run;
    EXPECT_TRUE(Await([&] {
      const auto runs = api_->ListRuns(id);
      if (!runs.ok() || runs->size() != 1) return false;
      run = runs->front();
      return run.state() == v1::Run::COMPLETED;
    })) << id;
    EXPECT_EQ(run.succeeded_count(), n) << run.ShortDebugString();
    EXPECT_EQ(
        run.failed_count() + run.skipped_count() + run.cancelled_count() + run.expired_count(), 0)
        << run.ShortDebugString();
    EXPECT_EQ(run.running_count(), 0) << run.ShortDebugString();
    EXPECT_EQ(run.granted_count(), n) << run.ShortDebugString();
    std::cerr << id << ": " << run.ShortDebugString() << "\n";
  }

  std::string Story() const { return worker_->StatsJson(); }

  std::string folder_;
  std::string policy_;
  fixtures::Receipts receipts_;
  std::unique_ptr<fixtures::Worker> worker_;
  std::unique_ptr<fixtures::HttpReceiver> http_;
  std::unique_ptr<fixtures::GrpcReceiver> grpc_;
  std::unique_ptr<Platform> platform_;
  std::unique_ptr<ApiClient> api_;
  std::unique_ptr<fixtures::PolicyClient> policies_;
};

TEST_F(ThrottleKillTest, NoMoreEventsAreOutThanAllowedAndEachEndsOnce) {
  const int64_t m = absl::GetFlag(FLAGS_concurrent);
  const int64_t short_events = absl::GetFlag(FLAGS_events);
  const int64_t long_events = short_events / kShortPerLong;
  const auto events = static_cast<uint64_t>(short_events + long_events);
  v1::ThrottlePolicy policy;
  policy.set_max_concurrent(m);
  const auto created = policies_->Create("fifty", policy);
  ASSERT_TRUE(created.ok()) << created.status();
  policy_ = *created;
  const absl::Time begun = absl::Now();
  ASSERT_NO_FATAL_FAILURE(CreateSchedule(
      kShort, HttpTo(http_->origin() + WorkOf(absl::GetFlag(FLAGS_work_ms))), short_events));
  ASSERT_NO_FATAL_FAILURE(CreateSchedule(kLong, GrpcTo(grpc_->target()), long_events));
  ASSERT_NO_FATAL_FAILURE(KillAll(events));
  ASSERT_TRUE(Await([&] { return worker_->Work().ended >= events; })) << Story();
  ASSERT_TRUE(worker_->AwaitIdle(absl::Seconds(60))) << Story();
  ExpectRunAddsUp(kShort, short_events);
  ExpectRunAddsUp(kLong, long_events);

  const auto usage = policies_->Usage(policy_);
  ASSERT_TRUE(usage.ok()) << usage.status();
  EXPECT_EQ(usage->held_count(), 0);
  EXPECT_EQ(usage->waiting_count(), 0);
  const fixtures::WorkStats work = worker_->Work();
  EXPECT_LE(work.out_max, m + usage->expired_count()) << Story();
  EXPECT_EQ(work.out, 0);
  EXPECT_EQ(work.distinct, events);
  EXPECT_EQ(work.ended, events);
  EXPECT_EQ(receipts_.Stats().early, 0u);
  EXPECT_EQ(receipts_.Stats().changed, 0u);
  EXPECT_EQ(worker_->Completions().invalid, 0u);
  std::cerr << absl::StrFormat(
      "%d kills over %d events in %.1f s: at most %d of %d out, %d expiries recorded, %s\n",
      absl::GetFlag(FLAGS_kills), events, absl::ToDoubleSeconds(absl::Now() - begun), work.out_max,
      m, usage->expired_count(), Story());
}

}  // namespace throttle_kill_test
}  // namespace escapement::integration

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  absl::ParseCommandLine(argc, argv);
  return RUN_ALL_TESTS();
}
