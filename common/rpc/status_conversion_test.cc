#include "common/rpc/status_conversion.h"

#include "common/status/errors.h"
#include "grpcpp/support/status.h"
#include "gtest/gtest.h"

namespace escapement {
namespace {

TEST(StatusConversionTest, BringsCodeMessageAndDetailsThroughTheWire) {
  const absl::Status status = InvalidField("schedule.time_zone", "is unknown");
  const grpc::Status wire = ToGrpcStatus(status);
  EXPECT_EQ(wire.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  const absl::Status back = FromGrpcStatus(wire);
  EXPECT_EQ(back, status);
  EXPECT_EQ(ErrorReason(back), "INVALID_FIELD");
  EXPECT_EQ(FieldViolationsOf(back), FieldViolationsOf(status));
}

TEST(StatusConversionTest, KeepsOkAndErrorsWithoutDetails) {
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  EXPECT_TRUE(FromGrpcStatus(grpc::Status::OK).ok());
  EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(absl::UnavailableError("gone"))),
            absl::UnavailableError("gone"));
  EXPECT_TRUE(ToGrpcStatus(absl::UnavailableError("gone")).error_details().empty());
}

TEST(StatusConversionTest, DetailsThatAreNoStatusAreIgnored) {
  const absl::Status status = FromGrpcStatus(
      grpc::Status(grpc::StatusCode::INTERNAL, "odd", std::string("\xff\xff\x01", 3)));
  EXPECT_EQ(status, absl::InternalError("odd"));
}

}  // namespace
}  // namespace escapement
