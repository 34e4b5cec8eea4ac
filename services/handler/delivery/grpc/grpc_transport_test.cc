#include "services/handler/delivery/grpc/grpc_transport.h"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/net/name_resolver.h"
#include "escapement/v1/trigger_receiver_service.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/handler/delivery/grpc/lane.h"
#include "tests/fixtures/attempts.h"
#include "tests/fixtures/collecting_sink.h"
#include "tests/fixtures/grpc_receiver.h"
#include "tests/fixtures/raw_call.h"

namespace escapement::handler {
namespace grpc_transport_test {

using fixtures::AttemptOptions;
using fixtures::CollectingSink;
using fixtures::GrpcReceiver;
using fixtures::MakeAttempts;
using fixtures::OnLoopback;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class GrpcTransportTest : public ::testing::Test {
 protected:
  GrpcTransportTest() : receiver_(*GrpcReceiver::Start({}, &receipts_)) {}

  // Sends one attempt and waits for its result.
  DeliveryResult SendOne(absl::string_view behaviour, absl::Duration timeout = absl::Seconds(30)) {
    receiver_->SetBehaviour(behaviour);
    const uint64_t tag = next_tag_++;
    transport_->Send(MakeAttempts({.uri = receiver_->target(), .timeout = timeout}, tag, 1), sink_);
    EXPECT_TRUE(sink_->Await(++sent_));
    return sink_->Only(tag);
  }

  fixtures::Receipts receipts_;
  std::unique_ptr<GrpcReceiver> receiver_;
  std::shared_ptr<CollectingSink> sink_ = std::make_shared<CollectingSink>();
  std::unique_ptr<GrpcTransport> transport_ =
      std::make_unique<GrpcTransport>(OnLoopback<GrpcTransport>(
          {.reconnect_min = absl::Milliseconds(1), .reconnect_max = absl::Milliseconds(50)}));
  uint64_t next_tag_ = 1;
  size_t sent_ = 0;
};

TEST(GrpcTransportMessageTest, EncodedBytesParseAsTheSameDelivery) {
  DeliveryEncoder encoder;
  std::string bytes;
  for (const uint64_t run_count : {9, 1, 8}) {
    const std::vector<DeliveryAttempt> attempts =
        MakeAttempts({.uri = "host:1",
                      .payload = absl::StrCat("hello ", run_count),
                      .launch_time = absl::FromUnixMicros(-1),
                      .run_count = run_count,
                      .trace_parent = absl::StrCat("trace ", run_count)},
                     300, 2);
    for (uint64_t i : {0, 1}) {
      encoder.Encode(attempts[i], 1000 + i, &bytes);
      v1::Delivery delivery;
      ASSERT_TRUE(delivery.ParseFromString(bytes));
      EXPECT_EQ(delivery.delivery_number(), 1000 + i);
      EXPECT_EQ(delivery.event_id(), attempts[i].event_id);
      EXPECT_EQ(delivery.source(), "/tenants/default/schedules/nightly");
      EXPECT_EQ(delivery.nominal_time().seconds(), -1);
      EXPECT_EQ(delivery.launch_time().nanos(), 999'999'000);
      EXPECT_EQ(delivery.occurrence(), "2026-03-01T00:00:00Z");
      EXPECT_EQ(delivery.index(), static_cast<int64_t>(300 + i));
      EXPECT_EQ(delivery.count(), static_cast<int64_t>(run_count));
      EXPECT_EQ(delivery.attempt(), 1);
      EXPECT_EQ(delivery.payload(), absl::StrCat("hello ", run_count));
      EXPECT_EQ(delivery.content_type(), "application/json");
      EXPECT_EQ(delivery.trace_parent(), absl::StrCat("trace ", run_count));
      EXPECT_EQ(delivery.ByteSizeLong(), bytes.size()) << "unknown fields";
    }
  }
}

TEST_F(GrpcTransportTest, EachStatusGivesTheResultOfTheContract) {
  EXPECT_EQ(SendOne("").status, DeliveryStatus::kAccepted);
  const DeliveryResult failed = SendOne("/status/500/retryafter/7");
  EXPECT_EQ(failed.status, DeliveryStatus::kFailed);
  EXPECT_EQ(failed.message, "status 500");
  EXPECT_EQ(failed.retry_after, absl::Seconds(7));
  EXPECT_EQ(SendOne("/status/410").status, DeliveryStatus::kRejected);
  EXPECT_EQ(receiver_->streams(), 1u) << "the stream is kept";
}

TEST_F(GrpcTransportTest, HangingReceiverTimesOutAndTheStreamIsKept) {
  const DeliveryResult result = SendOne("/hang", absl::Milliseconds(30));
  EXPECT_EQ(result.status, DeliveryStatus::kUnknown);
  EXPECT_THAT(result.message, HasSubstr("timed out"));
  EXPECT_EQ(SendOne("").status, DeliveryStatus::kAccepted);
  EXPECT_EQ(receiver_->streams(), 1u);
}

TEST_F(GrpcTransportTest, SilentStreamIsReplaced) {
  transport_ = std::make_unique<GrpcTransport>(OnLoopback<GrpcTransport>(
      {.reconnect_min = absl::Milliseconds(1), .silence_max = absl::Milliseconds(50)}));
  receiver_->SetBehaviour("/hang");
  const auto send = [&](uint64_t tag, absl::Duration timeout) {
    transport_->Send(MakeAttempts({.uri = receiver_->target(), .timeout = timeout}, tag, 1), sink_);
  };
  // An attempt that may take much longer is not cut off.
  send(1, absl::Milliseconds(300));
  send(2, absl::Milliseconds(60));
  ASSERT_TRUE(sink_->Await(1));
  EXPECT_EQ(sink_->Only(2).status, DeliveryStatus::kUnknown);
  EXPECT_EQ(receiver_->streams(), 1u);
  ASSERT_TRUE(sink_->Await(2));
  EXPECT_THAT(sink_->Only(1).message, HasSubstr("timed out"));
  sent_ = 2;
  next_tag_ = 3;
  EXPECT_EQ(SendOne("").status, DeliveryStatus::kAccepted);
  EXPECT_EQ(receiver_->streams(), 2u);
}

TEST_F(GrpcTransportTest, UnansweredAttemptsOfABrokenStreamAreUnknown) {
  receiver_->SetBehaviour("/hang");
  transport_->Send(MakeAttempts({.uri = receiver_->target()}, 101, 5), sink_);
  receiver_->AwaitDeliveries(5);
  receiver_->BreakStreams();
  ASSERT_TRUE(sink_->Await(5));
  for (uint64_t tag = 101; tag <= 105; ++tag)
    EXPECT_EQ(sink_->Only(tag).status, DeliveryStatus::kUnknown);
  EXPECT_THAT(sink_->Only(101).message, HasSubstr("the stream broke"));
  EXPECT_NE(sink_->Only(101).status_code, 0);
  sent_ = 5;
  EXPECT_EQ(SendOne("").status, DeliveryStatus::kAccepted);
  EXPECT_EQ(receiver_->streams(), 2u);
}

TEST_F(GrpcTransportTest, ClosedPortGetsNothingAndFailsAllAttempts) {
  const std::string target = receiver_->target();
  receiver_.reset();
  transport_->Send(MakeAttempts({.uri = target}, 1, 50), sink_);
  ASSERT_TRUE(sink_->Await(50));
  for (uint64_t tag = 1; tag <= 50; ++tag) {
    EXPECT_EQ(sink_->Only(tag).status, DeliveryStatus::kFailed) << sink_->Only(tag).message;
    EXPECT_TRUE(sink_->Only(tag).not_sent);
  }
}

// The receiver listens and does not answer, as if it had no processor for a while. connect_timeout
// must bound the wait, not the shorter pause between reconnects.
TEST_F(GrpcTransportTest, SlowConnectMayTakeTheTimeoutOfTheAttempts) {
  const auto silent = fixtures::ListenOn("127.0.0.1", 0);
  ASSERT_TRUE(silent.ok()) << silent.status();
  transport_->Send(MakeAttempts({.uri = absl::StrCat("127.0.0.1:", silent->port),
                                 .timeout = absl::Milliseconds(400)},
                                1, 2),
                   sink_);
  ASSERT_TRUE(sink_->Await(2));
  for (uint64_t tag : {1, 2}) EXPECT_THAT(sink_->Only(tag).message, StartsWith("timed out"));
  transport_.reset();
  close(silent->fd);
}

TEST_F(GrpcTransportTest, IdleStreamClosesAndReopensWhenNeeded) {
  transport_ = std::make_unique<GrpcTransport>(
      OnLoopback<GrpcTransport>({.idle_timeout = absl::Milliseconds(20)}));
  EXPECT_EQ(SendOne("").status, DeliveryStatus::kAccepted);
  receiver_->AwaitNoStream();
  EXPECT_EQ(SendOne("").status, DeliveryStatus::kAccepted);
  EXPECT_EQ(receiver_->streams(), 2u);
}

TEST_F(GrpcTransportTest, TenThousandDeliveriesArriveOnceEach) {
  constexpr uint64_t kCount = 10'000;
  transport_ =
      std::make_unique<GrpcTransport>(OnLoopback<GrpcTransport>({.streams_per_target = 2}));
  for (uint64_t first = 1; first <= kCount; first += 500) {
    transport_->Send(
        MakeAttempts({.uri = receiver_->target(), .payload = std::string(500, 'p')}, first, 500),
        sink_);
  }
  ASSERT_TRUE(sink_->Await(kCount));
  EXPECT_EQ(sink_->count(), kCount);
  for (const auto& [tag, results] : sink_->results()) {
    ASSERT_EQ(results.size(), 1u);
    ASSERT_EQ(results[0].status, DeliveryStatus::kAccepted) << results[0].message;
  }
  const fixtures::ReceiptStats stats = receipts_.Stats();
  EXPECT_EQ(stats.received, kCount);
  EXPECT_EQ(stats.distinct, kCount);
  EXPECT_EQ(receiver_->streams(), 2u);
}

TEST_F(GrpcTransportTest, UnwrittenAttemptsOfABrokenStreamGoToTheNext) {
  EXPECT_EQ(SendOne("").status, DeliveryStatus::kAccepted);
  // The receiver breaks each stream at its first delivery. If the stream had worked before, only
  // written attempts are lost.
  receiver_->SetBehaviour("/hang");
  transport_->Send(MakeAttempts({.uri = receiver_->target()}, 100, 1), sink_);
  receiver_->AwaitDeliveries(2);
  receiver_->BreakStreams();
  receiver_->SetBehaviour("");
  ASSERT_TRUE(sink_->Await(2));
  transport_->Send(MakeAttempts({.uri = receiver_->target()}, 200, 100), sink_);
  ASSERT_TRUE(sink_->Await(102));
  EXPECT_EQ(sink_->Only(100).status, DeliveryStatus::kUnknown);
  for (uint64_t tag = 200; tag < 300; ++tag)
    EXPECT_EQ(sink_->Only(tag).status, DeliveryStatus::kAccepted);
}

TEST_F(GrpcTransportTest, DestructorAnswersOutstandingAttempts) {
  receiver_->SetBehaviour("/hang");
  transport_->Send(MakeAttempts({.uri = receiver_->target()}, 1, 3), sink_);
  receiver_->AwaitDeliveries(3);
  transport_.reset();
  EXPECT_EQ(sink_->count(), 3u);
  for (uint64_t tag : {1, 2, 3}) EXPECT_EQ(sink_->Only(tag).status, DeliveryStatus::kUnknown);
}

TEST_F(GrpcTransportTest, ConnectsOnlyToAllowedAddresses) {
  const std::string port = receiver_->target().substr(receiver_->target().rfind(':'));
  GrpcTransport strict{GrpcTransport::Options{}};
  for (const std::string host : {"127.0.0.1", "localhost", "dns:///localhost", "ipv6:[::1]"}) {
    const uint64_t tag = next_tag_++;
    strict.Send(MakeAttempts({.uri = host + port}, tag, 1), sink_);
    ASSERT_TRUE(sink_->Await(++sent_));
    EXPECT_EQ(sink_->Only(tag).status, DeliveryStatus::kFailed) << host;
    EXPECT_EQ(sink_->Only(tag).message, "the address of the target is not allowed") << host;
  }
  EXPECT_EQ(receipts_.Stats().received, 0u);
}

TEST_F(GrpcTransportTest, DeliversToANameAndSendsIt) {
  const std::string port = receiver_->target().substr(receiver_->target().rfind(':'));
  transport_->Send(MakeAttempts({.uri = "dns:///localhost" + port}, 1, 1), sink_);
  ASSERT_TRUE(sink_->Await(1));
  EXPECT_EQ(sink_->Only(1).status, DeliveryStatus::kAccepted) << sink_->Only(1).message;
}

// Answers what the test says, on a thread of its own as the real one does.
class ChangingNames final : public NameResolver {
 public:
  explicit ChangingNames(std::vector<Answer> answers) : answers_(std::move(answers)) {}
  ~ChangingNames() override {
    for (std::thread& thread : threads_) thread.join();
  }
  void Resolve(std::string, std::function<void(Answer)> done) override {
    absl::MutexLock lock(&mutex_);
    const Answer answer = answers_[std::min(asked_++, answers_.size() - 1)];
    threads_.emplace_back([done = std::move(done), answer] { done(answer); });
  }
  size_t asked() {
    absl::MutexLock lock(&mutex_);
    return asked_;
  }

 private:
  absl::Mutex mutex_;
  const std::vector<Answer> answers_;
  size_t asked_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

// An event every now and then keeps a stream in use.
TEST_F(GrpcTransportTest, OldChannelCarriesNoFurtherAttempt) {
  using Answer = NameResolver::Answer;
  ChangingNames names(std::vector<Answer>{Answer({"127.0.0.1"})});
  GrpcTransport transport(
      OnLoopback<GrpcTransport>({.connection_age_max = absl::ZeroDuration(), .resolver = &names}));
  const std::string uri =
      "receiver.test" + receiver_->target().substr(receiver_->target().rfind(':'));
  receiver_->SetBehaviour("/hang");
  transport.Send(MakeAttempts({.uri = uri, .timeout = absl::Seconds(1)}, 1, 1), sink_);
  receiver_->AwaitDeliveries(1);
  receiver_->SetBehaviour("");
  for (uint64_t tag = 2; tag <= 3; ++tag) {
    transport.Send(MakeAttempts({.uri = uri}, tag, 1), sink_);
    ASSERT_TRUE(sink_->Await(tag - 1));
    EXPECT_EQ(sink_->Only(tag).status, DeliveryStatus::kAccepted) << sink_->Only(tag).message;
    EXPECT_EQ(names.asked(), tag);
    EXPECT_EQ(receiver_->streams(), tag);
  }
  // The attempt on the first stream keeps its timeout.
  ASSERT_TRUE(sink_->Await(3));
  EXPECT_EQ(sink_->Only(1).message, "timed out without an answer");
}

// The address that was checked is the one that is connected to, so an answer that changes in
// between has no effect; and each new connection is checked again.
TEST_F(GrpcTransportTest, ANameThatChangesItsAddressIsCheckedForEachConnection) {
  using Answer = NameResolver::Answer;
  ChangingNames names(std::vector<Answer>{Answer({"10.0.0.1", "127.0.0.1"}), Answer({"10.0.0.1"}),
                                          absl::UnavailableError("no answer")});
  GrpcTransport transport(OnLoopback<GrpcTransport>({.reconnect_min = absl::Milliseconds(1),
                                                     .reconnect_max = absl::Milliseconds(1),
                                                     .resolver = &names}));
  const std::string uri =
      "receiver.test" + receiver_->target().substr(receiver_->target().rfind(':'));
  const auto send = [&](uint64_t tag) {
    transport.Send(MakeAttempts({.uri = uri, .timeout = absl::Seconds(5)}, tag, 1), sink_);
    EXPECT_TRUE(sink_->Await(tag));
    return sink_->Only(tag);
  };
  EXPECT_EQ(send(1).message, "");
  EXPECT_EQ(names.asked(), 1u);
  receiver_->SetBehaviour("/reset");
  EXPECT_EQ(send(2).status, DeliveryStatus::kUnknown);
  // The next ones may still meet the stream that ends.
  uint64_t tag = 3;
  DeliveryResult next = send(tag);
  while (absl::StrContains(next.message, "stream broke")) next = send(++tag);
  EXPECT_EQ(next.message, "the address of the target is not allowed");
  EXPECT_EQ(send(tag + 1).message, "no answer");
  EXPECT_GE(names.asked(), 3u);
}

}  // namespace grpc_transport_test
}  // namespace escapement::handler
