// The contract of every KvStore for watches, one sentence for each test.

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/conformance/kv_conformance.h"

namespace escapement::kv {
namespace kv_watch_conformance_test {

using Kind = Condition::Kind;
constexpr ColumnFamily kEvents = ColumnFamily::kEvents;
constexpr ColumnFamily kStates = ColumnFamily::kStates;

class KvWatchConformance : public KvConformance {};

TEST_P(KvWatchConformance, AWatchTellsWhatIsCommittedInItsRangeInOrder) {
  Must({{{}, {Put(kEvents, "b0", "before")}}});
  const CommitSeq from = rig_->Get({}).value().seq;
  Must({{{}, {Put(kEvents, "b1", "missed by nobody")}}});
  const uint64_t other = rig_->OpenSession().value().session;
  WatchLog all;
  WatchLog foreign;
  auto watch = rig_->store().OpenWatch({kEvents, "b", "c", from, 0}, all.observer());
  auto watch2 = rig_->store().OpenWatch({kEvents, "b", "c", from, session_}, foreign.observer());
  Must({{{},
         {Put(kEvents, "a", "outside"), Put(kEvents, "b2", "v"), Put(kStates, "b2", "elsewhere")}},
        {{Cond(kEvents, "none", Kind::kPresent)}, {Put(kEvents, "b3", "not applied")}}});
  ASSERT_TRUE(rig_->Commit(Request(other, 1, {{{}, {Delete(kEvents, "b1")}}})).ok());
  Must({{{}, {Put(kEvents, "b9", std::string(kWatchValueBytesMax + 1, 'x'))}}});
  auto seen = all.WaitFor(4);
  ASSERT_EQ(seen.size(), 4);
  EXPECT_EQ(seen[0].key, "b1");
  EXPECT_EQ(seen[0].value, "missed by nobody");
  EXPECT_EQ(seen[1].key, "b2");
  EXPECT_EQ(seen[2].kind, Mutation::Kind::kDelete);
  EXPECT_TRUE(seen[3].value_omitted);
  EXPECT_THAT(all.seqs(), testing::ElementsAre(from + 1, from + 2, from + 3, from + 4));
  auto others = foreign.WaitFor(1);
  ASSERT_EQ(others.size(), 1);
  EXPECT_EQ(others[0].key, "b1");
}

TEST_P(KvWatchConformance, AfterItsEndHasMovedAWatchMissesNothingAScanHasNotShown) {
  const CommitSeq from = rig_->Get({}).value().seq;
  WatchLog log;
  auto watch = rig_->store().OpenWatch({kEvents, "a", "b", from, 0}, log.observer());
  Must({{{}, {Put(kEvents, "b1", "beyond")}}});
  watch->MoveEnd(0, "c");
  EXPECT_EQ(Keys({.cf = kEvents, .begin = "b", .end = "c"}), "b1 ");
  Must({{{}, {Put(kEvents, "b2", "within")}}});
  auto seen = log.WaitFor(1);
  ASSERT_GE(seen.size(), 1);
  EXPECT_EQ(seen.back().key, "b2");
}

TEST_P(KvWatchConformance, AWatchOfSeveralRangesTellsOfThoseAlone) {
  const CommitSeq from = rig_->Get({}).value().seq;
  WatchLog log;
  auto watch = rig_->store().OpenWatch({.cf = kEvents,
                                        .begin = "b",
                                        .end = "b5",
                                        .from_seq = from,
                                        .then = {{"c", "c"}, {"d", "z"}, {"e", ""}}},
                                       log.observer());
  Must({{{}, {Put(kEvents, "a", "before"), Put(kEvents, "b", "1"), Put(kEvents, "b5", "between")}},
        {{}, {Put(kEvents, "c", "of an empty range"), Put(kEvents, "d9", "2")}},
        {{}, {Put(kStates, "d", "elsewhere"), Put(kEvents, "e", "3"), Put(kEvents, "zz", "4")}}});
  auto seen = log.WaitFor(4);
  ASSERT_EQ(seen.size(), 4);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(seen[i].value, std::to_string(i + 1));

  watch->MoveEnd(0, "b1");
  watch->MoveEnd(1, "c5");
  watch->MoveEnd(3, "f");
  watch->MoveEnd(4, "g");  // there is no such range
  EXPECT_EQ(Keys({.cf = kEvents, .begin = "c", .end = "d"}), "c ");
  Must({{{}, {Delete(kEvents, "b"), Delete(kEvents, "b1"), Delete(kEvents, "c")}},
        {{},
         {Delete(kEvents, "c5"), Delete(kEvents, "d9"), Delete(kEvents, "e"),
          Delete(kEvents, "f")}}});
  seen = log.WaitFor(8);
  std::string told;
  for (size_t i = 4; i < seen.size(); ++i) told += seen[i].key + " ";
  EXPECT_EQ(told, "b c d9 e ");
}

TEST_P(KvWatchConformance, AWatchOfSeveralRangesTellsOfARangeDeleteThatTouchesOne) {
  const auto claim = [](int i) { return std::string(10, 'q') + std::to_string(i); };
  WatchLog log;
  auto watch = rig_->store().OpenWatch({.cf = ColumnFamily::kInflight,
                                        .begin = claim(2),
                                        .end = claim(4),
                                        .from_seq = kWatchFromNow,
                                        .then = {{claim(6), claim(8)}}},
                                       log.observer());
  const auto clear = [&](int from, int to) {
    Must({{{}, {DeleteRange(ColumnFamily::kInflight, claim(from), claim(to))}}});
  };
  clear(0, 2);  // up to the first range
  clear(1, 3);
  clear(4, 6);  // between the ranges
  clear(5, 7);
  clear(8, 9);  // behind the last range
  clear(0, 9);
  const auto seen = log.WaitFor(3);
  ASSERT_EQ(seen.size(), 3);
  EXPECT_EQ(seen[0].key, claim(1));
  EXPECT_EQ(seen[1].key, claim(5));
  EXPECT_EQ(seen[2].key, claim(0));
}

TEST_P(KvWatchConformance, AWatchWhoseRangesDoNotAscendIsRefused) {
  for (const std::string begin : {"a", "b"}) {
    WatchLog log;
    auto watch = rig_->store().OpenWatch({.cf = kEvents,
                                          .begin = "b",
                                          .end = "c",
                                          .from_seq = kWatchFromNow,
                                          .then = {{begin, "d"}}},
                                         log.observer());
    const auto why = log.WaitForLag();
    ASSERT_TRUE(why.has_value());
    EXPECT_EQ(why->code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST_P(KvWatchConformance, AWatchThatBeginsTooFarBackLags) {
  for (int i = 0; i < 3; ++i) Must({{{}, {Put(kEvents, "big", std::string(700'000, 'x'))}}});
  WatchLog log;
  auto watch = rig_->store().OpenWatch({kEvents, "a", "z", 0, 0}, log.observer());
  EXPECT_TRUE(log.WaitForLag().has_value());
}

TEST_P(KvWatchConformance, AWatchFromNowOnHearsWhatComes) {
  for (int i = 0; i < 3; ++i) Must({{{}, {Put(kEvents, "big", std::string(700'000, 'x'))}}});
  WatchLog log;
  auto watch = rig_->store().OpenWatch({kEvents, "a", "z", kWatchFromNow, 0}, log.observer());
  rig_->Get({}).value();
  Must({{{}, {Put(kEvents, "k", "v")}}});
  EXPECT_EQ(log.WaitFor(1).at(0).key, "k");
}

TEST_P(KvWatchConformance, ARestartEndsWatchesAndKeepsWhatWasAcknowledged) {
  WatchLog log;
  auto watch = rig_->store().OpenWatch({kEvents, "a", "z", kWatchFromNow, 0}, log.observer());
  const CommitSeq seq = Must({{{}, {Put(kEvents, "k", "v")}}}).seq;
  rig_->Restart();
  EXPECT_TRUE(log.WaitForLag().has_value());
  EXPECT_EQ(Value(kEvents, "k"), "v");
  EXPECT_EQ(Must({{{}, {Put(kEvents, "l", "v")}}}).seq, seq + 1);
}

INSTANTIATE_TEST_SUITE_P(Stores, KvWatchConformance, EveryStore(), NameOfStore);

}  // namespace kv_watch_conformance_test
}  // namespace escapement::kv
