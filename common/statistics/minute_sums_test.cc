#include "common/statistics/minute_sums.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/kv/forwarding_kv_store.h"
#include "common/kv/memory/mem_kv_store.h"
#include "common/sim/sim_runtime.h"
#include "common/statistics/testing/stored_sums.h"
#include "common/storage/statistics_table.h"
#include "gtest/gtest.h"

namespace escapement {
namespace minute_sums_test {

using kv::ColumnFamily;
using storage::v1::OUTCOME_KIND_EXPIRED;
using storage::v1::OUTCOME_KIND_FAILED;
using storage::v1::OUTCOME_KIND_SUCCEEDED;

constexpr absl::Duration kMinute = absl::Minutes(1);

// Refuses commits, or holds back their answers, on demand.
class RefusingStore final : public kv::ForwardingKvStore {
 public:
  using kv::ForwardingKvStore::ForwardingKvStore;
  using KvStore::Commit;
  void Commit(std::shared_ptr<const kv::CommitRequest> request,
              Callback<kv::CommitResult> done) override {
    ++commits;
    largest = std::max(largest, request->groups.empty() ? 0 : request->groups[0].mutations.size());
    if (refuses) return done(absl::ResourceExhaustedError("full"));
    inner_.Commit(std::move(request), std::move(done));
  }
  bool refuses = false;
  int commits = 0;
  size_t largest = 0;  // mutations of a commit
};

class MinuteSumsTest : public ::testing::Test {
 protected:
  MinuteSumsTest() {
    runtime_.AdvanceBy(absl::Seconds(1));
    // The test begins with an hour.
    const absl::Time now = Now();
    runtime_.AdvanceBy(absl::UnixEpoch() + absl::Ceil(now - absl::UnixEpoch(), absl::Hours(1)) -
                       now);
    hour_ = Now();
  }
  absl::Time Now() { return runtime_.world().Now(); }
  int64_t MinuteOf(absl::Time time) { return ToMicros(time) / 60'000'000; }
  StatisticsSums& NowOf(const MinuteSums::SubjectPtr& subject) {
    return subject->At(ToMicros(Now()));
  }
  // Time passes, and the owner steps as often as owners do.
  void Pass(absl::Duration time) {
    for (absl::Duration passed; passed < time; passed += absl::Seconds(1)) {
      runtime_.AdvanceBy(absl::Seconds(1));
      sums_->Step(Now());
      runtime_.RunUntilIdle();
    }
  }
  const kv::MemDisk::Family& Rows() const {
    return store_.disk()->families[static_cast<size_t>(ColumnFamily::kPolicies)];
  }
  std::map<int64_t, StatisticsSums> Stored(const std::string& subject) {
    return StoredSums(Rows(), subject);
  }
  void Restart() { sums_ = std::make_unique<MinuteSums>(client_, runtime_, executor_); }

  sim::SimRuntime runtime_{1};
  kv::MemKvStore store_{runtime_, kv::MemKvStore::Options()};
  RefusingStore refusing_{store_};
  std::shared_ptr<Executor> executor_ = runtime_.NewExecutor("process");
  kv::KvClient client_{refusing_, runtime_, kv::KvClient::Options()};
  std::unique_ptr<MinuteSums> sums_ = std::make_unique<MinuteSums>(client_, runtime_, executor_);
  absl::Time hour_;
  const std::string tenant_ = TenantStatistics("t");
};

TEST_F(MinuteSumsTest, EachMinuteHasItsOwnSums) {
  const auto subject = sums_->Of(tenant_);
  subject->At(ToMicros(hour_ + kMinute) - 1).attempts += 3;
  subject->At(ToMicros(hour_ + kMinute)).attempts += 5;
  subject->At(ToMicros(hour_ + kMinute)).errors += 1;
  subject->At(ToMicros(hour_)).attempts += 1;  // back in the first minute
  Pass(kStatisticsEvery);
  const auto stored = Stored(tenant_);
  ASSERT_EQ(stored.size(), 2u);
  EXPECT_EQ(stored.at(MinuteOf(hour_)).attempts, 4u);
  EXPECT_EQ(stored.at(MinuteOf(hour_) + 1).attempts, 5u);
  EXPECT_EQ(stored.at(MinuteOf(hour_) + 1).errors, 1u);
  EXPECT_EQ(Rows().size(), 1u) << "minutes of one hour are in one row";
}

TEST_F(MinuteSumsTest, AllFieldsAreStored) {
  NowOf(sums_->Of(tenant_)) = {.due = 1,
                               .succeeded = 2,
                               .failed = 3,
                               .others = 4,
                               .late = 5,
                               .lateness_max_micros = 6,
                               .attempts = 7,
                               .errors = 8,
                               .held = 9,
                               .max_concurrent = 10,
                               .waiting = 11};
  Pass(kStatisticsEvery);
  const StatisticsSums stored = StoredSum(Rows(), tenant_);
  EXPECT_EQ(stored.due, 1u);
  EXPECT_EQ(stored.succeeded, 2u);
  EXPECT_EQ(stored.failed, 3u);
  EXPECT_EQ(stored.others, 4u);
  EXPECT_EQ(stored.late, 5u);
  EXPECT_EQ(stored.lateness_max_micros, 6);
  EXPECT_EQ(stored.attempts, 7u);
  EXPECT_EQ(stored.errors, 8u);
  EXPECT_EQ(stored.held, 9u);
  EXPECT_EQ(stored.max_concurrent, 10u);
  EXPECT_EQ(stored.waiting, 11u);
}

TEST_F(MinuteSumsTest, OnlyChangedRowsAreWrittenEveryTenSeconds) {
  const auto a = sums_->Of(TenantStatistics("a")), b = sums_->Of(TenantStatistics("b"));
  ++NowOf(a).attempts;
  ++NowOf(b).attempts;
  Pass(kStatisticsEvery);
  EXPECT_EQ(refusing_.commits, 1);
  EXPECT_EQ(refusing_.largest, 2u);
  refusing_.largest = 0;
  Pass(absl::Minutes(10));
  EXPECT_EQ(refusing_.commits, 1) << "nothing has changed";
  ++NowOf(a).attempts;
  Pass(kStatisticsEvery);
  EXPECT_EQ(refusing_.commits, 2);
  EXPECT_EQ(refusing_.largest, 1u);
  EXPECT_EQ(StoredSum(Rows(), TenantStatistics("a")).attempts, 2u);
}

TEST_F(MinuteSumsTest, TheNextHourHasAnotherRow) {
  const auto subject = sums_->Of(tenant_);
  Pass(absl::Minutes(59));
  subject->At(ToMicros(hour_ + absl::Hours(1)) - 1).due += 2;
  subject->At(ToMicros(hour_ + absl::Hours(1))).due += 3;
  Pass(absl::Minutes(2));
  EXPECT_EQ(Rows().size(), 2u);
  const auto stored = Stored(tenant_);
  EXPECT_EQ(stored.at(MinuteOf(hour_) + 59).due, 2u);
  EXPECT_EQ(stored.at(MinuteOf(hour_) + 60).due, 3u);
}

TEST_F(MinuteSumsTest, RefusedCommitsAreWrittenLater) {
  refusing_.refuses = true;
  const auto subject = sums_->Of(tenant_);
  NowOf(subject).attempts += 2;
  Pass(absl::Seconds(25));
  EXPECT_TRUE(Rows().empty());
  EXPECT_GE(refusing_.commits, 2);
  NowOf(subject).attempts += 3;
  refusing_.refuses = false;
  Pass(kStatisticsEvery);
  EXPECT_EQ(StoredSum(Rows(), tenant_).attempts, 5u) << "each attempt counts once";
}

TEST_F(MinuteSumsTest, HourThatIsOverIsForgottenAndGetsAnotherRow) {
  const auto subject = sums_->Of(tenant_);
  subject->At(ToMicros(hour_)).due += 2;
  Pass(absl::Hours(1) + kStatisticsHourKept);
  // An event of the last hour is sent only now. The row in the store must not lose its sums.
  subject->At(ToMicros(hour_)).due += 3;
  Pass(kStatisticsEvery);
  EXPECT_EQ(Rows().size(), 2u);
  EXPECT_EQ(StoredSum(Rows(), tenant_).due, 5u);
}

TEST_F(MinuteSumsTest, HoursInMemoryAreBounded) {
  std::vector<MinuteSums::SubjectPtr> subjects;
  for (size_t i = 0; i < kStatisticsHoursMax; ++i) {
    subjects.push_back(sums_->Of(PolicyStatistics("t", absl::StrCat(i))));
    ++NowOf(subjects.back()).held;
  }
  ++NowOf(sums_->Of(PolicyStatistics("t", "beyond"))).held;
  // One commit a second while there are more.
  Pass(absl::Seconds(kStatisticsHoursMax / kStatisticsRowsMax + 10));
  EXPECT_EQ(Rows().size(), kStatisticsHoursMax);
  EXPECT_EQ(refusing_.largest, kStatisticsRowsMax);
  EXPECT_TRUE(Stored(PolicyStatistics("t", "beyond")).empty());
  // There is room again once the hour is over and written.
  Pass(absl::Hours(1) + kStatisticsHourKept);
  ++NowOf(sums_->Of(PolicyStatistics("t", "beyond"))).held;
  Pass(kStatisticsEvery);
  EXPECT_EQ(Stored(PolicyStatistics("t", "beyond")).size(), 1u);
}

TEST_F(MinuteSumsTest, SubjectsWithASmallerBoundLeaveRoomForOthers) {
  const auto target = [this](int i) {
    return sums_->Of(PolicyStatistics("t", absl::StrCat(i)), 2);
  };
  for (int i = 0; i < 3; ++i) ++NowOf(target(i)).attempts;
  ++NowOf(sums_->Of(tenant_)).attempts;
  Pass(kStatisticsEvery);
  EXPECT_EQ(Rows().size(), 3u);
  EXPECT_EQ(Stored(tenant_).size(), 1u);
}

TEST_F(MinuteSumsTest, TimesBeforeTheLastTwoDaysDoNotCount) {
  Pass(kStatisticsEvery);
  sums_->Of(tenant_)->At(ToMicros(Now() - kStatisticsKeptFor - kMinute)).due += 1;
  sums_->Of(tenant_)->At(ToMicros(Now() - kStatisticsKeptFor + kMinute)).due += 2;
  sums_->Of(tenant_)->At(ToMicros(absl::InfinitePast())).due += 4;
  Pass(kStatisticsEvery);
  EXPECT_EQ(StoredSum(Rows(), tenant_).due, 2u);
}

TEST_F(MinuteSumsTest, ProcessAfterARestartHasRowsOfItsOwn) {
  NowOf(sums_->Of(tenant_)).attempts += 2;
  Pass(kStatisticsEvery);
  Restart();
  NowOf(sums_->Of(tenant_)).attempts += 3;
  Pass(kStatisticsEvery);
  EXPECT_EQ(Rows().size(), 2u);
  EXPECT_EQ(StoredSum(Rows(), tenant_).attempts, 5u);
}

TEST_F(MinuteSumsTest, DrainWritesTheRest) {
  Pass(absl::Seconds(11));
  NowOf(sums_->Of(tenant_)).attempts += 2;
  bool done = false;
  sums_->WriteLast(Now(), [&] { done = true; });
  runtime_.AdvanceBy(absl::Seconds(1));
  EXPECT_TRUE(done);
  EXPECT_EQ(StoredSum(Rows(), tenant_).attempts, 2u);
}

TEST_F(MinuteSumsTest, DrainWritesAlsoWhatCountedDuringACommit) {
  Pass(absl::Seconds(11));
  NowOf(sums_->Of(tenant_)).attempts += 2;
  runtime_.AdvanceBy(kStatisticsEvery);
  sums_->Step(Now());  // its commit is under way
  NowOf(sums_->Of(tenant_)).attempts += 3;
  for (size_t i = 0; i < 2 * kStatisticsRowsMax; ++i)
    ++NowOf(sums_->Of(PolicyStatistics("t", absl::StrCat(i)))).held;
  bool done = false;
  sums_->WriteLast(Now(), [&] { done = true; });
  runtime_.AdvanceBy(absl::Seconds(1));
  EXPECT_TRUE(done);
  EXPECT_EQ(StoredSum(Rows(), tenant_).attempts, 5u);
  EXPECT_EQ(Rows().size(), 1 + 2 * kStatisticsRowsMax);
}

TEST_F(MinuteSumsTest, DrainEndsAlthoughTheStoreRefuses) {
  refusing_.refuses = true;
  NowOf(sums_->Of(tenant_)).attempts += 2;
  bool done = false;
  sums_->WriteLast(Now(), [&] { done = true; });
  runtime_.AdvanceBy(absl::Seconds(1));
  EXPECT_TRUE(done);
}

TEST_F(MinuteSumsTest, DrainWithoutSumsEndsAtOnce) {
  bool done = false;
  sums_->WriteLast(absl::InfinitePast(), [&] { done = true; });
  runtime_.RunUntilIdle();
  EXPECT_TRUE(done);
  EXPECT_EQ(refusing_.commits, 0);
}

TEST_F(MinuteSumsTest, EndsCountByOutcomeAndUnsentEventsAsDue) {
  EndedEvents ended;
  ended.Add("t", OUTCOME_KIND_SUCCEEDED, 2);
  ended.Add("t", OUTCOME_KIND_SUCCEEDED, 3);
  ended.Add("t", OUTCOME_KIND_EXPIRED, 4, ToMicros(hour_ - kMinute));
  ended.Add("u", OUTCOME_KIND_FAILED, 5);
  ended.Add("t", OUTCOME_KIND_FAILED, 6, ToMicros(hour_ + absl::Hours(1)));
  ended.CountIn(*sums_, ToMicros(hour_));
  Pass(kStatisticsEvery);
  auto stored = Stored(tenant_);
  const StatisticsSums& now = stored[MinuteOf(hour_)];
  EXPECT_EQ(now.succeeded, 5u);
  EXPECT_EQ(now.others, 4u);
  EXPECT_EQ(now.failed, 6u);
  EXPECT_EQ(stored[MinuteOf(hour_) - 1].due, 4u);
  EXPECT_EQ(StoredSum(Rows(), tenant_).due, 4u) << "events that end before they are due never are";
  EXPECT_EQ(StoredSum(Rows(), TenantStatistics("u")).failed, 5u);
}

}  // namespace minute_sums_test
}  // namespace escapement
