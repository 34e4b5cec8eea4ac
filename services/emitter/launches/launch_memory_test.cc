#include "services/emitter/launches/launch_memory.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/base/proto_time.h"
#include "common/base/uid.h"
#include "common/storage/children_table.h"
#include "gtest/gtest.h"
#include "services/emitter/base/options.h"

namespace escapement::emitter {
namespace launch_memory_test {

using Kept = LaunchMemory::Kept;
using Read = std::pair<uint16_t, std::string>;
using Left = std::pair<Uid, size_t>;

constexpr uint16_t kPartition = 3;
const Uid kA = Uid::FromHalves(1, 1);
const Uid kB = Uid::FromHalves(1, 2);

absl::Time At(int second) { return absl::FromUnixSeconds(1'000 + second); }

LaunchKey KeyOf(const Uid& uid, int second) {
  return {kPartition, At(second), uid, "occurrence " + std::to_string(second)};
}
std::string Key(const Uid& uid, int second) { return EncodeLaunchKey(KeyOf(uid, second)); }

class LaunchMemoryTest : public ::testing::Test {
 protected:
  void Hold(size_t launches_max) {
    memory_ = std::make_unique<LaunchMemory>(
        launches_max,
        LaunchMemory::Observer{.read_from =
                                   [this](uint16_t partition, const std::string& key) {
                                     reads_.push_back({partition, key});
                                   },
                               .on_left =
                                   [this](const Uid& uid, size_t left) {
                                     left_.push_back({uid, left});
                                   }});
  }

  Kept Keep(const Uid& uid, int second, kv::CommitSeq seq = 1, int put_off_by = 0) {
    Launch launch;
    launch.key = KeyOf(uid, second);
    launch.record.set_nominal_time_micros(ToMicros(At(second - put_off_by)));
    launch.seq = seq;
    return memory_->Keep(Key(uid, second), std::move(launch));
  }

  bool Holds(const Uid& uid, int second) const {
    return memory_->Find(uid, Key(uid, second)) != nullptr;
  }

  std::vector<Read> reads_;
  std::vector<Left> left_;
  std::unique_ptr<LaunchMemory> memory_;
};

TEST_F(LaunchMemoryTest, ARecordIsReplacedOnlyByANewerOne) {
  Hold(10);
  EXPECT_EQ(Keep(kA, 1, /*seq=*/5, /*put_off_by=*/1), Kept::kKept);
  EXPECT_EQ(memory_->Find(kA)->put_off, 1u);
  memory_->SetHasRun(kA, Key(kA, 1));
  EXPECT_EQ(Keep(kA, 1, /*seq=*/5), Kept::kAsBefore);
  EXPECT_TRUE(memory_->Find(kA, Key(kA, 1))->has_run);
  EXPECT_EQ(Keep(kA, 1, /*seq=*/6), Kept::kKept);
  EXPECT_FALSE(memory_->Find(kA, Key(kA, 1))->has_run);
  EXPECT_EQ(memory_->Find(kA)->put_off, 0u);
  EXPECT_EQ(memory_->launches(), 1u);
}

TEST_F(LaunchMemoryTest, AScheduleIsDroppedWithItsLastRecord) {
  Hold(10);
  Keep(kA, 1);
  Keep(kA, 2);
  EXPECT_TRUE(memory_->Forget(kA, Key(kA, 2)));
  EXPECT_FALSE(memory_->Forget(kA, Key(kA, 2)));
  EXPECT_EQ(memory_->Find(kA)->last, At(1));
  EXPECT_TRUE(left_.empty());
  EXPECT_TRUE(memory_->Forget(kA, Key(kA, 1)));
  EXPECT_EQ(left_, (std::vector<Left>{{kA, 0}}));
  EXPECT_EQ(memory_->Find(kA), nullptr);
  EXPECT_TRUE(reads_.empty());
}

TEST_F(LaunchMemoryTest, APartitionGoesWithItsSchedulesOnly) {
  Hold(10);
  Keep(kA, 1);
  Keep(kB, 2);
  memory_->DropPartition(kPartition + 1);
  EXPECT_EQ(memory_->launches(), 2u);
  memory_->DropPartition(kPartition);
  EXPECT_EQ(memory_->launches(), 0u);
  EXPECT_EQ(left_, (std::vector<Left>{{kA, 0}, {kB, 0}}));
}

TEST_F(LaunchMemoryTest, TheLatestGoFirstForWhatIsEarlier) {
  Hold(3);
  Keep(kA, 10);
  Keep(kB, 20);
  Keep(kA, 30);
  EXPECT_EQ(Keep(kB, 40), Kept::kNoRoom);
  EXPECT_EQ(Keep(kB, 30), Kept::kNoRoom);
  EXPECT_TRUE(reads_.empty());

  EXPECT_EQ(Keep(kB, 15), Kept::kKept);
  EXPECT_FALSE(Holds(kA, 30));
  EXPECT_EQ(Keep(kA, 5), Kept::kKept);
  EXPECT_FALSE(Holds(kB, 20));
  EXPECT_EQ(Keep(kA, 6), Kept::kKept);
  EXPECT_EQ(left_, (std::vector<Left>{{kB, 0}}));
  EXPECT_EQ(reads_,
            (std::vector<Read>{
                {kPartition, Key(kA, 30)}, {kPartition, Key(kB, 20)}, {kPartition, Key(kB, 15)}}));
  EXPECT_EQ(memory_->launches(), 3u);
}

TEST_F(LaunchMemoryTest, FirstRecordOfAPausedScheduleStays) {
  Hold(3);
  for (int second : {1, 2, 3}) Keep(kA, second);
  memory_->OnPaused(kA, true);
  EXPECT_EQ(memory_->launches(), 3u);

  // Before anything that is launched later, and for it.
  EXPECT_EQ(Keep(kB, 50), Kept::kKept);
  EXPECT_EQ(memory_->launches(), 2u);
  EXPECT_TRUE(Holds(kA, 1));
  EXPECT_EQ(left_, (std::vector<Left>{{kA, 1}}));
  // They are not missed while it is paused.
  EXPECT_TRUE(reads_.empty());
  EXPECT_EQ(Keep(kA, 3), Kept::kAsBefore);
  EXPECT_EQ(memory_->launches(), 2u);

  memory_->OnPaused(kA, false);
  EXPECT_EQ(reads_, (std::vector<Read>{{kPartition, Key(kA, 2)}}));
  EXPECT_EQ(Keep(kA, 2), Kept::kKept);
}

TEST_F(LaunchMemoryTest, RoomIsNotMadeForWhatThenLiesBeyond) {
  Hold(2);
  Keep(kA, 1);
  Keep(kA, 2);
  memory_->OnPaused(kA, true);
  EXPECT_EQ(Keep(kA, 3), Kept::kAsBefore);
  EXPECT_EQ(memory_->launches(), 1u);
  EXPECT_EQ(memory_->Find(kA)->beyond, Key(kA, 2));
}

TEST_F(LaunchMemoryTest, TheRestOfAPausedScheduleIsReadWhenItsFirstRecordHasGone) {
  Hold(2);
  Keep(kA, 1);
  Keep(kA, 2);
  memory_->OnPaused(kA, true);
  Keep(kB, 3);
  EXPECT_TRUE(memory_->Forget(kA, Key(kA, 1)));
  EXPECT_EQ(left_, (std::vector<Left>{{kA, 1}, {kA, 0}}));
  EXPECT_EQ(reads_, (std::vector<Read>{{kPartition, Key(kA, 2)}}));
}

TEST_F(LaunchMemoryTest, RoomIsForWhatIsEarlierOrDueSoonUnlessThereIsMuch) {
  const int far = 1'000'000;
  Hold(4);
  Keep(kA, 10);
  Keep(kA, 20);
  EXPECT_TRUE(memory_->RoomFrom(Key(kB, far), At(0)));
  Keep(kA, 30);
  // More than half is in use.
  EXPECT_FALSE(memory_->RoomFrom(Key(kB, far), At(0)));
  EXPECT_TRUE(memory_->RoomFrom(Key(kB, 29), absl::InfinitePast()));
  EXPECT_FALSE(memory_->RoomFrom(Key(kB, 40), absl::InfinitePast()));
  const absl::Time soon = At(40) - kLaunchReadAhead;
  EXPECT_TRUE(memory_->RoomFrom(Key(kB, 40), soon));
  EXPECT_FALSE(memory_->RoomFrom(Key(kB, 40), soon - absl::Microseconds(1)));
  Keep(kA, 35);
  // All is.
  EXPECT_FALSE(memory_->RoomFrom(Key(kB, 40), soon));
  EXPECT_TRUE(memory_->RoomFrom(Key(kB, 34), soon));
  memory_->OnPaused(kA, true);
  EXPECT_TRUE(memory_->RoomFrom(Key(kB, 40), soon));
  // A range before all records of the partition is read in any case.
  EXPECT_TRUE(memory_->RoomFrom(LaunchPrefix(kPartition), absl::InfinitePast()));
}

}  // namespace launch_memory_test
}  // namespace escapement::emitter
