// Tests of the client with a fake of S3 that checks signatures and breaks on demand.

#include "common/s3/s3_client.h"

#include <atomic>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "common/s3/s3_address.h"
#include "common/signing/aws_credentials.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/fixtures/s3/s3_server.h"
#include "tests/fixtures/sqs/sqs_server.h"

namespace escapement {
namespace s3_client_test {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;

constexpr char kBucket[] = "backups";
constexpr size_t kPartBytes = 100'000;

json SlowDown() { return {{"error", {503, "SlowDown"}}}; }

class S3ClientTest : public ::testing::Test {
 protected:
  S3Options Options() {
    const auto place = S3PlaceOf(kBucket, "eu-central-1", server_.origin());
    EXPECT_TRUE(place.ok()) << place.status();
    return {.place = *place,
            .environment = fixtures::S3Server::Environment(),
            .part_bytes = kPartBytes,
            .wait = [this](absl::Duration time) { waits_.push_back(time); }};
  }
  std::map<std::string, std::string> Objects() { return server_.Objects(kBucket); }
  static absl::StatusOr<std::string> Read(S3Client& client, const std::string& key) {
    std::string bytes;
    const absl::Status status = client.Get(key, [&bytes](absl::string_view more) {
      bytes.append(more.data(), more.size());
      return absl::OkStatus();
    });
    if (!status.ok()) return status;
    return bytes;
  }
  // Bytes that differ from part to part.
  static std::string Bytes(size_t count) {
    std::string bytes;
    for (size_t i = 0; i < count; ++i) bytes.push_back(static_cast<char>(i * 7 + i / 251));
    return bytes;
  }
  static absl::Status Write(S3Client& client, const std::string& key, const std::string& bytes) {
    S3Writer writer(client, key);
    absl::Status status;
    for (size_t i = 0; i < bytes.size() && status.ok(); i += 33'333)
      status = writer.Add(absl::string_view(bytes).substr(i, 33'333));
    return status.ok() ? writer.Finish() : status;
  }

  fixtures::S3Server server_;
  std::vector<absl::Duration> waits_;
};

TEST_F(S3ClientTest, ObjectsAreReadAsTheyWereWritten) {
  S3Client client(Options());
  const std::vector<std::string> keys = {"a", "a b/\xc3\xbc+&=%?#<>'\"", "d//e/../f", "~._-!*()"};
  for (const std::string& key : keys) EXPECT_EQ(client.Put(key, "to " + key), absl::OkStatus());
  EXPECT_EQ(client.Put("empty", ""), absl::OkStatus());
  EXPECT_THAT(Objects(), SizeIs(keys.size() + 1));
  for (const std::string& key : keys) {
    EXPECT_EQ(Objects()[key], "to " + key);
    const auto read = Read(client, key);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, "to " + key);
    EXPECT_EQ(client.Delete(key), absl::OkStatus());
  }
  EXPECT_EQ(*Read(client, "empty"), "");
  EXPECT_THAT(Objects(), ElementsAre(Pair("empty", "")));
  EXPECT_EQ(client.Delete("a"), absl::OkStatus()) << "there is none";
  EXPECT_EQ(Read(client, "a").status(), absl::NotFoundError("S3: NoSuchKey: a & b"));
  EXPECT_THAT(waits_, IsEmpty());
}

TEST_F(S3ClientTest, BucketMayBeInTheHost) {
  S3Options options = Options();
  options.place = *S3PlaceOf(
      kBucket, "", absl::StrReplaceAll(server_.origin(), {{"127.0.0.1", "{bucket}.localhost"}}));
  S3Client client(options);
  ASSERT_EQ(client.Put("in/host", "x"), absl::OkStatus());
  EXPECT_THAT(Objects(), ElementsAre(Pair("in/host", "x")));
}

TEST_F(S3ClientTest, ListHasAllPages) {
  S3Client client(Options());
  for (const char* key : {"p/1", "p/2&", "p/3 4", "p/\xc3\xbc", "p/z", "q/1"})
    server_.Put(kBucket, key, "12345");
  const auto listed = client.List("p/");
  ASSERT_TRUE(listed.ok()) << listed.status();
  std::vector<std::string> keys;
  for (const S3Object& object : *listed) {
    keys.push_back(object.key);
    EXPECT_EQ(object.bytes, 5u);
  }
  EXPECT_THAT(keys, ElementsAre("p/1", "p/2&", "p/3 4", "p/z", "p/\xc3\xbc"));
  EXPECT_THAT(server_.Requests("ListObjectsV2"), SizeIs(3));
  EXPECT_THAT(*client.List("none"), IsEmpty());
}

TEST_F(S3ClientTest, LargeObjectsAreSentInParts) {
  S3Client client(Options());
  for (const size_t bytes : {size_t{0}, kPartBytes, kPartBytes + 1, 3 * kPartBytes, 250'000ul}) {
    const std::string key = absl::StrCat("of-", bytes);
    ASSERT_EQ(Write(client, key, Bytes(bytes)), absl::OkStatus()) << bytes;
    EXPECT_EQ(Objects()[key], Bytes(bytes)) << bytes;
  }
  EXPECT_THAT(server_.Uploads(kBucket), IsEmpty());
  EXPECT_THAT(server_.Requests("PutObject"), SizeIs(2));
  std::vector<size_t> sizes;
  for (const json& request : server_.Requests("UploadPart")) sizes.push_back(request["body_bytes"]);
  EXPECT_THAT(sizes, ElementsAre(kPartBytes, 1, kPartBytes, kPartBytes, kPartBytes, kPartBytes,
                                 kPartBytes, 50'000));
}

TEST_F(S3ClientTest, UploadThatIsNotFinishedIsAborted) {
  S3Client client(Options());
  {
    S3Writer writer(client, "half");
    ASSERT_EQ(writer.Add(Bytes(kPartBytes + 1)), absl::OkStatus());
    EXPECT_THAT(server_.Uploads(kBucket), ElementsAre("half"));
  }
  EXPECT_THAT(server_.Uploads(kBucket), IsEmpty());
  EXPECT_THAT(Objects(), IsEmpty());
}

TEST_F(S3ClientTest, PartThatIsRefusedEndsTheUpload) {
  S3Client client(Options());
  server_.Script("UploadPart", json::array({json::object(), {{"error", {403, "AccessDenied"}}}}));
  EXPECT_EQ(Write(client, "half", Bytes(3 * kPartBytes)),
            absl::PermissionDeniedError("S3: AccessDenied: a & b"));
  EXPECT_THAT(server_.Uploads(kBucket), IsEmpty());
  EXPECT_THAT(Objects(), IsEmpty());
  EXPECT_THAT(waits_, IsEmpty());
}

TEST_F(S3ClientTest, SlowDownIsTriedAgainAfterLongerTimes) {
  S3Client client(Options());
  server_.Script(
      "PutObject",
      json::array(
          {SlowDown(), {{"error", {500, "InternalError"}}}, {{"status", 502}}, json::object()}));
  EXPECT_EQ(client.Put("a", "x"), absl::OkStatus());
  EXPECT_THAT(waits_, ElementsAre(absl::Milliseconds(500), absl::Seconds(1), absl::Seconds(2)));
}

TEST_F(S3ClientTest, AttemptsAreBounded) {
  S3Client client(Options());
  server_.Script("PutObject", json::array({SlowDown()}));
  EXPECT_EQ(client.Put("a", "x"), absl::UnavailableError("S3: SlowDown: a & b"));
  EXPECT_THAT(server_.Requests("PutObject"), SizeIs(kS3AttemptsMax));
  EXPECT_THAT(waits_, SizeIs(kS3AttemptsMax - 1));
  EXPECT_EQ(waits_.back(), absl::Seconds(16));
}

TEST_F(S3ClientTest, CutConnectionsAreMadeAgain) {
  S3Client client(Options());
  server_.Script(
      "UploadPart",
      json::array(
          {{{"cut", 40'000}}, json::object(), {{"cut", 0}}, {{"lose", true}}, json::object()}));
  ASSERT_EQ(Write(client, "cut", Bytes(250'000)), absl::OkStatus());
  EXPECT_EQ(Objects()["cut"], Bytes(250'000));
  // libcurl itself tries again if a kept connection ends without an answer.
  EXPECT_THAT(server_.Requests("UploadPart"), SizeIs(6));
}

TEST_F(S3ClientTest, SilentServerIsCalledAgain) {
  S3Options options = Options();
  options.silence_max = absl::Seconds(1);
  S3Client client(options);
  server_.Script("PutObject", json::array({{{"hang", true}}, json::object()}));
  EXPECT_EQ(client.Put("a", "x"), absl::OkStatus());
  EXPECT_THAT(waits_, SizeIs(1));
}

TEST_F(S3ClientTest, CompletionWhoseAnswerIsLostHasMadeTheObject) {
  S3Client client(Options());
  server_.Script("CompleteMultipartUpload", json::array({{{"lose", true}}, json::object()}));
  EXPECT_EQ(Write(client, "lost", Bytes(250'000)), absl::OkStatus());
  EXPECT_EQ(Objects()["lost"], Bytes(250'000));
  // Without an object of this size it has not.
  server_.Script("CompleteMultipartUpload", json::array({{{"error", {404, "NoSuchUpload"}}}}));
  EXPECT_TRUE(absl::IsNotFound(Write(client, "lost", Bytes(250'001))));
  EXPECT_EQ(Objects()["lost"], Bytes(250'000));
}

TEST_F(S3ClientTest, CompletionMayFailBehindItsStatus) {
  S3Client client(Options());
  server_.Script("CompleteMultipartUpload",
                 json::array({{{"error", {200, "InternalError"}}}, json::object()}));
  EXPECT_EQ(Write(client, "a", Bytes(250'000)), absl::OkStatus());
  EXPECT_THAT(waits_, SizeIs(1));
  EXPECT_EQ(Objects()["a"], Bytes(250'000));
}

TEST_F(S3ClientTest, LeftUploadsAreFoundAndAborted) {
  S3Client client(Options());
  for (const char* key : {"p/1", "p/1", "p/2 &", "p/3", "q/1"}) server_.BeginUpload(kBucket, key);
  const auto left = client.ListUploads("p/");
  ASSERT_TRUE(left.ok()) << left.status();
  EXPECT_THAT(*left, SizeIs(4));
  for (const S3Upload& upload : *left) EXPECT_EQ(client.AbortUpload(upload), absl::OkStatus());
  EXPECT_THAT(server_.Uploads(kBucket), ElementsAre("q/1"));
  EXPECT_EQ(client.AbortUpload(left->front()), absl::OkStatus()) << "there is none";
}

TEST_F(S3ClientTest, ReadingGoesOnWhereItWasCut) {
  S3Client client(Options());
  ASSERT_EQ(client.Put("a", Bytes(500'000)), absl::OkStatus());
  server_.Script("GetObject", json::array({SlowDown(),
                                           {{"cut_answer", 200'000}},
                                           {{"cut_answer", 1}},
                                           SlowDown(),
                                           json::object()}));
  const auto read = Read(client, "a");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(*read == Bytes(500'000));
  EXPECT_THAT(waits_, SizeIs(4));
}

TEST_F(S3ClientTest, ObjectThatChangesIsNotMixed) {
  S3Client client(Options());
  ASSERT_EQ(client.Put("a", Bytes(500'000)), absl::OkStatus());
  server_.Script("GetObject",
                 json::array({{{"cut_answer", 200'000}, {"change", true}}, json::object()}));
  EXPECT_EQ(Read(client, "a").status(),
            absl::FailedPreconditionError("S3: PreconditionFailed: a & b"));
}

TEST_F(S3ClientTest, RangeIsReadAndGoesOnWhereItWasCut) {
  S3Client client(Options());
  const std::string bytes = Bytes(500'000);
  ASSERT_EQ(client.Put("a", bytes), absl::OkStatus());
  EXPECT_EQ(*client.GetRange("a", 0, 1), bytes.substr(0, 1));
  EXPECT_EQ(*client.GetRange("a", 499'999, 1), bytes.substr(499'999));
  server_.Script("GetObject", json::array({SlowDown(), {{"cut_answer", 60'000}}, json::object()}));
  EXPECT_TRUE(*client.GetRange("a", 100'000, 200'000) == bytes.substr(100'000, 200'000));
  EXPECT_TRUE(absl::IsDataLoss(client.GetRange("a", 400'000, 100'001).status()));
  EXPECT_TRUE(absl::IsDataLoss(client.GetRange("a", 500'000, 1).status()));
  EXPECT_TRUE(absl::IsNotFound(client.GetRange("b", 0, 1).status()));
}

TEST_F(S3ClientTest, CancelledCallEndsWithoutAnotherAttempt) {
  S3Options options = Options();
  std::atomic<bool> cancelled = false;
  options.cancelled = [&cancelled] { return cancelled.load(); };
  S3Client client(options);
  EXPECT_EQ(client.Put("a", "x"), absl::OkStatus());
  server_.Script("PutObject", json::array({{{"hang", true}}, json::object()}));
  std::thread canceller([&] {
    server_.AwaitRequests("PutObject", 2);
    cancelled = true;
  });
  EXPECT_TRUE(absl::IsCancelled(client.Put("b", "x")));
  canceller.join();
  EXPECT_THAT(waits_, IsEmpty());
}

TEST_F(S3ClientTest, ErrorOfTheReaderEndsTheReading) {
  S3Client client(Options());
  ASSERT_EQ(client.Put("a", Bytes(500'000)), absl::OkStatus());
  EXPECT_EQ(client.Get("a", [](absl::string_view) { return absl::DataLossError("bad"); }),
            absl::DataLossError("bad"));
  EXPECT_THAT(server_.Requests("GetObject"), SizeIs(1));
}

TEST_F(S3ClientTest, WrongSecretIsRefusedWithTheReason) {
  S3Options options = Options();
  options.environment.secret_access_key = "wrong-canary";
  S3Client client(options);
  EXPECT_EQ(client.Put("a", "x"), absl::PermissionDeniedError("S3: SignatureDoesNotMatch: a & b"));
  EXPECT_THAT(waits_, IsEmpty());
  EXPECT_THAT(Objects(), IsEmpty());
}

TEST_F(S3ClientTest, MissingCredentialsAreNamed) {
  S3Options options = Options();
  options.environment = AwsEnvironment();
  const absl::Status status = S3Client(options).Put("a", "x");
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("AWS_WEB_IDENTITY_TOKEN_FILE"));
  EXPECT_THAT(server_.Requests("PutObject"), IsEmpty());
}

TEST_F(S3ClientTest, UnreachableServerIsNamed) {
  S3Options options = Options();
  options.place.origin = "http://127.0.0.1:1";
  const absl::Status status = S3Client(options).Put("a", "x");
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot reach http://127.0.0.1:1: "));
}

class WebIdentityTest : public S3ClientTest {
 protected:
  // The environment that EKS gives to a process.
  S3Options Eks(const std::string& token) {
    S3Options options = Options();
    options.environment = AwsEnvironment();
    options.environment.token_file = ::testing::TempDir() + "/s3_web_identity";
    options.environment.role_arn = "arn:aws:iam::123456789012:role/backups";
    options.environment.sts_endpoint = server_.origin();
    std::ofstream(options.environment.token_file) << token;
    return options;
  }
};

TEST_F(WebIdentityTest, IsExchangedOnceForKeys) {
  S3Client client(Eks(fixtures::kSqsWebIdentityToken));
  server_.Script("sts", json::array({{{"status", 503}}, json::object()}));
  EXPECT_EQ(client.Put("a", "x"), absl::OkStatus());
  EXPECT_EQ(client.Put("b", "x"), absl::OkStatus());
  EXPECT_THAT(server_.Requests("sts"), SizeIs(2)) << "one was answered by 503";
  EXPECT_THAT(waits_, SizeIs(1));
  EXPECT_THAT(Objects(), SizeIs(2));
}

TEST_F(WebIdentityTest, RefusalHasItsReason) {
  const absl::Status status = S3Client(Eks("another-canary")).Put("a", "x");
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("InvalidIdentityToken"));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("canary")));
  EXPECT_THAT(waits_, IsEmpty());
}

}  // namespace s3_client_test
}  // namespace escapement
