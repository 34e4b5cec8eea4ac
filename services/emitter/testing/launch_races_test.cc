// Launch records that are written again, answers that come late, records that come in another order
// than their times: with an emitter on virtual time.

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "common/kv/group_parts.h"
#include "common/storage/occurrence_rows.h"
#include "services/emitter/testing/launch_world.h"

namespace escapement::emitter {
namespace launch_races_test {

using kv::ColumnFamily;
using storage::v1::RUN_OVERLAP_KIND_BUFFER_ONE;
using storage::v1::RUN_OVERLAP_KIND_CANCEL_PREVIOUS;
using storage::v1::RUN_OVERLAP_KIND_SKIP;

constexpr char kEveryTen[] = "*/10 * * * * *";
constexpr char kOtherTimes[] = "59 * * * * *";

class LaunchRacesTest : public LaunchWorld {
 protected:
  void ChangeTo(const Uid& uid, const std::string& cron) {
    Update(uid, [&](storage::v1::DefinitionRecord& definition) { definition.set_cron(cron); });
  }
  // As the master does it that changes back to the occurrence so long after start_.
  void PutRecord(const Uid& uid, absl::Duration after_start) {
    const absl::Time due = start_ + after_start;
    kv::Group group;
    AddOccurrenceRows(SourceOf(schedules_[uid].definition),
                      {.id = At(after_start), .nominal_time = due, .launch_time = due}, layout_,
                      Now(), group.mutations);
    Commit({group});
  }
  bool Launched(const Uid& uid, absl::Duration after_start) const {
    return LaunchedRuns(uid).contains(At(after_start));
  }
};

// A change back may have been decided before the occurrence was due.
TEST_F(LaunchRacesTest, AnOccurrenceThatIsWantedAgainAtItsInstantHasNotEnded) {
  const Uid uid = AddOverlapping(kEveryTen, RUN_OVERLAP_KIND_SKIP);
  Begin();
  AdvanceWithRuns(absl::Seconds(7), absl::Seconds(1));
  ASSERT_TRUE(Waiting(uid).contains(At(absl::Seconds(10))));
  ChangeTo(uid, kOtherTimes);
  AdvanceWithRuns(start_ + absl::Seconds(10) + absl::Milliseconds(500) - Now(), absl::Seconds(1));
  EXPECT_TRUE(Skipped(uid).empty());
  ChangeTo(uid, kEveryTen);
  PutRecord(uid, absl::Seconds(10));
  AdvanceWithRuns(absl::Seconds(1), absl::Seconds(1));
  EXPECT_TRUE(Skipped(uid).empty());
  EXPECT_TRUE(Launched(uid, absl::Seconds(10)));
}

TEST_F(LaunchRacesTest, SupersededRecordEndsASecondAfterItsInstant) {
  const Uid uid = AddOverlapping(kEveryTen, RUN_OVERLAP_KIND_BUFFER_ONE);
  Begin();
  AdvanceWithRuns(absl::Seconds(7), absl::Seconds(1));
  ChangeTo(uid, kOtherTimes);
  AdvanceWithRuns(start_ + absl::Milliseconds(11'100) - Now(), absl::Seconds(1));
  EXPECT_EQ(Skipped(uid)[At(absl::Seconds(10))], "superseded");
  EXPECT_FALSE(Launched(uid, absl::Seconds(10)));
}

TEST_F(LaunchRacesTest, ARecordWrittenAnewBeforeTheAnswerThatItIsSkippedIsLaunched) {
  const Uid uid = AddOverlapping(kEveryTen, RUN_OVERLAP_KIND_SKIP);
  Begin();
  AdvanceWithRuns(absl::Seconds(7), absl::Seconds(1));
  ChangeTo(uid, kOtherTimes);
  std::vector<std::function<void()>> answers;
  hooked_->before_answer = [&](std::function<void()> answer) {
    answers.push_back(std::move(answer));
  };
  AdvanceWithRuns(start_ + absl::Seconds(12) - Now(), absl::Seconds(1));
  ASSERT_EQ(Skipped(uid).size(), 1u);
  ChangeTo(uid, kEveryTen);
  PutRecord(uid, absl::Seconds(10));
  AdvanceWithRuns(absl::Milliseconds(100), absl::Seconds(1));
  hooked_->before_answer = nullptr;
  for (const auto& answer : answers) answer();
  AdvanceWithRuns(absl::Seconds(1), absl::Seconds(1));
  EXPECT_TRUE(Launched(uid, absl::Seconds(10)));
}

// Another run has been emitted since, and nothing of the one before is in memory.
TEST_F(LaunchRacesTest, ALateAnswerToALaunchSaysNothingOfARunThatHasEnded) {
  const Uid uid = AddOverlapping(kEveryTen, RUN_OVERLAP_KIND_BUFFER_ONE);
  Begin();
  AdvanceWithRuns(absl::Seconds(9), absl::Seconds(1));
  std::vector<std::function<void()>> answers;
  hooked_->before_answer = [&](std::function<void()> answer) {
    answers.push_back(std::move(answer));
  };
  AdvanceWithRuns(absl::Seconds(2), absl::Milliseconds(100));
  ASSERT_TRUE(Launched(uid, absl::Seconds(10)));
  ASSERT_TRUE(Active(uid).empty());
  ASSERT_TRUE(Waiting(uid).empty());
  PutRecord(uid, absl::Seconds(20));
  AdvanceWithRuns(absl::Milliseconds(100), absl::Seconds(1));
  hooked_->before_answer = nullptr;
  for (const auto& answer : answers) answer();
  AdvanceWithRuns(start_ + absl::Milliseconds(20'050) - Now(), absl::Seconds(1));
  EXPECT_TRUE(Launched(uid, absl::Seconds(20)));
}

// After a downtime, where a window is emitted in two parts: the child of second 0 stands first.
TEST_F(LaunchRacesTest, EarlierOccurrenceEmittedLaterDoesNotOverlap) {
  const Uid uid = AddOverlapping("0 0,1 6,7 1 1 *", RUN_OVERLAP_KIND_CANCEL_PREVIOUS);
  Begin();
  ChangeTo(uid, "*/10 0,1 * * * *");
  PutRecord(uid, absl::Seconds(10));
  AdvanceWithRuns(absl::Seconds(11), absl::Hours(1));
  ASSERT_TRUE(Launched(uid, absl::Seconds(10)));
  PutRecord(uid, absl::ZeroDuration());
  AdvanceWithRuns(absl::Seconds(1), absl::Hours(1));
  EXPECT_FALSE(Launched(uid, absl::ZeroDuration()));
  EXPECT_EQ(Skipped(uid)[At(absl::ZeroDuration())], "overlap");
}

}  // namespace launch_races_test
}  // namespace escapement::emitter
