// TokenService over gRPC on loopback, over an API that answers when the test wants it.

#include "common/tokens/token_grpc.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/rpc/call_gate.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_server.h"
#include "common/rpc/rpc_table_grpc.h"
#include "common/rpc/status_conversion.h"
#include "common/status/errors.h"
#include "common/tokens/token_door.h"
#include "escapement/v1/token_service.grpc.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement {
namespace token_grpc_test {

using ::testing::ElementsAre;
using Result = v1::TokenResult;

// Keeps calls until the test ends them. Each answer has as many results as there were tokens, all
// with one status.
class HeldTokens final : public TokenApi {
 public:
  void CompleteTokens(const v1::CompleteTokensRequest& request,
                      Done<v1::CompleteTokensResponse> done) override {
    Keep("complete", request.completions_size(), std::move(done));
  }
  void ReleaseTokens(const v1::ReleaseTokensRequest& request,
                     Done<v1::ReleaseTokensResponse> done) override {
    Keep("release", request.tokens_size(), std::move(done));
  }
  void ExtendTokens(const v1::ExtendTokensRequest& request,
                    Done<v1::ExtendTokensResponse> done) override {
    Keep("extend", request.tokens_size(), std::move(done));
  }

  // Waits until `calls` calls have arrived in total.
  void Await(size_t calls) {
    absl::MutexLock lock(&mutex_);
    const auto came = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return calls_.size() >= calls; };
    mutex_.Await(absl::Condition(&came));
  }
  void Answer(size_t call, absl::StatusOr<Result::Status> answer) {
    absl::AnyInvocable<void(absl::StatusOr<Result::Status>)> end;
    {
      absl::MutexLock lock(&mutex_);
      end = std::move(calls_[call].end);
    }
    end(std::move(answer));
  }
  std::string method(size_t call) {
    absl::MutexLock lock(&mutex_);
    return calls_[call].method;
  }
  size_t calls() {
    absl::MutexLock lock(&mutex_);
    return calls_.size();
  }

 private:
  struct Call {
    std::string method;
    absl::AnyInvocable<void(absl::StatusOr<Result::Status>)> end;
  };

  template <typename Response>
  void Keep(std::string method, int tokens, Done<Response> done) {
    absl::MutexLock lock(&mutex_);
    calls_.push_back({std::move(method), [tokens, done = std::move(done)](
                                             absl::StatusOr<Result::Status> answer) mutable {
                        if (!answer.ok()) return done(answer.status());
                        auto response = std::make_unique<Response>();
                        for (int i = 0; i < tokens; ++i)
                          response->add_results()->set_status(*answer);
                        done(std::move(response));
                      }});
  }

  absl::Mutex mutex_;
  std::deque<Call> calls_ ABSL_GUARDED_BY(mutex_);
};

class TokenGrpcTest : public ::testing::Test {
 protected:
  void SetUp() override {
    AddTokenRpcs(tokens_, rpcs_);
    auto server = GrpcServer::Start(GrpcServer::Options(), rpcs_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    // No pings: a ping would flush the buffer whose flushing is tested.
    ChannelOptions options;
    options.keepalive = absl::Hours(1);
    stub_ = v1::TokenService::NewStub(NewChannel(server_->address(), options));
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
  }

  static v1::StreamTokensRequest Releasing(int tokens) {
    v1::StreamTokensRequest request;
    for (int i = 0; i < tokens; ++i) request.mutable_release()->add_tokens("token");
    return request;
  }
  static std::vector<Result::Status> Read(
      grpc::ClientReaderWriter<v1::StreamTokensRequest, v1::StreamTokensResponse>& stream) {
    v1::StreamTokensResponse response;
    EXPECT_TRUE(stream.Read(&response));
    std::vector<Result::Status> results;
    for (const Result& result : response.results()) results.push_back(result.status());
    return results;
  }

  HeldTokens tokens_;
  RpcTable rpcs_;
  std::unique_ptr<GrpcServer> server_;
  std::unique_ptr<v1::TokenService::Stub> stub_;
  grpc::ClientContext context_;
};

TEST_F(TokenGrpcTest, UnaryCallsAreAnsweredWithTheirResultsOrTheirError) {
  v1::ExtendTokensRequest request;
  request.add_tokens("a");
  request.add_tokens("b");
  v1::ExtendTokensResponse response;
  absl::Mutex mutex;
  int ended = 0;
  grpc::Status statuses[2];
  const auto call = [&](grpc::ClientContext* context, int i) {
    stub_->async()->ExtendTokens(context, &request, &response, [&, i](grpc::Status status) {
      absl::MutexLock lock(&mutex);
      statuses[i] = std::move(status);
      ++ended;
    });
    tokens_.Await(i + 1);
  };
  const auto await = [&](int count) {
    absl::MutexLock lock(&mutex);
    const auto all = [&] { return ended == count; };
    mutex.Await(absl::Condition(&all));
  };
  call(&context_, 0);
  tokens_.Answer(0, Result::DONE);
  await(1);
  EXPECT_TRUE(statuses[0].ok());
  ASSERT_EQ(response.results_size(), 2);
  EXPECT_EQ(response.results(1).status(), Result::DONE);

  grpc::ClientContext second;
  call(&second, 1);
  tokens_.Answer(1, InvalidField("hold", "wrong"));
  await(2);
  EXPECT_THAT(FieldViolationsOf(FromGrpcStatus(statuses[1])),
              ElementsAre(::testing::Pair("hold", "wrong")));
}

// The client has default settings.
TEST_F(TokenGrpcTest, CompletionsWithTheLargestOutputsAreAccepted) {
  const auto stub = v1::TokenService::NewStub(
      grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  v1::StreamTokensRequest request;
  for (size_t bytes = 0; bytes < kTokenOutputsBytesMax + kTokenOutputBytesMax;
       bytes += kTokenOutputBytesMax) {
    v1::TokenCompletion* completion = request.mutable_complete()->add_completions();
    completion->set_token(std::string(80, 't'));
    completion->set_output(std::string(kTokenOutputBytesMax, 'o'));
  }
  auto stream = stub->StreamTokens(&context_);
  ASSERT_TRUE(stream->Write(request));
  tokens_.Await(1);
  tokens_.Answer(0, Result::DONE);
  EXPECT_EQ(Read(*stream).size(), 2049u);
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(TokenGrpcTest, StreamAnswersInTheOrderOfItsMessages) {
  auto stream = stub_->StreamTokens(&context_);
  v1::StreamTokensRequest request;
  request.mutable_complete()->add_completions();
  ASSERT_TRUE(stream->Write(request));
  ASSERT_TRUE(stream->Write(Releasing(2)));
  request.mutable_extend()->add_tokens("token");
  ASSERT_TRUE(stream->Write(request));
  tokens_.Await(3);
  EXPECT_EQ(tokens_.method(0), "complete");
  EXPECT_EQ(tokens_.method(1), "release");
  EXPECT_EQ(tokens_.method(2), "extend");
  tokens_.Answer(2, Result::STORED);
  tokens_.Answer(1, Result::DONE);
  tokens_.Answer(0, Result::NOT_HELD);
  EXPECT_THAT(Read(*stream), ElementsAre(Result::NOT_HELD));
  EXPECT_THAT(Read(*stream), ElementsAre(Result::DONE, Result::DONE));
  EXPECT_THAT(Read(*stream), ElementsAre(Result::STORED));
  // Further messages and the end of the messages are answered too.
  ASSERT_TRUE(stream->Write(Releasing(1)));
  ASSERT_TRUE(stream->WritesDone());
  tokens_.Await(4);
  tokens_.Answer(3, Result::DONE);
  EXPECT_THAT(Read(*stream), ElementsAre(Result::DONE));
  v1::StreamTokensResponse none;
  EXPECT_FALSE(stream->Read(&none));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(TokenGrpcTest, AnErrorEndsTheStreamAfterTheAnswersBeforeIt) {
  auto stream = stub_->StreamTokens(&context_);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(stream->Write(Releasing(1)));
  tokens_.Await(3);
  tokens_.Answer(1, absl::UnavailableError("no store"));
  tokens_.Answer(2, Result::DONE);
  tokens_.Answer(0, Result::DONE);
  EXPECT_THAT(Read(*stream), ElementsAre(Result::DONE));
  v1::StreamTokensResponse none;
  EXPECT_FALSE(stream->Read(&none));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "no store");
}

TEST_F(TokenGrpcTest, AMessageWithoutABatchIsRefused) {
  auto stream = stub_->StreamTokens(&context_);
  ASSERT_TRUE(stream->Write({}));
  v1::StreamTokensResponse none;
  EXPECT_FALSE(stream->Read(&none));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(TokenGrpcTest, AnUnreadableMessageEndsTheStreamAsInvalid) {
  auto stream = stub_->StreamTokens(&context_);
  ASSERT_TRUE(stream->Write(Releasing(1)));
  v1::StreamTokensRequest unreadable;
  unreadable.mutable_release()->add_tokens("\xff");  // not UTF-8
  ASSERT_TRUE(stream->Write(unreadable));
  tokens_.Await(1);
  tokens_.Answer(0, Result::DONE);
  EXPECT_THAT(Read(*stream), ElementsAre(Result::DONE));
  v1::StreamTokensResponse none;
  EXPECT_FALSE(stream->Read(&none));
  const absl::Status status = FromGrpcStatus(stream->Finish());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(ErrorReason(status), "UNREADABLE_MESSAGE");
  EXPECT_EQ(tokens_.calls(), 1u);
}

TEST_F(TokenGrpcTest, SixtyFifthUnansweredMessageEndsTheStream) {
  auto stream = stub_->StreamTokens(&context_);
  size_t sent = 0;
  for (; sent < kTokenStreamUnansweredMax; ++sent) ASSERT_TRUE(stream->Write(Releasing(1)));
  tokens_.Await(sent);
  // Any number of messages is accepted, as long as at most 64 are unanswered.
  for (size_t answered = 0; answered < 200; ++answered) {
    tokens_.Answer(answered, Result::DONE);
    ASSERT_THAT(Read(*stream), ElementsAre(Result::DONE));
    ASSERT_TRUE(stream->Write(Releasing(1)));
    tokens_.Await(++sent);
  }
  ASSERT_TRUE(stream->Write(Releasing(1)));
  v1::StreamTokensResponse none;
  EXPECT_FALSE(stream->Read(&none));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(tokens_.calls(), sent);
}

v1::StreamTokensRequest Overriding(const std::string& tenant) {
  v1::StreamTokensRequest request;
  request.mutable_override()->set_name("tenants/" + tenant + "/policies/p");
  request.mutable_override()->set_request_id("r");
  return request;
}

TEST_F(TokenGrpcTest, OverrideIsUnimplementedWhereNoMasterTakesIt) {
  auto stream = stub_->StreamTokens(&context_);
  ASSERT_TRUE(stream->Write(Releasing(1)));
  ASSERT_TRUE(stream->Write(Overriding("a")));
  tokens_.Await(1);
  tokens_.Answer(0, Result::DONE);
  EXPECT_THAT(Read(*stream), ElementsAre(Result::DONE));
  v1::StreamTokensResponse none;
  EXPECT_FALSE(stream->Read(&none));
  const absl::Status status = FromGrpcStatus(stream->Finish());
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  EXPECT_EQ(ErrorReason(status), "NEEDS_MASTER");
}

// Refuses requests for tenant "b", and keeps what it is asked and told.
class NotingGate final : public CallGate {
 public:
  absl::StatusOr<std::shared_ptr<const Caller>> Admit(const MethodAccess&,
                                                      const CallHead&) override {
    return std::make_shared<const Caller>(Caller{"consumer", v1::Access::OPERATOR, "a"});
  }
  absl::Status CheckRequest(const MethodAccess& method, const Caller&, const std::string& resource,
                            const google::protobuf::Message&) override {
    Note(absl::StrCat("check ", method.name(), " ", resource));
    return TenantOf(resource) == "b" ? absl::NotFoundError("not yours") : absl::OkStatus();
  }
  void OnAnswered(const MethodAccess& method, const Caller& caller, const std::string& resource,
                  const std::string& request_id, const absl::Status& status) override {
    Note(absl::StrCat("audit ", method.name(), " ", resource, " ", request_id, " ",
                      caller.principal, " ", absl::StatusCodeToString(status.code())));
  }
  std::vector<std::string> notes() {
    absl::MutexLock lock(&mutex_);
    return notes_;
  }

 private:
  void Note(std::string note) {
    absl::MutexLock lock(&mutex_);
    notes_.push_back(std::move(note));
  }

  absl::Mutex mutex_;
  std::vector<std::string> notes_ ABSL_GUARDED_BY(mutex_);
};

// As a master: keeps the callers of overrides and answers them at once.
class OverridingTokens final : public TokenApi {
 public:
  void CompleteTokens(const v1::CompleteTokensRequest&,
                      Done<v1::CompleteTokensResponse> done) override {
    done(absl::InternalError("not called"));
  }
  void ReleaseTokens(const v1::ReleaseTokensRequest&,
                     Done<v1::ReleaseTokensResponse> done) override {
    done(absl::InternalError("not called"));
  }
  void ExtendTokens(const v1::ExtendTokensRequest&, Done<v1::ExtendTokensResponse> done) override {
    done(absl::InternalError("not called"));
  }
  void OverridePolicy(v1::OverridePolicyRequest request,
                      ::escapement::Done<v1::ThrottlePolicy> done) override {
    overridden.push_back(absl::StrCat(request.name(), " by ", done.caller()->principal));
    if (overridden.size() > 1) return done(absl::FailedPreconditionError("too many"));
    done(v1::ThrottlePolicy());
  }

  std::vector<std::string> overridden;  // read after the stream has ended
};

class TokenOverrideTest : public ::testing::Test {
 protected:
  void SetUp() override {
    AddTokenRpcs(tokens_, rpcs_);
    auto server = GrpcServer::Start(GrpcServer::Options(), rpcs_, gate_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ = v1::TokenService::NewStub(NewChannel(server_->address()));
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
  }

  OverridingTokens tokens_;
  NotingGate gate_;
  RpcTable rpcs_;
  std::unique_ptr<GrpcServer> server_;
  std::unique_ptr<v1::TokenService::Stub> stub_;
  grpc::ClientContext context_;
};

TEST_F(TokenOverrideTest, OverridePassesTheGateAsACallOfItsOwn) {
  auto stream = stub_->StreamTokens(&context_);
  v1::StreamTokensResponse response;
  ASSERT_TRUE(stream->Write(Overriding("a")));
  ASSERT_TRUE(stream->Read(&response));
  ASSERT_EQ(response.results_size(), 1);
  EXPECT_EQ(response.results(0).status(), Result::DONE);
  ASSERT_TRUE(stream->Write(Overriding("a")));
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(tokens_.overridden,
              ElementsAre("tenants/a/policies/p by consumer", "tenants/a/policies/p by consumer"));
  EXPECT_THAT(gate_.notes(),
              ElementsAre("check StreamTokens ", "check OverridePolicy tenants/a/policies/p",
                          "audit OverridePolicy tenants/a/policies/p r consumer OK",
                          "check StreamTokens ", "check OverridePolicy tenants/a/policies/p",
                          "audit OverridePolicy tenants/a/policies/p r consumer "
                          "FAILED_PRECONDITION"));
}

TEST_F(TokenOverrideTest, OverrideThatTheGateRefusesIsNotMadeAndIsAudited) {
  auto stream = stub_->StreamTokens(&context_);
  ASSERT_TRUE(stream->Write(Overriding("b")));
  v1::StreamTokensResponse none;
  EXPECT_FALSE(stream->Read(&none));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_TRUE(tokens_.overridden.empty());
  EXPECT_THAT(gate_.notes(),
              ElementsAre("check StreamTokens ", "check OverridePolicy tenants/b/policies/p",
                          "audit OverridePolicy tenants/b/policies/p r consumer NOT_FOUND"));
}

TEST_F(TokenGrpcTest, StoppingServerDoesNotWaitAndIgnoresLateAnswers) {
  auto stream = stub_->StreamTokens(&context_);
  ASSERT_TRUE(stream->Write(Releasing(1)));
  ASSERT_TRUE(stream->Write(Releasing(1)));
  tokens_.Await(2);
  server_->Shutdown(absl::ZeroDuration());
  EXPECT_FALSE(stream->Finish().ok());
  tokens_.Answer(1, Result::DONE);
  tokens_.Answer(0, absl::UnavailableError("late"));
}

}  // namespace token_grpc_test
}  // namespace escapement
