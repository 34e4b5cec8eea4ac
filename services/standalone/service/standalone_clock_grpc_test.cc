// A standalone process whose machine's wall clock is set: the effects for a user and an operator.

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/http/http_server.h"
#include "common/metrics/metrics.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_server.h"
#include "common/rpc/rpc_table_grpc.h"
#include "common/rpc/status_conversion.h"
#include "common/runtime/system_runtime.h"
#include "common/status/errors.h"
#include "escapement/v1/schedule_service.grpc.pb.h"
#include "escapement/v1/store_service.grpc.pb.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "services/standalone/service/standalone_process.h"

ABSL_DECLARE_FLAG(std::string, data_dir);

namespace escapement::standalone {
namespace standalone_clock_grpc_test {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

constexpr absl::Duration kPatience = absl::Seconds(60);

class SettableClock final : public Clock {
 public:
  explicit SettableClock(Clock& machine) : machine_(machine) {}
  absl::Duration Elapsed() const override { return machine_.Elapsed(); }
  absl::Time WallNow() const override {
    return machine_.WallNow() + absl::Microseconds(ahead_micros_.load());
  }
  bool WallIsSynchronised() const override { return synchronised_.load(); }
  std::string BootId() const override { return machine_.BootId(); }

  // From now on the wall clock is wrong by this.
  void SetAhead(absl::Duration ahead) { ahead_micros_ = absl::ToInt64Microseconds(ahead); }
  void SetSynchronised(bool synchronised) { synchronised_ = synchronised; }

 private:
  Clock& machine_;
  std::atomic<int64_t> ahead_micros_{0};
  std::atomic<bool> synchronised_{false};
};

class SettableRuntime final : public Runtime {
 public:
  Clock& clock() override { return clock_; }
  SettableClock& settable() { return clock_; }
  Random& random() override { return machine_.random(); }
  std::shared_ptr<Executor> NewExecutor(std::string name) override {
    return machine_.NewExecutor(std::move(name));
  }

 private:
  SystemRuntime machine_;
  SettableClock clock_{machine_.clock()};
};

// Accepts every event, and records how late it was by the wall clock of the platform's machine.
class Consumer {
 public:
  explicit Consumer(Clock& clock) : clock_(clock), server_(HttpServer::Options()) {
    server_.RouteSync("POST", "/hit", [this](const HttpRequest& request) {
      Note(request);
      return HttpResponse();
    });
    EXPECT_TRUE(server_.Start().ok());
  }
  std::string uri() const { return absl::StrCat("http://", server_.address(), "/hit"); }

  // Waits for two events that fell due after `since` and were on time by the wall clock.
  bool AwaitOnTime(absl::Time since) {
    absl::MutexLock lock(&mu_);
    const auto arrived = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      int on_time = 0;
      for (const auto& [due, late] : arrivals_) {
        if (due > since && absl::AbsDuration(late) < absl::Milliseconds(900)) ++on_time;
      }
      return on_time >= 2;
    };
    return mu_.AwaitWithTimeout(absl::Condition(&arrived), kPatience);
  }
  // The number of events that arrived a second time.
  int doubled() const {
    absl::MutexLock lock(&mu_);
    return doubled_;
  }

 private:
  void Note(const HttpRequest& request) {
    const absl::Time now = clock_.WallNow();
    absl::Time due;
    std::string error;
    EXPECT_TRUE(absl::ParseTime(absl::RFC3339_full, request.Header("ce-time"), &due, &error))
        << error;
    absl::MutexLock lock(&mu_);
    arrivals_.emplace_back(due, now - due);
    if (!ids_.insert(std::string(request.Header("ce-id"))).second) ++doubled_;
  }

  Clock& clock_;
  mutable absl::Mutex mu_;
  std::vector<std::pair<absl::Time, absl::Duration>> arrivals_ ABSL_GUARDED_BY(mu_);
  std::set<std::string> ids_ ABSL_GUARDED_BY(mu_);
  int doubled_ ABSL_GUARDED_BY(mu_) = 0;
  HttpServer server_;
};

class StandaloneClockTest : public ::testing::Test {
 protected:
  StandaloneClockTest() {
    absl::SetFlag(&FLAGS_data_dir,
                  absl::StrCat(::testing::TempDir(), "/",
                               ::testing::UnitTest::GetInstance()->current_test_info()->name()));
    auto service = Make({.runtime = runtime_,
                         .metrics = metrics_,
                         .instance = "standalone",
                         .dead_instances = {},
                         .drain_timeout = absl::Seconds(15),
                         .on_loopback = true});
    EXPECT_TRUE(service.ok()) << service.status();
    service_ = *std::move(service);
    service_->AddRpcs(rpcs_);
    auto server = GrpcServer::Start({}, rpcs_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    EXPECT_TRUE(service_->Start().ok());
    channel_ = NewChannel(server_->address());
    AwaitReady(true);
    CreateSchedule();
  }
  ~StandaloneClockTest() override {
    absl::Notification drained;
    service_->Drain([&] { drained.Notify(); });
    drained.WaitForNotification();
    server_->Shutdown(absl::Seconds(1));
    service_.reset();
  }

  // Asks for readiness again and again, as a load balancer does.
  void AwaitReady(bool ready) {
    const absl::Duration end = runtime_.clock().Elapsed() + kPatience;
    absl::Notification never;
    while (service_->Ready() != ready && runtime_.clock().Elapsed() < end)
      never.WaitForNotificationWithTimeout(absl::Milliseconds(50));
    EXPECT_EQ(service_->Ready(), ready) << service_->NotReadyReason();
  }

  // Creates a schedule that fires every second.
  void CreateSchedule() {
    v1::CreateScheduleRequest request;
    request.set_parent("tenants/default");
    request.set_schedule_id("tick");
    request.mutable_schedule()->set_cron("* * * * * *");
    request.mutable_schedule()->mutable_target()->mutable_http()->set_uri(consumer_.uri());
    // Occurrences that a step has skipped do not fire late, so the arriving events are due now.
    request.mutable_schedule()->mutable_misfire_policy()->set_action(v1::MisfirePolicy::SKIP);
    v1::Schedule created;
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    const grpc::Status status =
        v1::ScheduleService::NewStub(channel_)->CreateSchedule(&context, request, &created);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

  v1::StoreClock GetClock() {
    v1::StoreClock clock;
    grpc::ClientContext context;
    const grpc::Status status =
        v1::StoreService::NewStub(channel_)->GetClock(&context, v1::GetClockRequest(), &clock);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return clock;
  }
  absl::Status ConfirmClock(int64_t disagreement_seconds, v1::StoreClock* clock) {
    v1::ConfirmClockRequest request;
    request.mutable_disagreement()->set_seconds(disagreement_seconds);
    grpc::ClientContext context;
    return FromGrpcStatus(
        v1::StoreService::NewStub(channel_)->ConfirmClock(&context, request, clock));
  }

  SettableRuntime runtime_;
  Metrics metrics_;
  Consumer consumer_{runtime_.clock()};
  std::unique_ptr<HostedService> service_;
  RpcTable rpcs_;
  std::unique_ptr<GrpcServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(StandaloneClockTest, StepOfTwoSecondsIsFollowedForwardAndBack) {
  ASSERT_TRUE(consumer_.AwaitOnTime(runtime_.clock().WallNow()));
  runtime_.settable().SetAhead(absl::Seconds(2));
  ASSERT_TRUE(consumer_.AwaitOnTime(runtime_.clock().WallNow()));
  EXPECT_TRUE(service_->Ready()) << service_->NotReadyReason();
  runtime_.settable().SetAhead(absl::ZeroDuration());
  // By now store time, which was ahead, has waited for the wall clock.
  ASSERT_TRUE(consumer_.AwaitOnTime(runtime_.clock().WallNow() + absl::Seconds(2)));
  EXPECT_TRUE(service_->Ready()) << service_->NotReadyReason();
  EXPECT_EQ(consumer_.doubled(), 0);
}

TEST_F(StandaloneClockTest, StepOfTwoHoursHoldsUntilItIsConfirmed) {
  ASSERT_TRUE(consumer_.AwaitOnTime(runtime_.clock().WallNow()));
  runtime_.settable().SetAhead(absl::Hours(2));
  const absl::Time stepped = runtime_.clock().WallNow();
  AwaitReady(false);
  const HttpResponse readyz = AnswerReadyz(service_->Ready(), *service_);
  EXPECT_EQ(readyz.status, 503);
  EXPECT_THAT(readyz.body, MatchesRegex("clock: held for 1[0-9] s, wall clock 2 h ahead\n"));
  const std::string metrics = metrics_.Serialize();
  EXPECT_THAT(metrics, HasSubstr("\nescapement_store_clock_hold 1\n"));
  EXPECT_THAT(metrics, HasSubstr("\nescapement_emitter_clock_hold 1\n"));
  v1::StoreClock clock = GetClock();
  EXPECT_TRUE(clock.held());
  EXPECT_GE(clock.held_for().seconds(), 10);
  EXPECT_NEAR(static_cast<double>(clock.disagreement().seconds()), 7200, 1);
  EXPECT_FALSE(clock.synchronised());
  EXPECT_EQ(clock.hosts(), 0) << "its own processes are no evidence";
  EXPECT_EQ(ErrorReason(ConfirmClock(3600, &clock)), "CLOCK_CHANGED");
  EXPECT_TRUE(GetClock().held());
  ASSERT_TRUE(ConfirmClock(7200, &clock).ok());
  EXPECT_FALSE(clock.held());
  AwaitReady(true);
  EXPECT_EQ(AnswerReadyz(service_->Ready(), *service_).status, 200);
  ASSERT_TRUE(consumer_.AwaitOnTime(stepped));
  EXPECT_EQ(consumer_.doubled(), 0);
}

TEST_F(StandaloneClockTest, StepOfTwoHoursIsFollowedIfTheKernelSaysSynchronised) {
  ASSERT_TRUE(consumer_.AwaitOnTime(runtime_.clock().WallNow()));
  runtime_.settable().SetSynchronised(true);
  runtime_.settable().SetAhead(absl::Hours(2));
  ASSERT_TRUE(consumer_.AwaitOnTime(runtime_.clock().WallNow()));
  EXPECT_TRUE(service_->Ready()) << service_->NotReadyReason();
  EXPECT_EQ(consumer_.doubled(), 0);
}

}  // namespace standalone_clock_grpc_test
}  // namespace escapement::standalone
