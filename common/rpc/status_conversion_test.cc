#include "common/rpc/status_conversion.h"

#include <string>

#include "common/status/errors.h"
#include "grpcpp/support/status.h"
#include "gtest/gtest.h"

namespace escapement {
namespace status_conversion_test {

TEST(StatusConversionTest, CodeMessageAndDetailsSurviveTheWire) {
  const absl::Status status = InvalidField("schedule.time_zone", "is unknown");
  const grpc::Status wire = ToGrpcStatus(status);
  EXPECT_EQ(wire.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  const absl::Status back = FromGrpcStatus(wire);
  EXPECT_EQ(back, status);
  EXPECT_EQ(ErrorReason(back), "INVALID_FIELD");
  EXPECT_EQ(FieldViolationsOf(back), FieldViolationsOf(status));
}

TEST(StatusConversionTest, OkStaysOk) {
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  EXPECT_TRUE(FromGrpcStatus(grpc::Status::OK).ok());
  EXPECT_EQ(FromGrpcStatus(grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone")),
            absl::UnavailableError("gone"));
}

TEST(StatusConversionTest, AnErrorWithoutErrorInfoGetsOne) {
  const absl::Status back = FromGrpcStatus(ToGrpcStatus(absl::UnavailableError("gone\x1b[2J")));
  EXPECT_EQ(back.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(back.message(), "gone\\x1b[2J");
  EXPECT_EQ(ErrorReason(back), "UNAVAILABLE");
}

TEST(StatusConversionTest, TheLargestErrorFitsIntoTheTrailersOfAClient) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "\xe2\x82\xac";
  FieldViolations violations;
  for (int i = 0; i < 100; ++i) violations.Add(i % 2 == 0 ? text : "x", i % 3 == 0 ? text : "x");
  for (const absl::Status& status :
       {violations.ToStatus(), NotFound(text),
        MakeError(absl::StatusCode::kInternal, std::string(63, 'R'), text,
                  {{"resource", text}, {"state", text}, {"field", text}}),
        ResourceExhausted("FULL", text, absl::Seconds(1)), absl::InternalError(text)}) {
    const grpc::Status wire = ToGrpcStatus(status);
    // The message is percent-encoded once, and once in base64. Names, overhead and the other
    // trailers take some 300 bytes.
    EXPECT_LT(3 * wire.error_message().size() + 4 * (wire.error_details().size() / 3 + 1) + 300,
              8192u)
        << status;
  }
}

TEST(StatusConversionTest, MalformedDetailsAreIgnored) {
  const absl::Status status = FromGrpcStatus(
      grpc::Status(grpc::StatusCode::INTERNAL, "odd", std::string("\xff\xff\x01", 3)));
  EXPECT_EQ(status, absl::InternalError("odd"));
}

}  // namespace status_conversion_test
}  // namespace escapement
