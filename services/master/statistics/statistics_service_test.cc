#include "services/master/statistics/statistics_service.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/status/errors.h"
#include "common/storage/statistics_table.h"
#include "escapement/storage/v1/statistics_records.pb.h"
#include "gtest/gtest.h"
#include "services/master/base/limits.h"
#include "services/master/testing/master_world.h"

namespace escapement::master {
namespace statistics_service_test {

using storage::v1::MinuteRecord;
using storage::v1::StatisticsRecord;

constexpr char kTarget[] = "000102030405060708090a0b0c0d0e0f";

class StatisticsServiceTest : public ::testing::Test {
 protected:
  StatisticsServiceTest() {
    hour_ = absl::UnixEpoch() + absl::Floor(world_.Now() - absl::UnixEpoch(), absl::Hours(1));
  }

  static uint32_t HourOf(absl::Time time) {
    return static_cast<uint32_t>((time - absl::UnixEpoch()) / absl::Hours(1));
  }
  void Put(const std::string& subject, absl::Time hour, const std::string& writer,
           const std::vector<MinuteRecord>& minutes) {
    StatisticsRecord record;
    for (const MinuteRecord& minute : minutes) *record.add_minutes() = minute;
    world_.Put(kv::ColumnFamily::kPolicies, StatisticsKey(subject, HourOf(hour), writer),
               record.SerializeAsString());
  }
  static MinuteRecord Attempts(uint32_t minute, uint64_t attempts) {
    MinuteRecord record;
    record.set_minute(minute);
    record.set_attempts(attempts);
    return record;
  }
  static v1::ListStatisticsRequest Request(absl::Time start, absl::Time end,
                                           absl::Duration step = absl::Minutes(1),
                                           const std::string& subject = "") {
    v1::ListStatisticsRequest request;
    request.set_parent("tenants/default");
    request.set_subject(subject);
    SetTimestamp(ToMicros(start), *request.mutable_start_time());
    SetTimestamp(ToMicros(end), *request.mutable_end_time());
    SetDuration(absl::ToInt64Microseconds(step), *request.mutable_step());
    return request;
  }
  absl::StatusOr<v1::ListStatisticsResponse> List(const v1::ListStatisticsRequest& request) {
    return world_.Call(&StatisticsService::ListStatistics, request);
  }
  // The attempts of each step.
  std::vector<int64_t> AttemptsOf(const v1::ListStatisticsRequest& request) {
    const auto answer = List(request);
    EXPECT_TRUE(answer.ok()) << answer.status();
    std::vector<int64_t> attempts;
    if (!answer.ok()) return attempts;
    for (const v1::Statistics& each : answer->statistics())
      attempts.push_back(each.attempt_count());
    return attempts;
  }
  void ExpectInvalid(const v1::ListStatisticsRequest& request, const std::string& field) {
    const auto answer = List(request);
    ASSERT_EQ(answer.status().code(), absl::StatusCode::kInvalidArgument) << field;
    EXPECT_NE(answer.status().message().find(field), std::string::npos) << answer.status();
  }

  MasterWorld world_;
  absl::Time hour_;  // the present one
  const std::string tenant_ = TenantStatistics("default");
};

TEST_F(StatisticsServiceTest, ProcessesAreAddedUp) {
  MinuteRecord a, b;
  a.set_minute(7);
  a.set_due(1);
  a.set_succeeded(2);
  a.set_failed(3);
  a.set_others(4);
  a.set_late(5);
  a.set_lateness_max_micros(1'500'000);
  a.set_attempts(6);
  a.set_errors(7);
  b = a;
  b.set_lateness_max_micros(700'000);
  Put(tenant_, hour_ - absl::Hours(1), "a.1", {a});
  Put(tenant_, hour_ - absl::Hours(1), "b.9", {b});
  const absl::Time at = hour_ - absl::Minutes(53);
  const auto answer = List(Request(at - absl::Minutes(1), at + absl::Minutes(2)));
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->statistics_size(), 3);
  EXPECT_EQ(answer->step().seconds(), 60);
  const v1::Statistics& sums = answer->statistics(1);
  EXPECT_EQ(FromMicros(*TimestampMicros(sums.start_time())), at);
  EXPECT_EQ(sums.due_count(), 2);
  EXPECT_EQ(sums.succeeded_count(), 4);
  EXPECT_EQ(sums.failed_count(), 6);
  EXPECT_EQ(sums.other_count(), 8);
  EXPECT_EQ(sums.late_count(), 10);
  EXPECT_EQ(*ToDuration(sums.lateness_max()), absl::Milliseconds(1500));
  EXPECT_EQ(sums.attempt_count(), 12);
  EXPECT_EQ(sums.error_count(), 14);
  for (const int empty : {0, 2}) {
    EXPECT_EQ(answer->statistics(empty).attempt_count(), 0);
    EXPECT_TRUE(answer->statistics(empty).has_start_time());
  }
}

TEST_F(StatisticsServiceTest, PolicyHasTheMostOfTheSamples) {
  MinuteRecord a, b;
  a.set_held(3);
  a.set_max_concurrent(4);
  a.set_waiting(9);
  b.set_held(2);
  b.set_max_concurrent(8);
  b.set_waiting(1);
  b.set_attempts(5);
  const std::string policy = PolicyStatistics("default", "p");
  Put(policy, hour_ - absl::Hours(1), "a", {a});
  Put(policy, hour_ - absl::Hours(1), "b", {b});
  Put(PolicyStatistics("default", "pp"), hour_ - absl::Hours(1), "a", {Attempts(0, 1)});
  const auto answer = List(Request(hour_ - absl::Hours(1), hour_ - absl::Minutes(59),
                                   absl::Minutes(1), "tenants/default/policies/p"));
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->statistics_size(), 1);
  EXPECT_EQ(answer->statistics(0).held_count(), 3);
  EXPECT_EQ(answer->statistics(0).max_concurrent(), 8);
  EXPECT_EQ(answer->statistics(0).waiting_count(), 9);
  EXPECT_EQ(answer->statistics(0).attempt_count(), 0) << "no field of a policy";
}

TEST_F(StatisticsServiceTest, EachSubjectHasOnlyItsOwnSums) {
  Put(tenant_, hour_ - absl::Hours(1), "a", {Attempts(0, 1)});
  Put(TargetStatistics("default", Uid::FromHex(kTarget)), hour_ - absl::Hours(1), "a",
      {Attempts(0, 2)});
  Put(TargetStatistics("other", Uid::FromHex(kTarget)), hour_ - absl::Hours(1), "a",
      {Attempts(0, 4)});
  Put(TenantStatistics("other"), hour_ - absl::Hours(1), "a", {Attempts(0, 8)});
  const auto of = [&](const std::string& subject) {
    return AttemptsOf(
        Request(hour_ - absl::Hours(1), hour_ - absl::Minutes(59), absl::Minutes(1), subject));
  };
  EXPECT_EQ(of(""), std::vector<int64_t>{1});
  EXPECT_EQ(of(absl::StrCat("tenants/default/targets/", kTarget)), std::vector<int64_t>{2});
}

TEST_F(StatisticsServiceTest, StepsAreOfWholeMinutesFromTheStartOn) {
  Put(tenant_, hour_ - absl::Hours(2), "a", {Attempts(58, 1), Attempts(59, 2)});
  Put(tenant_, hour_ - absl::Hours(1), "a", {Attempts(0, 4), Attempts(1, 8), Attempts(2, 16)});
  const absl::Time start = hour_ - absl::Minutes(62);
  EXPECT_EQ(AttemptsOf(Request(start, start + absl::Minutes(5))),
            (std::vector<int64_t>{1, 2, 4, 8, 16}));
  EXPECT_EQ(AttemptsOf(Request(start, start + absl::Minutes(5), absl::Minutes(2))),
            (std::vector<int64_t>{3, 12, 16}));
  // The last step ends with the time, not later.
  EXPECT_EQ(AttemptsOf(Request(start, start + absl::Minutes(4), absl::Minutes(3))),
            (std::vector<int64_t>{7, 8}));
  // Parts of a minute count as the whole minute.
  EXPECT_EQ(AttemptsOf(Request(start + absl::Seconds(59), start + absl::Seconds(61))),
            (std::vector<int64_t>{1, 2}));
}

TEST_F(StatisticsServiceTest, WithoutTimesTheLastHourIsListed) {
  const absl::Time now = world_.Now();
  Put(tenant_, hour_, "a", {Attempts(static_cast<uint32_t>((now - hour_) / absl::Minutes(1)), 5)});
  v1::ListStatisticsRequest request;
  request.set_parent("tenants/default");
  const std::vector<int64_t> attempts = AttemptsOf(request);
  ASSERT_GE(attempts.size(), 60u);
  ASSERT_LE(attempts.size(), 61u);
  EXPECT_EQ(attempts.back(), 5);
}

TEST_F(StatisticsServiceTest, TwoDaysInMinutesAreTheMost) {
  world_.runtime.AdvanceBy(absl::Milliseconds(1));
  const absl::Time now = world_.Now();
  Put(tenant_, now - absl::Hours(47), "a", {Attempts(0, 5)});
  const auto attempts = AttemptsOf(Request(now - absl::Hours(48), now));
  EXPECT_GE(attempts.size(), 2880u);
  int64_t all = 0;
  for (const int64_t each : attempts) all += each;
  EXPECT_EQ(all, 5);
  ExpectInvalid(Request(now - absl::Hours(48) - absl::Seconds(1), now), "step");
  EXPECT_TRUE(List(Request(now - absl::Hours(96), now, absl::Minutes(2))).ok());
}

TEST_F(StatisticsServiceTest, ManyRowsAreReadInTurnsUpToABound) {
  std::vector<kv::Group> groups(1);
  const StatisticsRecord record = [] {
    StatisticsRecord made;
    *made.add_minutes() = Attempts(3, 1);
    return made;
  }();
  const uint32_t hour = HourOf(hour_ - absl::Hours(1));
  for (size_t i = 0; i < kStatisticsReadMax; ++i) {
    groups[0].mutations.push_back({.cf = kv::ColumnFamily::kPolicies,
                                   .key = StatisticsKey(tenant_, hour, absl::StrCat(i)),
                                   .value = record.SerializeAsString()});
  }
  world_.Commit(std::move(groups));
  const auto request = Request(hour_ - absl::Hours(1), hour_, absl::Hours(1));
  EXPECT_EQ(AttemptsOf(request), std::vector<int64_t>{kStatisticsReadMax});
  Put(tenant_, hour_ - absl::Hours(1), "one more", {Attempts(3, 1)});
  EXPECT_EQ(List(request).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(StatisticsServiceTest, WrongRequestsAreRefusedByField) {
  const absl::Time now = world_.Now();
  const auto of = [&](const std::string& subject) {
    return Request(now - absl::Hours(1), now, absl::Minutes(1), subject);
  };
  v1::ListStatisticsRequest none;
  ExpectInvalid(none, "parent");
  ExpectInvalid(of("tenants/other/policies/p"), "subject");
  ExpectInvalid(of(absl::StrCat("tenants/other/targets/", kTarget)), "subject");
  ExpectInvalid(of("tenants/default/targets/none"), "subject");
  ExpectInvalid(of("tenants/default/policies/"), "subject");
  ExpectInvalid(of("tenants/default/schedules/s"), "subject");
  ExpectInvalid(Request(now, now), "end_time");
  ExpectInvalid(Request(now, now - absl::Hours(1)), "end_time");
  for (const absl::Duration step :
       {absl::ZeroDuration(), absl::Seconds(59), absl::Seconds(90), -absl::Minutes(1)})
    ExpectInvalid(Request(now - absl::Hours(1), now, step), "step");
  v1::ListStatisticsRequest broken = of("");
  broken.mutable_end_time()->set_nanos(-1);
  ExpectInvalid(broken, "end_time");
  broken = of("");
  broken.mutable_start_time()->set_seconds(int64_t{1} << 60);
  ExpectInvalid(broken, "start_time");
}

TEST_F(StatisticsServiceTest, ExtremeTimesAreZeros) {
  for (const int64_t year : {1, 1969, 9998}) {
    const absl::Time start = absl::FromCivil(absl::CivilDay(year, 1, 1), absl::UTCTimeZone());
    EXPECT_EQ(AttemptsOf(Request(start, start + absl::Minutes(2))), (std::vector<int64_t>{0, 0}));
  }
  const absl::Time first = absl::FromCivil(absl::CivilDay(1, 1, 1), absl::UTCTimeZone());
  const absl::Time last = absl::FromCivil(absl::CivilDay(9999, 12, 31), absl::UTCTimeZone());
  Put(tenant_, hour_, "a", {Attempts(0, 5)});
  EXPECT_EQ(AttemptsOf(Request(first, last, absl::Hours(24 * 3'652'400))), std::vector<int64_t>{5});
}

TEST_F(StatisticsServiceTest, SweepDeletesRowsOlderThanTwoDays) {
  const std::string policy = PolicyStatistics("default", "p");
  for (const std::string& subject : {tenant_, policy}) {
    for (const std::string writer : {"a", "b"}) {
      Put(subject, hour_ - absl::Hours(100), writer, {Attempts(0, 1)});
      Put(subject, hour_ - absl::Hours(50), writer, {Attempts(0, 1)});
      Put(subject, hour_ - absl::Hours(40), writer, {Attempts(0, 1)});
      Put(subject, hour_, writer, {Attempts(0, 1)});
    }
  }
  // More rows than one page has.
  std::vector<kv::Group> groups(1);
  for (size_t i = 0; i < 2 * kSweepRowsMax; ++i) {
    groups[0].mutations.push_back(
        {.cf = kv::ColumnFamily::kPolicies,
         .key = StatisticsKey(PolicyStatistics("default", absl::StrCat("q", i)),
                              HourOf(hour_ - absl::Hours(i % 2 == 0 ? 60 : 1)), "a"),
         .value = ""});
  }
  world_.Commit(std::move(groups));
  const size_t others = world_.Rows(kv::ColumnFamily::kPolicies).size() - 16 - 2 * kSweepRowsMax;
  world_.runtime.AdvanceBy(kSweepEvery + absl::Minutes(5));
  size_t kept = 0;
  for (const auto& [key, value] : world_.Rows(kv::ColumnFamily::kPolicies)) {
    const auto name = DecodeStatisticsKey(key);
    if (!name.has_value()) continue;
    ++kept;
    EXPECT_GE(name->hour, HourOf(hour_ - absl::Hours(40)));
  }
  EXPECT_EQ(kept, 8 + kSweepRowsMax);
  EXPECT_EQ(world_.Rows(kv::ColumnFamily::kPolicies).size(), others + kept);
}

}  // namespace statistics_service_test
}  // namespace escapement::master
