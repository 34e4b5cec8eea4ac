#include "common/s3/s3_answer.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement {
namespace s3_answer_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

std::string Error(const std::string& code) {
  return "<?xml version=\"1.0\"?>\n<Error><Code>" + code +
         "</Code><Message>no &amp; never</Message></Error>";
}

absl::StatusCode CodeOf(long http_status, std::string body) {
  return StatusOf({.http_status = http_status, .body = std::move(body)}).code();
}

TEST(S3AnswerTest, ErrorHasCodeAndMessage) {
  EXPECT_EQ(StatusOf({.http_status = 400, .body = Error("Odd\n")}),
            absl::FailedPreconditionError("S3: Odd : no & never"));
  EXPECT_EQ(StatusOf({.http_status = 302}), absl::FailedPreconditionError("S3: HTTP 302"));
  EXPECT_EQ(CodeOf(404, Error("NoSuchBucket")), absl::StatusCode::kNotFound);
  EXPECT_EQ(CodeOf(403, Error("AccessDenied")), absl::StatusCode::kPermissionDenied);
}

TEST(S3AnswerTest, PassingErrorsAreUnavailable) {
  for (const auto& [status, body] :
       {std::pair{500L, std::string("<html>")}, std::pair{503L, Error("SlowDown")},
        std::pair{429L, std::string()}, std::pair{400L, Error("RequestTimeout")},
        std::pair{200L, Error("InternalError")}}) {
    EXPECT_EQ(CodeOf(status, body), absl::StatusCode::kUnavailable) << status << body;
  }
}

TEST(S3AnswerTest, SuccessWithAnErrorInItsBodyIsAnError) {
  EXPECT_EQ(CodeOf(204, ""), absl::StatusCode::kOk);
  EXPECT_EQ(CodeOf(200, Error("EntityTooSmall")), absl::StatusCode::kFailedPrecondition);
}

TEST(S3AnswerTest, ListHasObjectsAndTheNextPage) {
  const auto page = ReadObjects(
      "<ListBucketResult xmlns=\"x\"><Name>b</Name><IsTruncated>true</IsTruncated>"
      "<NextContinuationToken>1&amp;=</NextContinuationToken>"
      "<Contents><Key>a&lt;b</Key><Size>5</Size><Owner><ID>x</ID></Owner></Contents>"
      "<Contents><Key>c</Key><Size>0</Size></Contents></ListBucketResult>");
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_EQ(page->found.size(), 2u);
  EXPECT_EQ(page->found[0].key, "a<b");
  EXPECT_EQ(page->found[0].bytes, 5u);
  EXPECT_EQ(page->found[1].key, "c");
  EXPECT_THAT(page->next, ElementsAre(Pair("continuation-token", "1&=")));
}

TEST(S3AnswerTest, LastPageHasNoNextOne) {
  const auto page = ReadUploads(
      "<ListMultipartUploadsResult><NextKeyMarker>k</NextKeyMarker><IsTruncated>false</IsTruncated>"
      "<Upload><Key>k</Key><UploadId>u</UploadId></Upload></ListMultipartUploadsResult>");
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_EQ(page->found.size(), 1u);
  EXPECT_EQ(page->found[0].key, "k");
  EXPECT_EQ(page->found[0].id, "u");
  EXPECT_THAT(page->next, IsEmpty());
}

TEST(S3AnswerTest, OtherBodiesAreNoLists) {
  for (const char* body :
       {"", "<html></html>", "<ListBucketResult><Contents><Key>a</Key></Contents>",
        "<ListBucketResult><Contents><Key>a</Key><Size>x</Size></Contents></ListBucketResult>",
        "<ListBucketResult><Contents><Size>1</Size></Contents></ListBucketResult>"}) {
    EXPECT_TRUE(absl::IsUnavailable(ReadObjects(body).status())) << body;
    EXPECT_FALSE(ReadUploads(body).ok());
    EXPECT_FALSE(ReadUploadId(body).ok());
  }
}

TEST(S3AnswerTest, CompletionNamesAllParts) {
  EXPECT_EQ(CompleteUploadBody({"\"a\"", "b&"}),
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>\"a\"</ETag></Part>"
            "<Part><PartNumber>2</PartNumber><ETag>b&amp;</ETag></Part></CompleteMultipartUpload>");
}

}  // namespace s3_answer_test
}  // namespace escapement
