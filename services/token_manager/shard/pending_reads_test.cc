#include "services/token_manager/shard/pending_reads.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement::token_manager {
namespace pending_reads_test {

using ::testing::ElementsAre;

TEST(RowReadsTest, KeyThatIsWantedAgainMakesItsReadStale) {
  RowReads reads;
  reads.Want("a");
  reads.Want("b");
  const RowReads::Read first = reads.Begin(10);
  EXPECT_THAT(first.keys, ElementsAre("a", "b"));
  reads.Want("a");
  const RowReads::Read second = reads.Begin(10);
  EXPECT_THAT(second.keys, ElementsAre("a"));
  EXPECT_FALSE(reads.End("a", first.number));
  EXPECT_TRUE(reads.End("b", first.number));
  EXPECT_TRUE(reads.Pending("a"));
  EXPECT_TRUE(reads.End("a", second.number));
  EXPECT_FALSE(reads.Pending("a"));
}

TEST(RowReadsTest, DeletionHereMakesAReadStale) {
  RowReads reads;
  reads.Want("a");
  const RowReads::Read read = reads.Begin(10);
  reads.NoteDeleted("a", /*read_seq=*/0);
  EXPECT_FALSE(reads.End("a", read.number));
  EXPECT_FALSE(reads.wanted());
}

TEST(RowReadsTest, DeletionByAnotherProcessIsReadAgain) {
  RowReads reads;
  reads.NoteDeletion("b");
  EXPECT_FALSE(reads.wanted());
  reads.Want("a");
  const RowReads::Read read = reads.Begin(10);
  reads.NoteDeletion("a");
  EXPECT_FALSE(reads.End("a", read.number));
  EXPECT_THAT(reads.Begin(10).keys, ElementsAre("a"));
}

TEST(RowReadsTest, ReportsBeforeADeletionAreStaleUntilTheWatchHasPassedIt) {
  RowReads reads;
  reads.WatchedTo(10);
  reads.NoteDeleted("a", /*read_seq=*/10);
  EXPECT_FALSE(reads.Stale("a", 10));  // the watch cannot report it any more
  reads.NoteDeleted("a", /*read_seq=*/20);
  reads.NoteDeleted("a", /*read_seq=*/30);
  reads.WatchedTo(20);
  EXPECT_TRUE(reads.Stale("a", 30));
  EXPECT_FALSE(reads.Stale("a", 31));
  reads.WatchedTo(30);
  EXPECT_FALSE(reads.Stale("a", 30));
}

}  // namespace pending_reads_test
}  // namespace escapement::token_manager
