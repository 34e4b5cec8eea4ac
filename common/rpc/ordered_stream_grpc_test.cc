// OrderedStream over gRPC on loopback. The messages are those of TokenService, each answered with
// as many results as its release has tokens, when the test says so.

#include "common/rpc/ordered_stream_grpc.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_server.h"
#include "common/rpc/rpc_table_grpc.h"
#include "common/status/errors.h"
#include "escapement/v1/token_service.grpc.pb.h"
#include "gtest/gtest.h"

namespace escapement {
namespace ordered_stream_grpc_test {

using Request = v1::StreamTokensRequest;
using Response = v1::StreamTokensResponse;
using Stream = OrderedStream<Response>;
using WhenFull = Stream::Options::WhenFull;

constexpr size_t kUnansweredMax = 3;

// The messages that a stream has taken, each with a way to answer it.
class TakenMessages {
 public:
  struct Message {
    int tokens = 0;
    std::function<void(absl::StatusOr<Response>)> answer;
    std::function<void(const absl::Status&)> end_now;
  };

  void Add(Message message) {
    absl::MutexLock lock(&mutex_);
    messages_.push_back(std::move(message));
  }
  void AwaitCount(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto reached = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return messages_.size() >= count;
    };
    mutex_.Await(absl::Condition(&reached));
  }
  size_t count() {
    absl::MutexLock lock(&mutex_);
    return messages_.size();
  }
  Message message(size_t place) {
    absl::MutexLock lock(&mutex_);
    return messages_[place];
  }
  void Answer(size_t place) {
    const Message taken = message(place);
    Response response;
    for (int i = 0; i < taken.tokens; ++i) response.add_results();
    taken.answer(std::move(response));
  }
  // Lets the streams end: each message keeps its stream alive.
  void Clear() {
    absl::MutexLock lock(&mutex_);
    messages_.clear();
  }

 private:
  absl::Mutex mutex_;
  std::deque<Message> messages_ ABSL_GUARDED_BY(mutex_);
};

class TestStream final : public Stream {
 public:
  TestStream(Options options, TakenMessages& taken)
      : OrderedStream(std::move(options)), taken_(taken) {}

 private:
  absl::Status Take(grpc::ByteBuffer& bytes, uint64_t place) override {
    Request request;
    RETURN_IF_ERROR(ReadMessage(bytes, &request));
    if (!request.has_release()) return absl::InvalidArgumentError("no release");
    const auto stream = std::static_pointer_cast<TestStream>(self());
    taken_.Add({.tokens = request.release().tokens_size(),
                .answer =
                    [stream, place](absl::StatusOr<Response> response) {
                      stream->Answer(place, std::move(response));
                    },
                .end_now = [stream](const absl::Status& status) { stream->EndNow(status); }});
    return absl::OkStatus();
  }

  TakenMessages& taken_;
};

class OrderedStreamTest : public ::testing::Test {
 protected:
  void StartServer(Stream::Options options) {
    rpcs_.AddStream("escapement.v1.TokenService.StreamTokens", [this, options](AdmittedCall) {
      return Stream::Start(std::make_shared<TestStream>(options, taken_));
    });
    auto server = GrpcServer::Start(GrpcServer::Options(), rpcs_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ = v1::TokenService::NewStub(NewChannel(server_->address(), ChannelOptions()));
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
    stream_ = stub_->StreamTokens(&context_);
  }
  void TearDown() override { taken_.Clear(); }

  void Write(int tokens) {
    Request request;
    request.mutable_release();
    for (int i = 0; i < tokens; ++i) request.mutable_release()->add_tokens("token");
    ASSERT_TRUE(stream_->Write(request));
  }
  // The results of the next answer; -1 at the end of the stream.
  int Read() {
    Response response;
    return stream_->Read(&response) ? response.results_size() : -1;
  }

  TakenMessages taken_;
  RpcTable rpcs_;
  std::unique_ptr<GrpcServer> server_;
  std::unique_ptr<v1::TokenService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<Request, Response>> stream_;
};

TEST_F(OrderedStreamTest, AnswersKeepTheOrderOfTheirMessages) {
  StartServer({.unanswered_max = kUnansweredMax, .join_answers = true});
  for (int tokens = 1; tokens <= 3; ++tokens) Write(tokens);
  taken_.AwaitCount(3);
  for (size_t message : {2, 1, 0}) taken_.Answer(message);
  for (int tokens = 1; tokens <= 3; ++tokens) EXPECT_EQ(Read(), tokens);
  Write(4);
  ASSERT_TRUE(stream_->WritesDone());
  taken_.AwaitCount(4);
  taken_.Answer(3);
  EXPECT_EQ(Read(), 4);
  EXPECT_EQ(Read(), -1);
  EXPECT_TRUE(stream_->Finish().ok());
}

TEST_F(OrderedStreamTest, FullStreamReadsOnOnlyAfterAnAnswer) {
  StartServer({.unanswered_max = kUnansweredMax});
  for (int tokens = 1; tokens <= 20; ++tokens) Write(tokens);
  for (size_t message = 0; message < 20; ++message) {
    taken_.AwaitCount(message + 1);
    EXPECT_LE(taken_.count(), message + kUnansweredMax);
    taken_.Answer(message);
    EXPECT_EQ(Read(), static_cast<int>(message) + 1);
  }
}

TEST_F(OrderedStreamTest, FullStreamThatRefusesEndsWithItsStatus) {
  StartServer({.unanswered_max = kUnansweredMax,
               .when_full = WhenFull::kEndStream,
               .too_many = absl::ResourceExhaustedError("too many")});
  for (size_t message = 0; message <= kUnansweredMax; ++message) Write(1);
  EXPECT_EQ(Read(), -1);
  EXPECT_EQ(stream_->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(taken_.count(), kUnansweredMax);
}

TEST_F(OrderedStreamTest, ErrorEndsTheStreamAfterTheAnswersBeforeIt) {
  StartServer({.unanswered_max = kUnansweredMax});
  for (int tokens = 1; tokens <= 3; ++tokens) Write(tokens);
  taken_.AwaitCount(3);
  taken_.message(1).answer(absl::AbortedError("second"));
  taken_.Answer(2);
  taken_.Answer(0);
  EXPECT_EQ(Read(), 1);
  EXPECT_EQ(Read(), -1);
  EXPECT_EQ(stream_->Finish().error_message(), "second");
}

TEST_F(OrderedStreamTest, EndNowDoesNotWaitForEarlierAnswers) {
  StartServer({.unanswered_max = kUnansweredMax});
  Write(1);
  Write(2);
  taken_.AwaitCount(2);
  taken_.message(1).end_now(absl::UnavailableError("no store"));
  EXPECT_EQ(Read(), -1);
  EXPECT_EQ(stream_->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  taken_.Answer(0);  // harmless
}

TEST_F(OrderedStreamTest, UnreadableMessageEndsTheStreamAfterEarlierAnswers) {
  StartServer({.unanswered_max = kUnansweredMax});
  Write(1);
  Request unreadable;
  unreadable.mutable_release()->add_tokens("\xff");  // not UTF-8
  ASSERT_TRUE(stream_->Write(unreadable));
  taken_.AwaitCount(1);
  taken_.Answer(0);
  EXPECT_EQ(Read(), 1);
  EXPECT_EQ(Read(), -1);
  EXPECT_EQ(ErrorReason(FromGrpcStatus(stream_->Finish())), "UNREADABLE_MESSAGE");
  EXPECT_EQ(taken_.count(), 1u);
}

TEST_F(OrderedStreamTest, MessageThatTakeRefusesEndsTheStream) {
  StartServer({.unanswered_max = kUnansweredMax});
  ASSERT_TRUE(stream_->Write(Request()));
  EXPECT_EQ(Read(), -1);
  EXPECT_EQ(stream_->Finish().error_message(), "no release");
}

TEST_F(OrderedStreamTest, StoppingServerDoesNotWaitForAnswers) {
  StartServer({.unanswered_max = kUnansweredMax});
  Write(1);
  taken_.AwaitCount(1);
  server_->Shutdown(absl::ZeroDuration());
  EXPECT_FALSE(stream_->Finish().ok());
  taken_.Answer(0);  // harmless
}

}  // namespace ordered_stream_grpc_test
}  // namespace escapement
