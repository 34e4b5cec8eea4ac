// Answers of 1 GiB and headers of 100 MiB, over HTTP and HTTPS and by a queue of SQS: the handler
// reads a bounded part, its memory stays bounded, and other targets are served in the meantime.

#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/tls/testing/test_certificates.h"
#include "gtest/gtest.h"
#include "tests/bench/figures/machine.h"
#include "tests/fixtures/hostile/hostile_server.h"
#include "tests/fixtures/http_receiver.h"
#include "tests/fixtures/process/child_process.h"
#include "tests/fixtures/receipts.h"
#include "tests/integration/api_client.h"
#include "tests/integration/platform.h"

namespace escapement::integration {
namespace hostile_answers_test {

using fixtures::HostileServer;
using Answer = HostileServer::Answer;

// Each server gets fewer events than it takes for a target to count as down. All together are as
// many as one target may have out.
constexpr int kServers = 4;
constexpr int kEventsEach = 16;
constexpr int kEvents = kServers * kEventsEach;
// For a connection: what the handler reads, and what waits in the sockets of both sides.
constexpr uint64_t kWrittenMax = 16 << 20;
// For all attempts together. libcurl keeps up to 300 KiB of the headers of each, in small pieces.
// One unbounded answer alone has more.
constexpr uint64_t kMemoryMoreMax = kEvents * (uint64_t{2} << 20);

enum class Over { kHttp, kHttps, kSqs };

class HostileAnswersTest : public ::testing::TestWithParam<std::tuple<Answer, Over>> {
 protected:
  void SetUp() override {
    signal(SIGPIPE, SIG_IGN);  // OpenSSL writes without MSG_NOSIGNAL
    const auto& [answer, over] = GetParam();
    const testing::Identity identity = ca_.Issue(1);
    for (int i = 0; i < kServers; ++i) {
      servers_.push_back(over == Over::kHttps
                             ? std::make_unique<HostileServer>(
                                   answer, HostileServer::Identity{identity.cert, identity.key})
                             : std::make_unique<HostileServer>(answer));
    }
    const absl::Status status = platform_.Start({"store", "master", "handler"});
    ASSERT_TRUE(status.ok()) << status;
    api_ = std::make_unique<ApiClient>(platform_.grpc_address("master"));
  }

  v1::Target Hostile(const HostileServer& server) const {
    const Over over = std::get<1>(GetParam());
    const std::string place = absl::StrCat("://localhost:", server.port(), "/");
    if (over == Over::kSqs) {
      v1::Target target;
      target.mutable_sqs()->set_queue_url(absl::StrCat("http", place, "1/queue"));
      target.mutable_sqs()->set_region("r");
      target.mutable_sqs()->set_credentials("id:secret");
      return target;
    }
    v1::Target target = HttpTo(absl::StrCat(over == Over::kHttps ? "https" : "http", place));
    if (over == Over::kHttps) target.mutable_http()->mutable_tls()->set_ca_certificates(ca_.pem());
    return target;
  }

  // Events {id}{first} and so on.
  void Create(const v1::Target& target, const std::string& id, int first, int count) {
    std::vector<v1::Event> events(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      v1::Event& event = events[static_cast<size_t>(i)];
      *event.mutable_due_time() = ToTimestamp(absl::Now());
      event.set_event_id(absl::StrCat(id, first + i));
      event.set_payload("{}");
      event.mutable_delivery_timeout()->set_seconds(20);
      event.mutable_retry_policy()->set_max_attempts(1);
      *event.mutable_target() = target;
    }
    for (const v1::Event& event : events) {
      const auto created = api_->CreateEvent(event.event_id(), event);
      ASSERT_TRUE(created.ok()) << created.status();
    }
  }

  // Bytes of memory, at the most so far and now.
  uint64_t HandlerPeak() const {
    return bench::ProcValue(absl::StrCat("/proc/", platform_.pid("handler"), "/status"), "VmHWM") *
           1024;
  }
  uint64_t HandlerThreads() const {
    return bench::ProcValue(absl::StrCat("/proc/", platform_.pid("handler"), "/status"), "Threads");
  }

  const testing::TestCa ca_;
  const std::string folder_ = NewFolder("hostile");
  fixtures::Receipts receipts_;
  std::unique_ptr<fixtures::HttpReceiver> healthy_ = *fixtures::HttpReceiver::Start({}, &receipts_);
  std::vector<std::unique_ptr<HostileServer>> servers_;
  Platform platform_{{.bin = BuiltFolder(), .folder = folder_}};
  std::unique_ptr<ApiClient> api_;
};

TEST_P(HostileAnswersTest, HoldNoThreadAndBoundedMemory) {
  const Answer answer = std::get<0>(GetParam());
  const bool sqs = std::get<1>(GetParam()) == Over::kSqs;
  // The process has grown to what usual work needs.
  Create(HttpTo(healthy_->origin() + "/warm"), "warm-", 0, 100);
  ASSERT_TRUE(Await([&] { return receipts_.Stats().distinct == 100; }));
  const uint64_t threads = HandlerThreads();
  const uint64_t memory = HandlerPeak();

  for (int i = 0; i < kServers; ++i) {
    ASSERT_NO_FATAL_FAILURE(Create(Hostile(*servers_[static_cast<size_t>(i)]), "hostile-",
                                   i * kEventsEach, kEventsEach));
  }
  Create(HttpTo(healthy_->origin() + "/beside"), "beside-", 0, 50);
  ASSERT_TRUE(Await([&] { return receipts_.Stats().distinct == 150; }));
  std::string seen;
  for (int i = 0; i < kEvents; ++i) {
    v1::Event event;
    ASSERT_TRUE(Await([&] {
      const auto got = api_->GetEvent(absl::StrCat("tenants/default/events/hostile-", i));
      if (got.ok()) event = *got;
      return event.state() == v1::ENDED;
    })) << event.ShortDebugString();
    // The status is known before a body. An answer of SQS must be whole.
    const bool body = !sqs && (answer == Answer::kGiantBody || answer == Answer::kEndlessBody);
    EXPECT_EQ(event.outcome(), body ? v1::SUCCEEDED : v1::FAILED) << event.ShortDebugString();
    seen = event.reason();
  }
  uint64_t connections = 0, most_written = 0;
  for (const auto& server : servers_) {
    EXPECT_TRUE(Await([&] { return server->open() == 0; })) << server->open() << " are open";
    connections += server->connections();
    most_written = std::max(most_written, server->most_written());
  }
  EXPECT_GE(connections, static_cast<uint64_t>(sqs ? kEvents / 10 : kEvents));
  EXPECT_LE(most_written, kWrittenMax);
  EXPECT_LE(HandlerPeak(), memory + kMemoryMoreMax);
  // A look-up of a name has a thread for a moment.
  EXPECT_TRUE(Await([&] { return HandlerThreads() <= threads; })) << HandlerThreads();
  std::cerr << "memory more: " << (HandlerPeak() - memory) / 1024
            << " KiB; most written: " << most_written / 1024 << " KiB; " << seen << "\n";
}

std::string NameOf(const ::testing::TestParamInfo<std::tuple<Answer, Over>>& info) {
  const auto name = [](Answer answer) {
    switch (answer) {
      case Answer::kGiantBody:
        return "GiantBody";
      case Answer::kEndlessBody:
        return "EndlessBody";
      case Answer::kGiantHeader:
        return "GiantHeader";
      case Answer::kManyHeaders:
        return "ManyHeaders";
      case Answer::kEndless1xx:
        return "Endless1xx";
      default:
        return "Other";
    }
  };
  constexpr const char* kOver[] = {"OverHttp", "OverHttps", "BySqs"};
  return absl::StrCat(name(std::get<0>(info.param)),
                      kOver[static_cast<size_t>(std::get<1>(info.param))]);
}

INSTANTIATE_TEST_SUITE_P(
    Answers, HostileAnswersTest,
    ::testing::Combine(::testing::Values(Answer::kGiantBody, Answer::kEndlessBody,
                                         Answer::kGiantHeader, Answer::kManyHeaders,
                                         Answer::kEndless1xx),
                       ::testing::Values(Over::kHttp, Over::kHttps, Over::kSqs)),
    NameOf);

}  // namespace hostile_answers_test
}  // namespace escapement::integration
