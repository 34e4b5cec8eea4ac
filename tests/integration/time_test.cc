// Time features of schedules through the public API, with real processes: intervals, lists of
// instants, exclusions, misfires after a downtime and a pause, backfill, overlaps, the preview.

#include "absl/time/time.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/http_receiver.h"
#include "tests/fixtures/process/child_process.h"
#include "tests/fixtures/receipts.h"
#include "tests/integration/api_client.h"
#include "tests/integration/platform.h"

namespace escapement::integration {
namespace time_test {

using fixtures::Receipt;
using ::testing::ElementsAre;

const std::vector<std::string> kServices = {"store", "master", "emitter", "handler"};

int64_t Second(const v1::Run& run) { return run.nominal_time().seconds(); }

class TimeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = NewFolder("time");
    platform_ = std::make_unique<Platform>(Platform::Options{
        .bin = BuiltFolder(),
        .folder = folder_,
        .extra_arguments = {{"store", {"--store_lease_ttl=1s"}},
                            {"emitter", {"--lease_ttl=1s", "--lease_renew_every=200ms"}},
                            {"handler", {"--lease_ttl=1s", "--lease_renew_every=200ms"}}}});
    http_ = *fixtures::HttpReceiver::Start({}, &receipts_);
    const absl::Status status = platform_->Start(kServices);
    ASSERT_TRUE(status.ok()) << status;
    api_ = std::make_unique<ApiClient>(platform_->grpc_address("master"));
  }

  void TearDown() override {
    if (HasFailure()) platform_->ShowLogs(kServices);
  }

  v1::Schedule To(const std::string& path) const {
    v1::Schedule schedule;
    schedule.set_payload("{}");
    *schedule.mutable_target() = HttpTo(http_->origin() + path);
    return schedule;
  }

  void Create(const std::string& id, const v1::Schedule& schedule) {
    const auto created = api_->CreateSchedule(id, schedule);
    ASSERT_TRUE(created.ok()) << created.status();
  }

  std::vector<v1::Run> Runs(const std::string& id) {
    auto runs = api_->ListRuns(id);
    EXPECT_TRUE(runs.ok()) << runs.status();
    return runs.ok() ? *std::move(runs) : std::vector<v1::Run>();
  }

  uint64_t Arrived(const std::string& id) {
    return receipts_.Stats(absl::StrCat("/tenants/default/schedules/", id)).distinct;
  }
  std::set<int64_t> LaunchMicros(const std::string& id) {
    std::set<int64_t> micros;
    for (const Receipt& receipt : receipts_.List(absl::StrCat("/tenants/default/schedules/", id)))
      micros.insert(receipt.launch_micros);
    return micros;
  }

  std::string folder_;
  fixtures::Receipts receipts_;
  std::unique_ptr<fixtures::HttpReceiver> http_;
  std::unique_ptr<Platform> platform_;
  std::unique_ptr<ApiClient> api_;
};

TEST_F(TimeTest, IntervalsAndListsFireAtTheirInstants) {
  const absl::Time base = absl::FromUnixSeconds(absl::ToUnixSeconds(absl::Now()));
  const absl::Time anchor = base + absl::Milliseconds(123);
  v1::Schedule every = To("/every");
  every.mutable_interval()->mutable_every()->set_seconds(1);
  *every.mutable_interval()->mutable_anchor_time() = ToTimestamp(anchor);
  *every.mutable_end_time() = ToTimestamp(anchor + absl::Seconds(8));
  Create("every", every);
  v1::Schedule list = To("/list");
  std::set<int64_t> instants;
  for (const int seconds : {3, 4, 9}) {
    *list.add_times() = ToTimestamp(base + absl::Seconds(seconds));
    instants.insert(absl::ToUnixMicros(base + absl::Seconds(seconds)));
  }
  Create("list", list);
  EXPECT_TRUE(Await([&] { return Arrived("list") == 3; }));
  EXPECT_EQ(LaunchMicros("list"), instants);
  EXPECT_TRUE(Await([&] {
    return api_->GetSchedule("list")->state() == v1::Schedule::FINISHED &&
           api_->GetSchedule("every")->state() == v1::Schedule::FINISHED;
  }));
  // Each whole second after the anchor, from the creation to the end, fires once.
  EXPECT_TRUE(Await([&] {
    const std::set<int64_t> micros = LaunchMicros("every");
    return !micros.empty() && *micros.rbegin() == absl::ToUnixMicros(anchor + absl::Seconds(7));
  }));
  const std::set<int64_t> micros = LaunchMicros("every");
  EXPECT_EQ(static_cast<int64_t>(micros.size()),
            (*micros.rbegin() - *micros.begin()) / 1'000'000 + 1);
  for (const int64_t instant : micros)
    EXPECT_EQ((instant - absl::ToUnixMicros(anchor)) % 1'000'000, 0);
  EXPECT_EQ(receipts_.Stats().early, 0u);
}

// True if the list has every second from the first run to the last, either fired or with the reason
// for a skip.
bool HasEverySecond(const std::vector<v1::Run>& runs) {
  if (runs.empty()) return false;
  int64_t seconds = 0;
  for (const v1::Run& run : runs)
    seconds += run.state() == v1::Run::SKIPPED ? run.occurrence_count() : 1;
  return seconds == Second(runs.back()) - Second(runs.front()) + 1;
}

bool WasSkipped(const v1::Run& run) { return run.state() == v1::Run::SKIPPED; }

TEST_F(TimeTest, MisfirePolicyDecidesAfterADowntimeAndNoOccurrenceIsMissing) {
  v1::Schedule schedule = To("/ticks");
  schedule.set_cron("* * * * * *");
  schedule.mutable_misfire_policy()->mutable_threshold()->set_seconds(1);
  schedule.mutable_misfire_policy()->set_max_catch_up(3);
  schedule.mutable_misfire_policy()->set_action(v1::MisfirePolicy::FIRE_LATEST);
  Create("latest", schedule);
  schedule.mutable_misfire_policy()->set_action(v1::MisfirePolicy::SKIP);
  Create("skip", schedule);
  schedule.mutable_misfire_policy()->set_action(v1::MisfirePolicy::FIRE_ALL);
  Create("all", schedule);
  EXPECT_TRUE(Await([&] { return Arrived("all") >= 2 && Arrived("skip") >= 2; }));
  platform_->Kill("emitter");
  const absl::Time killed = absl::Now();
  // Longer than the emitter plans ahead, by eight seconds.
  EXPECT_TRUE(Await([&] { return absl::Now() > killed + absl::Seconds(13); }));
  const absl::Status restarted = platform_->Restart("emitter");
  ASSERT_TRUE(restarted.ok()) << restarted;
  const absl::Time back = absl::Now();
  for (const std::string id : {"latest", "skip", "all"}) {
    // The run being delivered now may be missing from the list.
    std::vector<v1::Run> runs;
    EXPECT_TRUE(Await([&] {
      runs = Runs(id);
      return HasEverySecond(runs) && Second(runs.back()) > absl::ToUnixSeconds(back) + 2 &&
             std::any_of(runs.begin(), runs.end(), WasSkipped);
    })) << id;
    std::vector<v1::Run> skipped;
    std::copy_if(runs.begin(), runs.end(), std::back_inserter(skipped), WasSkipped);
    ASSERT_FALSE(skipped.empty()) << id;
    for (const v1::Run& run : skipped) EXPECT_EQ(run.skip_reason(), "misfire");
    // One record counts the older ones. The latest three have a record each if they were skipped.
    EXPECT_GT(skipped.front().occurrence_count(), 1) << id;
    const size_t single = id == "all" ? 0 : id == "latest" ? 2 : 3;
    EXPECT_EQ(skipped.size(), 1 + single) << id;
    for (size_t i = 1; i < skipped.size(); ++i) EXPECT_EQ(skipped[i].occurrence_count(), 1);
  }
}

TEST_F(TimeTest, AResumeFollowsTheMisfirePolicyAndABackfillFiresTheRest) {
  v1::Schedule schedule = To("/paused");
  schedule.set_cron("* * * * * *");
  schedule.mutable_misfire_policy()->mutable_threshold()->set_seconds(1);
  schedule.mutable_misfire_policy()->set_action(v1::MisfirePolicy::SKIP);
  Create("paused", schedule);
  EXPECT_TRUE(Await([&] { return Arrived("paused") >= 2; }));
  ASSERT_TRUE(api_->PauseSchedule("paused").ok());
  const absl::Time paused = absl::Now();
  EXPECT_TRUE(Await([&] { return absl::Now() > paused + absl::Seconds(9); }));
  const absl::Time resumed = absl::Now();
  ASSERT_TRUE(api_->ResumeSchedule("paused").ok());
  std::vector<v1::Run> runs;
  EXPECT_TRUE(Await([&] {
    runs = Runs("paused");
    const auto is_open = [&](const v1::Run& run) {
      return !run.has_complete_time() && Second(run) <= absl::ToUnixSeconds(resumed);
    };
    return HasEverySecond(runs) && Second(runs.back()) > absl::ToUnixSeconds(resumed) + 1 &&
           std::none_of(runs.begin(), runs.end(), is_open);
  }));
  const absl::Time begin = paused - absl::Seconds(3);
  const auto in_range = [&](int64_t second) {
    return absl::FromUnixSeconds(second) >= begin && absl::FromUnixSeconds(second) < resumed;
  };
  // Occurrences that had been emitted before the pause have runs whose events were skipped.
  EXPECT_GE(std::count_if(runs.begin(), runs.end(), WasSkipped), 2);
  int64_t missing = 0;
  for (int64_t second = absl::ToUnixSeconds(begin); second <= absl::ToUnixSeconds(resumed);
       ++second) {
    missing += in_range(second);
  }
  for (const v1::Run& run : runs) {
    if (WasSkipped(run)) {
      EXPECT_EQ(run.skip_reason(), "paused");
    }
    EXPECT_EQ(run.succeeded_count() + run.skipped_count(), run.has_complete_time());
    missing -= in_range(Second(run)) && run.succeeded_count() == 1;
  }
  EXPECT_GE(missing, 7);

  // The backfill fires three at a time, until the range is done. A second call finds everything
  // fired.
  absl::Time start = begin;
  int64_t fired = 0;
  for (int calls = 0; calls < 100; ++calls) {
    const auto part = api_->BackfillSchedule("paused", start, resumed, 3);
    ASSERT_TRUE(part.ok()) << part.status();
    fired += part->fired_count();
    EXPECT_LE(part->fired_count() + part->present_count(), 3);
    if (!part->has_next_start_time()) break;
    start = absl::FromUnixSeconds(part->next_start_time().seconds()) +
            absl::Nanoseconds(part->next_start_time().nanos());
  }
  EXPECT_EQ(fired, missing);
  const auto again = api_->BackfillSchedule("paused", begin, resumed, 1000);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->fired_count(), 0);
  EXPECT_TRUE(Await([&] {
    runs = Runs("paused");
    return HasEverySecond(runs) && std::none_of(runs.begin(), runs.end(), [&](const v1::Run& run) {
             return in_range(Second(run)) && run.succeeded_count() != 1;
           });
  }));
  EXPECT_EQ(receipts_.Stats().duplicates, 0u);
}

TEST_F(TimeTest, RunsDoNotOverlapWhereThePolicySaysSo) {
  v1::Schedule schedule = To("/delay/2500/slow");
  schedule.set_cron("* * * * * *");
  schedule.set_overlap_policy(v1::Schedule::SKIP);
  Create("skip", schedule);
  schedule.set_overlap_policy(v1::Schedule::BUFFER_ONE);
  Create("buffer", schedule);
  EXPECT_TRUE(Await([&] { return Arrived("skip") >= 4 && Arrived("buffer") >= 4; }));
  for (const std::string id : {"skip", "buffer"}) {
    ASSERT_TRUE(api_->PauseSchedule(id).ok());
    const std::vector<v1::Run> runs = Runs(id);
    EXPECT_TRUE(std::any_of(runs.begin(), runs.end(), [](const v1::Run& run) {
      return run.state() == v1::Run::SKIPPED && run.skip_reason() == "overlap";
    })) << id;
    // Runs follow one another: no arrival comes before the former one was answered.
    std::vector<int64_t> arrivals;
    for (const Receipt& receipt : receipts_.List("/tenants/default/schedules/" + id))
      arrivals.push_back(receipt.monotonic_micros);
    for (size_t i = 1; i < arrivals.size(); ++i)
      EXPECT_GE(arrivals[i] - arrivals[i - 1], 2'500'000) << id;
  }
}

TEST_F(TimeTest, ThePreviewSaysWhatTheScheduleWouldDo) {
  v1::PreviewScheduleRequest request;
  request.set_cron("30 2 * * *");
  request.set_time_zone("Europe/Berlin");
  request.set_count(3);
  *request.mutable_from_time() =
      ToTimestamp(absl::FromCivil(absl::CivilSecond(2027, 3, 27, 0, 0, 0), absl::UTCTimeZone()));
  const auto preview = api_->PreviewSchedule(request);
  ASSERT_TRUE(preview.ok()) << preview.status();
  EXPECT_EQ(preview->description(), "At 02:30, every day");
  std::vector<std::string> local, notes;
  for (const auto& occurrence : preview->occurrences()) {
    local.push_back(occurrence.local_time());
    notes.push_back(occurrence.note());
  }
  EXPECT_THAT(local, ElementsAre("2027-03-27T02:30:00+01:00", "2027-03-28T03:00:00+02:00",
                                 "2027-03-29T02:30:00+02:00"));
  EXPECT_THAT(notes, ElementsAre("", "GAP_FIRED_AFTER", ""));
  ASSERT_EQ(preview->children_size(), 1);
  EXPECT_EQ(preview->children(0).launch_expression(), "H:2");
  EXPECT_FALSE(preview->tz_version().empty());
  request.set_cron("0 0 30 2 *");
  EXPECT_EQ(api_->PreviewSchedule(request).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace time_test
}  // namespace escapement::integration
