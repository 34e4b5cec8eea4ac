// Many events fail, half of a run and half one-off, and one operation redrives them at a rate while
// master and handler are killed with -9 in turn. Each event must be redriven once and succeed under
// its own id, and the operation must take the time that its rate asks for.
//
// The whole measure, 100,000 dead letters (tools/dev redrive):
//   bazel test //tests/integration/dead_letters:redrive_kill_test --test_timeout=3000
//   --test_output=all
//   --test_arg=--letters=100000 --test_arg=--rate=2000 --test_arg=--kills=12

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"
#include "escapement/v1/dead_letter_service.grpc.pb.h"
#include "escapement/v1/operation_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/fixtures/grpc_receiver.h"
#include "tests/fixtures/process/child_process.h"
#include "tests/fixtures/receipts.h"
#include "tests/integration/api_client.h"
#include "tests/integration/platform.h"

ABSL_FLAG(int64_t, letters, 3'000, "dead letters; even");
ABSL_FLAG(double, rate, 600, "events per second that the redrive asks for");
ABSL_FLAG(int, kills, 4, "of master and handler in turn");

namespace escapement::integration {
namespace redrive_kill_test {

const std::vector<std::string> kServices = {"store", "master", "emitter", "handler"};
const std::vector<std::string> kVictims = {"master", "handler"};
constexpr absl::Duration kCallMax = absl::Seconds(60);
// A killed handler may have had so many events out, or ended and not committed.
constexpr uint64_t kOutMax = 600;

class RedriveKillTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::vector<std::string> short_leases = {"--lease_ttl=1s", "--lease_renew_every=200ms"};
    platform_ = std::make_unique<Platform>(
        Platform::Options{.bin = BuiltFolder(),
                          .folder = NewFolder("redrive"),
                          .extra_arguments = {{"store", {"--store_lease_ttl=1s"}},
                                              {"emitter", short_leases},
                                              {"handler", short_leases}}});
    const absl::Status status = platform_->Start(kServices);
    ASSERT_TRUE(status.ok()) << status;
    receiver_ = *fixtures::GrpcReceiver::Start({.behaviour = "/fail/1/status/410"}, &receipts_);
    api_ = std::make_unique<ApiClient>(platform_->grpc_address("master"));
  }

  void TearDown() override {
    if (HasFailure()) platform_->ShowLogs(kServices);
  }

  // Calls the master, again while it is down.
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                             Response*),
                                const Request& request) {
    const absl::Time deadline = absl::Now() + kCallMax;
    while (true) {
      Stub stub(NewChannel(platform_->grpc_address("master")));
      grpc::ClientContext context;
      context.set_wait_for_ready(true);
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
      Response response;
      const grpc::Status status = (stub.*method)(&context, request, &response);
      if (status.ok()) return response;
      const bool again = status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                         status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
      if (!again || absl::Now() > deadline) return FromGrpcStatus(status);
      poll(nullptr, 0, 50);
    }
  }

  // It refuses each event once, which is final. A target that fails so many events in another way
  // would count as down.
  v1::Target Target() { return GrpcTo(receiver_->target()); }

  void FailAll(int64_t letters) {
    v1::Schedule schedule;
    schedule.set_cron("0 0 1 1 *");  // fires only when triggered
    schedule.set_event_count(letters / 2);
    schedule.set_payload("{}");
    *schedule.mutable_target() = Target();
    schedule.mutable_retry_policy()->set_max_attempts(1);
    const auto created = api_->CreateSchedule("batch", schedule);
    ASSERT_TRUE(created.ok()) << created.status();
    const auto run = api_->TriggerSchedule("batch", 0, "one");
    ASSERT_TRUE(run.ok()) << run.status();
    run_ = run->name();
    std::vector<v1::Event> events(static_cast<size_t>(letters / 2));
    for (v1::Event& event : events) {
      event.mutable_due_time()->set_seconds(1);
      event.set_payload("one-off");
      *event.mutable_target() = Target();
      event.mutable_retry_policy()->set_max_attempts(1);
    }
    ASSERT_TRUE(api_->CreateEvents(events).ok());
    ASSERT_TRUE(Await([&] { return Letters() == letters; },
                      absl::Seconds(60) + absl::Milliseconds(letters)))
        << Letters();
    ASSERT_EQ(receipts_.Stats().received, static_cast<uint64_t>(letters));
  }
  int64_t Letters() {
    v1::PurgeDeadLettersRequest request;
    request.set_parent("tenants/default");
    const auto counted = Call(&v1::DeadLetterService::Stub::PurgeDeadLetters, request);
    EXPECT_TRUE(counted.ok()) << counted.status();
    return counted.ok() ? counted->purge_count() : -1;
  }
  v1::Operation Get(const std::string& name) {
    v1::GetOperationRequest request;
    request.set_name(name);
    const auto operation = Call(&v1::OperationService::Stub::GetOperation, request);
    EXPECT_TRUE(operation.ok()) << operation.status();
    return operation.ok() ? *operation : v1::Operation();
  }

  fixtures::Receipts receipts_;
  std::unique_ptr<fixtures::GrpcReceiver> receiver_;
  std::unique_ptr<Platform> platform_;
  std::unique_ptr<ApiClient> api_;
  std::string run_;
};

TEST_F(RedriveKillTest, EachEventIsRedrivenOnceAtTheRateAsked) {
  const int64_t letters = absl::GetFlag(FLAGS_letters);
  const double rate = absl::GetFlag(FLAGS_rate);
  const int kills = absl::GetFlag(FLAGS_kills);
  ASSERT_NO_FATAL_FAILURE(FailAll(letters));

  v1::RedriveDeadLettersRequest request;
  request.set_parent("tenants/default");
  request.set_max_per_second(rate);
  request.set_request_id("redrive");
  const auto begun = Call(&v1::DeadLetterService::Stub::RedriveDeadLetters, request);
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_EQ(begun->total_count(), letters);
  const absl::Duration asked = absl::Seconds(static_cast<double>(letters) / rate);
  for (int kill = 0; kill < kills; ++kill) {
    const int64_t at = letters * (kill + 1) / (kills + 1);
    ASSERT_TRUE(
        Await([&] { return Get(begun->name()).done_count() >= at; }, asked + absl::Seconds(60)));
    EXPECT_EQ(Get(begun->name()).state(), v1::Operation::RUNNING) << "killed after the end";
    const std::string& victim = kVictims[static_cast<size_t>(kill) % kVictims.size()];
    platform_->Kill(victim);
    const absl::Status restarted = platform_->Restart(victim);
    ASSERT_TRUE(restarted.ok()) << restarted;
  }
  v1::Operation ended;
  const auto has_ended = [&] {
    ended = Get(begun->name());
    return ended.state() != v1::Operation::RUNNING;
  };
  ASSERT_TRUE(Await(has_ended, asked + absl::Seconds(60)));
  EXPECT_EQ(ended.state(), v1::Operation::SUCCEEDED) << ended.ShortDebugString();
  EXPECT_EQ(ended.done_count(), letters) << ended.ShortDebugString();
  EXPECT_EQ(ended.failed_count(), 0) << ended.ShortDebugString();

  // Each event arrives again, is accepted, and ends.
  const auto n = static_cast<uint64_t>(letters);
  ASSERT_TRUE(Await([&] {
    const fixtures::ReceiptStats stats = receipts_.Stats();
    return stats.accepted - stats.duplicates >= n;
  })) << receipts_.StatsJson();
  EXPECT_TRUE(Await([&] {
    const auto run = api_->GetRun(run_);
    return run.ok() && run->succeeded_count() == letters / 2;
  }));
  EXPECT_EQ(Letters(), 0);
  const auto run = api_->GetRun(run_);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->succeeded_count(), letters / 2) << run->ShortDebugString();
  EXPECT_EQ(run->failed_count(), 0) << run->ShortDebugString();

  const fixtures::ReceiptStats stats = receipts_.Stats();
  EXPECT_EQ(stats.distinct, n);
  EXPECT_EQ(stats.changed, 0u);
  EXPECT_EQ(stats.accepted - stats.duplicates, n);
  EXPECT_LE(stats.duplicates, kOutMax * static_cast<uint64_t>(kills));
  std::map<std::string, std::set<uint32_t>> attempts;
  int64_t first = std::numeric_limits<int64_t>::max();
  int64_t last = 0;
  for (const fixtures::Receipt& receipt : receipts_.List()) {
    attempts[receipt.event_id].insert(receipt.attempt);
    if (receipt.attempt == 1) continue;
    first = std::min(first, receipt.monotonic_micros);
    last = std::max(last, receipt.monotonic_micros);
  }
  for (const auto& [event, numbers] : attempts)
    ASSERT_EQ(numbers, (std::set<uint32_t>{1, 2})) << event;

  // From the first redriven event to the last. The work of a dead process waits for its restart.
  const absl::Duration took = absl::Microseconds(last - first);
  EXPECT_GE(took, asked * 0.99);
  EXPECT_LE(took, asked * 1.02 + absl::Seconds(5) * kills);
  std::cerr << absl::StrFormat(
      "%d dead letters redriven in %.2f s (asked %.2f s, %.0f/s) over %d kills; %d arrivals "
      "repeated\n",
      letters, absl::ToDoubleSeconds(took), absl::ToDoubleSeconds(asked), rate, kills,
      stats.duplicates);
}

}  // namespace redrive_kill_test
}  // namespace escapement::integration

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  absl::ParseCommandLine(argc, argv);
  return RUN_ALL_TESTS();
}
