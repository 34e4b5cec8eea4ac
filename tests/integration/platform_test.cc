// The whole way with real processes: schedules and events go through the public API to an HTTP and
// a gRPC consumer, while each process is killed in turn.

#include "tests/integration/platform.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/grpc_receiver.h"
#include "tests/fixtures/http_receiver.h"
#include "tests/fixtures/process/child_process.h"
#include "tests/fixtures/receipts.h"
#include "tests/integration/api_client.h"
#include "tests/integration/probes.h"

namespace escapement::integration {
namespace platform_test {

using fixtures::GrpcReceiver;
using fixtures::HttpReceiver;
using fixtures::Receipt;
using ::testing::ElementsAre;
using ::testing::Pair;

constexpr char kEvents[] = "/tenants/default/events";
const std::vector<std::string> kServices = {"store", "master", "emitter", "handler"};

std::string Source(const std::string& schedule) {
  return absl::StrCat("/tenants/default/schedules/", schedule);
}

class PlatformTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = NewFolder("platform");
    // Leases are short, so a killed process is soon replaced.
    platform_ = std::make_unique<Platform>(Platform::Options{
        .bin = BuiltFolder(),
        .folder = folder_,
        .extra_arguments = {
            {"store", {"--store_lease_ttl=1s"}},
            {"emitter", {"--lease_ttl=1s", "--lease_renew_every=200ms"}},
            {"handler", {"--lease_ttl=1s", "--lease_renew_every=200ms"}},
            {"standalone",
             {"--store_lease_ttl=1s", "--lease_ttl=1s", "--lease_renew_every=200ms"}}}});
    http_ = *HttpReceiver::Start({}, &receipts_);
    grpc_ = *GrpcReceiver::Start({}, &receipts_);
  }

  void TearDown() override {
    if (HasFailure()) platform_->ShowLogs({"store", "master", "emitter", "handler", "standalone"});
  }

  void Start(const std::vector<std::string>& services, const std::string& front) {
    const absl::Status status = platform_->Start(services);
    ASSERT_TRUE(status.ok()) << status;
    api_ = std::make_unique<ApiClient>(platform_->grpc_address(front));
  }

  v1::Schedule Definition(const std::string& cron, v1::Target target, int64_t event_count) {
    v1::Schedule schedule;
    schedule.set_cron(cron);
    schedule.set_event_count(event_count);
    schedule.set_payload("{}");
    *schedule.mutable_target() = std::move(target);
    schedule.mutable_delivery_timeout()->set_seconds(1);
    schedule.mutable_retry_policy()->set_max_attempts(50);
    schedule.mutable_retry_policy()->mutable_max_backoff()->set_seconds(1);
    // Retries an event until it gets through, although the next second is near.
    schedule.mutable_retry_policy()->set_keep(true);
    return schedule;
  }

  // Makes `count` events, `gap` apart, from a second from now on, by HTTP and gRPC in turn. Returns
  // their instants.
  std::set<int64_t> CreateEvents(int count, absl::Duration gap) {
    std::set<int64_t> instants;
    std::vector<v1::Event> events;
    const int64_t first = absl::ToUnixMicros(absl::Now() + absl::Seconds(1));
    for (int i = 0; i < count; ++i) {
      const int64_t micros = first + i * absl::ToInt64Microseconds(gap);
      instants.insert(micros);
      v1::Event event;
      event.mutable_due_time()->set_seconds(micros / 1'000'000);
      event.mutable_due_time()->set_nanos(static_cast<int32_t>(micros % 1'000'000 * 1000));
      event.set_payload(absl::StrCat(i));
      event.mutable_delivery_timeout()->set_seconds(1);
      event.mutable_retry_policy()->set_max_attempts(50);
      event.mutable_retry_policy()->mutable_max_backoff()->set_seconds(1);
      *event.mutable_target() =
          i % 2 == 0 ? HttpTo(http_->origin() + "/event") : GrpcTo(grpc_->target());
      events.push_back(std::move(event));
    }
    const absl::Status status = api_->CreateEvents(events);
    EXPECT_TRUE(status.ok()) << status;
    return instants;
  }

  bool AwaitDistinct(const std::string& prefix, uint64_t count) {
    return Await([&] { return receipts_.Stats(prefix).distinct >= count; });
  }

  // Expects one id for each launch instant, one body for each id, and no early event.
  void ExpectInstants(const std::string& prefix, const std::set<int64_t>& instants) {
    const fixtures::ReceiptStats stats = receipts_.Stats(prefix);
    EXPECT_EQ(stats.early, 0u);
    EXPECT_EQ(stats.changed, 0u);
    std::map<int64_t, std::set<std::string>> ids;
    for (const Receipt& receipt : receipts_.List(prefix))
      ids[receipt.launch_micros].insert(receipt.event_id);
    std::set<int64_t> arrived;
    for (const auto& [instant, of_instant] : ids) {
      arrived.insert(instant);
      EXPECT_EQ(of_instant.size(), 1u) << "at " << instant;
    }
    EXPECT_EQ(arrived, instants);
  }

  // By the platform's own record, every run of the schedule up to the instant is complete, and all
  // its `n` events succeeded. Returns the number of these runs.
  size_t ExpectRunsComplete(const std::string& schedule, int64_t up_to_micros, int64_t n) {
    std::vector<v1::Run> runs;
    EXPECT_TRUE(Await([&] {
      auto listed = api_->ListRuns(schedule);
      if (!listed.ok()) return false;
      runs.clear();
      for (const v1::Run& run : *listed) {
        if (run.nominal_time().seconds() * 1'000'000 <= up_to_micros) runs.push_back(run);
      }
      return !runs.empty() && std::all_of(runs.begin(), runs.end(), [](const v1::Run& run) {
        return run.state() == v1::Run::COMPLETED;
      });
    })) << schedule
        << " has " << runs.size() << " runs";
    for (const v1::Run& run : runs) {
      EXPECT_EQ(run.succeeded_count(), n) << run.ShortDebugString();
      EXPECT_EQ(run.failed_count() + run.skipped_count() + run.cancelled_count(), 0)
          << run.ShortDebugString();
    }
    return runs.size();
  }

  std::string folder_;
  fixtures::Receipts receipts_;
  std::unique_ptr<HttpReceiver> http_;
  std::unique_ptr<GrpcReceiver> grpc_;
  std::unique_ptr<Platform> platform_;
  std::unique_ptr<ApiClient> api_;
};

TEST_F(PlatformTest, DeliversEverythingOnceWithoutFaults) {
  ASSERT_NO_FATAL_FAILURE(Start(kServices, "master"));
  ASSERT_TRUE(
      api_->CreateSchedule("ticks", Definition("* * * * * *", HttpTo(http_->origin() + "/tick"), 1))
          .ok());
  ASSERT_TRUE(
      api_->CreateSchedule("batch", Definition("0 0 1 1 *", GrpcTo(grpc_->target()), 5000)).ok());
  const auto run = api_->TriggerSchedule("batch", 0, "first");
  ASSERT_TRUE(run.ok()) << run.status();
  const auto again = api_->TriggerSchedule("batch", 0, "first");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(run->name(), again->name());
  const std::set<int64_t> instants = CreateEvents(100, absl::Milliseconds(7));

  EXPECT_TRUE(AwaitDistinct(kEvents, instants.size()));
  EXPECT_TRUE(AwaitDistinct(Source("batch"), 5000));
  EXPECT_TRUE(AwaitDistinct(Source("ticks"), 3));
  ExpectInstants(kEvents, instants);
  EXPECT_EQ(ExpectRunsComplete("batch", absl::ToUnixMicros(absl::Now()), 5000), 1u);
  const fixtures::ReceiptStats all = receipts_.Stats();
  EXPECT_EQ(all.duplicates, 0u);
  EXPECT_EQ(all.received, all.distinct);
  EXPECT_EQ(all.early, 0u);
}

TEST_F(PlatformTest, LosesNothingWhenEachProcessIsKilledInTurn) {
  ASSERT_NO_FATAL_FAILURE(Start(kServices, "master"));
  ASSERT_TRUE(
      api_->CreateSchedule("ticks", Definition("* * * * * *", GrpcTo(grpc_->target()), 20)).ok());
  const std::set<int64_t> instants = CreateEvents(400, absl::Milliseconds(10));
  uint64_t seen = 0;
  for (const std::string service : {"handler", "emitter", "store", "master"}) {
    // Events are arriving, also since the last kill.
    EXPECT_TRUE(AwaitDistinct("", seen + 20));
    platform_->Kill(service);
    seen = receipts_.Stats().distinct;
    const absl::Status status = platform_->Restart(service);
    ASSERT_TRUE(status.ok()) << status;
  }
  EXPECT_TRUE(AwaitDistinct(kEvents, instants.size()));
  ExpectInstants(kEvents, instants);

  // Every second from the first on is there with all its events, in the consumer's notes and in the
  // platform's record.
  EXPECT_TRUE(AwaitDistinct(Source("ticks"), 100));
  const std::vector<Receipt> seen_ticks = receipts_.List(Source("ticks"));
  ASSERT_FALSE(seen_ticks.empty());
  int64_t first = seen_ticks[0].launch_micros;
  int64_t last = first;
  for (const Receipt& receipt : seen_ticks) {
    first = std::min(first, receipt.launch_micros);
    last = std::max(last, receipt.launch_micros);
  }
  EXPECT_EQ(ExpectRunsComplete("ticks", last, 20),
            static_cast<size_t>((last - first) / 1'000'000 + 1));
  std::map<int64_t, std::set<std::string>> ids;
  for (const Receipt& receipt : receipts_.List(Source("ticks")))
    ids[receipt.launch_micros].insert(receipt.event_id);
  for (int64_t second = first; second <= last; second += 1'000'000) {
    EXPECT_EQ(ids[second].size(), 20u) << "at " << second;
  }
  EXPECT_EQ(receipts_.Stats(Source("ticks")).changed, 0u);
  EXPECT_EQ(receipts_.Stats(Source("ticks")).early, 0u);
}

TEST_F(PlatformTest, StopsAndGoesOnWithoutLossOrRepetition) {
  ASSERT_NO_FATAL_FAILURE(Start(kServices, "master"));
  const std::set<int64_t> instants = CreateEvents(300, absl::Milliseconds(10));
  EXPECT_TRUE(AwaitDistinct(kEvents, 20));
  for (const std::string service : {"handler", "emitter", "master", "store"}) {
    const auto exit_code = platform_->Terminate(service);
    ASSERT_TRUE(exit_code.ok()) << service << ": " << exit_code.status();
    EXPECT_EQ(*exit_code, 0) << service;
  }
  for (const std::string& service : kServices) {
    const absl::Status status = platform_->Restart(service);
    ASSERT_TRUE(status.ok()) << status;
  }
  EXPECT_TRUE(AwaitDistinct(kEvents, instants.size()));
  ExpectInstants(kEvents, instants);
  // An orderly drain leaves no claims, so nothing is sent again.
  EXPECT_EQ(receipts_.Stats(kEvents).duplicates, 0u);
}

TEST_F(PlatformTest, SixteenOfTheLargestPayloadsAreOneBatchAndAreDelivered) {
  ASSERT_NO_FATAL_FAILURE(Start({"store", "master", "handler"}, "master"));
  std::vector<v1::Event> events(16);
  for (v1::Event& event : events) {
    *event.mutable_due_time() = ToTimestamp(absl::Now());
    event.set_payload(std::string(262'144, 'x'));
    *event.mutable_target() = HttpTo(http_->origin() + "/event");
  }
  const absl::Status created = api_->CreateEvents(events);
  ASSERT_TRUE(created.ok()) << created;
  EXPECT_TRUE(AwaitDistinct(kEvents, events.size()));
}

// W3C Trace Context: a consumer's span continues the trace of the call that made the event.
TEST_F(PlatformTest, ConsumersGetTheTraceOfTheCallThatMadeTheEvent) {
  ASSERT_NO_FATAL_FAILURE(Start({"standalone"}, "standalone"));
  http_ = *HttpReceiver::Start({.kept_requests_max = 100}, &receipts_);
  const std::string trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const auto create = [&](const std::string& path, const std::string& parent, const char* to) {
    const auto answer = HttpSend(
        platform_->http_address("standalone"),
        {.method = "POST",
         .path = "/v1/tenants/default/" + path,
         .headers = {{"traceparent", parent}},
         .body = absl::StrCat(R"({"target":{"http":{"uri":")", http_->origin(), to, R"("}}})")});
    EXPECT_TRUE(answer.ok() && answer->status == 200) << to << ": " << answer.status();
  };
  create("events", trace, "/created");
  create("events:ingest", trace, "/ingested");
  create("events", trace + "-more", "/malformed");
  create("events", "00-00000000000000000000000000000000-b7ad6b7169203331-01", "/zero");
  // The line with the method, and the trace.
  const auto arrived = [&] {
    std::map<std::string, std::string> traces;
    for (const auto& [head, body] : http_->KeptRequests()) {
      std::string& trace = traces[head.substr(0, head.find(" HTTP/"))];
      for (const absl::string_view line : absl::StrSplit(head, "\r\n")) {
        absl::string_view value = line;
        if (absl::ConsumePrefix(&value, "traceparent: ")) trace = std::string(value);
      }
    }
    return traces;
  };
  EXPECT_TRUE(Await([&] { return arrived().size() == 4; }));
  EXPECT_THAT(arrived(), ElementsAre(Pair("POST /created", trace), Pair("POST /ingested", trace),
                                     Pair("POST /malformed", ""), Pair("POST /zero", "")));
}

TEST_F(PlatformTest, StandaloneDoesTheSameInOneProcess) {
  ASSERT_NO_FATAL_FAILURE(Start({"standalone"}, "standalone"));
  ASSERT_TRUE(
      api_->CreateSchedule("ticks", Definition("* * * * * *", HttpTo(http_->origin() + "/tick"), 3))
          .ok());
  const std::set<int64_t> instants = CreateEvents(100, absl::Milliseconds(10));
  EXPECT_TRUE(AwaitDistinct("", 20));
  platform_->Kill("standalone");
  const absl::Status status = platform_->Restart("standalone");
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(AwaitDistinct(kEvents, instants.size()));
  ExpectInstants(kEvents, instants);
  EXPECT_TRUE(AwaitDistinct(Source("ticks"), 6));
  const auto exit_code = platform_->Terminate("standalone");
  ASSERT_TRUE(exit_code.ok()) << exit_code.status();
  EXPECT_EQ(*exit_code, 0);
}

}  // namespace platform_test
}  // namespace escapement::integration
