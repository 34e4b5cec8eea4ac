#include "common/base/proto_time.h"
#include "gtest/gtest.h"
#include "services/handler/target_health/target_use.h"

namespace escapement::handler {
namespace target_row_test {

using storage::v1::TargetStateRecord;

TEST(TargetRow, ClosedTargetHasCountsAndNoTimesOfAnOutage) {
  CircuitBreaker breaker;
  TargetUse use(absl::Seconds(10));
  use.OnSent(5, absl::Seconds(10));
  use.OnSucceeded(absl::Seconds(11));
  use.OnFailed("HTTP 500", absl::Seconds(12));
  const absl::Time now = absl::FromUnixSeconds(1'700'000'000);
  const auto row = TargetRowOf({.target_key = "http:https://a.example",
                                .breaker = breaker,
                                .use = use,
                                .in_flight_max = 256,
                                .now = now,
                                .elapsed = absl::Seconds(15)});
  EXPECT_EQ(row.state().target_key(), "http:https://a.example");
  EXPECT_EQ(row.state().breaker(), TargetStateRecord::CLOSED);
  EXPECT_EQ(row.state().in_flight(), 3u);
  EXPECT_EQ(row.state().attempts(), 2u);
  EXPECT_EQ(row.state().failures(), 1u);
  EXPECT_EQ(row.state().measured_micros(), 5'000'000);
  EXPECT_EQ(row.state().last_error(), "HTTP 500");
  EXPECT_EQ(row.state().last_error_time_micros(), ToMicros(now - absl::Seconds(3)));
  EXPECT_EQ(row.state().update_time_micros(), ToMicros(now));
  EXPECT_EQ(row.state().open_until_micros(), 0);
  EXPECT_EQ(row.down_since_micros(), 0);
  EXPECT_EQ(row.in_flight_max(), 256u);
}

TEST(TargetRow, TargetThatIsDownHasItsTimes) {
  CircuitBreaker breaker;
  for (int i = 0; i < 20; ++i) breaker.OnResult(false, absl::Seconds(20), absl::Seconds(20));
  const TargetUse use(absl::Seconds(20));
  const absl::Time now = absl::FromUnixSeconds(1'700'000'000);
  const auto at = [&](int seconds) {
    return TargetRowOf({.target_key = "grpc:x",
                        .breaker = breaker,
                        .use = use,
                        .now = now,
                        .elapsed = absl::Seconds(seconds)});
  };
  EXPECT_EQ(at(20).state().breaker(), TargetStateRecord::OPEN);
  EXPECT_EQ(at(20).state().open_until_micros(), ToMicros(now + absl::Seconds(1)));
  EXPECT_EQ(at(25).state().breaker(), TargetStateRecord::HALF_OPEN);
  EXPECT_EQ(at(25).down_since_micros(), ToMicros(now - absl::Seconds(5)));
  EXPECT_EQ(at(25).state().last_error_time_micros(), 0);
}

TEST(TargetRow, ShownKeysHaveNoUserInformation) {
  EXPECT_EQ(ShownTargetKey("http:https://a.example:8443"), "http:https://a.example:8443");
  EXPECT_EQ(ShownTargetKey("http:https://me:secret@a.example"), "http:https://a.example");
  EXPECT_EQ(ShownTargetKey("email:smtps://me@here:secret@mail.example:465"),
            "email:smtps://mail.example:465");
  EXPECT_EQ(ShownTargetKey("sqs:https://k:s@sqs.example#https://k:s@q.example/1/q?token=x"),
            "sqs:https://sqs.example#https://q.example/1/q");
  EXPECT_EQ(ShownTargetKey("kafka:a:9092,b:9092/topic"), "kafka:a:9092,b:9092/topic");
  EXPECT_EQ(ShownTargetKey("grpc:dns:///svc:50051"), "grpc:dns:///svc:50051");
  EXPECT_EQ(ShownTargetKey("slack:"), "slack:");
}

}  // namespace target_row_test
}  // namespace escapement::handler
