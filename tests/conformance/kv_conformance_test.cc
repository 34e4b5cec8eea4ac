// The contract of every KvStore, one sentence for each test.

#include "tests/conformance/kv_conformance.h"

#include <functional>
#include <string>

#include "common/base/key_codec.h"
#include "common/kv/layout.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement::kv {
namespace kv_conformance_test {

using Kind = Condition::Kind;
constexpr ColumnFamily kEvents = ColumnFamily::kEvents;
constexpr ColumnFamily kStates = ColumnFamily::kStates;

TEST_P(KvConformance, SequencesAreDenseAndCountOnlyWhatApplies) {
  EXPECT_EQ(Must({{{}, {Put(kEvents, "a", "1")}}}).seq, 1);
  EXPECT_EQ(Must({{{Cond(kEvents, "a", Kind::kAbsent)}, {Put(kEvents, "a", "2")}}}).seq, 1);
  EXPECT_EQ(Must({{{}, {Put(kEvents, "b", "1")}}}).seq, 2);
  EXPECT_EQ(Value(kEvents, "a"), "1");
  EXPECT_EQ(rig_->Get({}).value().seq, 2);
}

TEST_P(KvConformance, GroupsSeeTheEffectsOfEarlierGroups) {
  auto result = Must({{{Cond(kEvents, "k", Kind::kAbsent)}, {Put(kEvents, "k", "1")}},
                      {{Cond(kEvents, "x", Kind::kAbsent), Cond(kEvents, "k", Kind::kAbsent)},
                       {Put(kEvents, "x", "")}},
                      {{Cond(kEvents, "k", Kind::kValueEquals, "1")}, {Delete(kEvents, "k")}},
                      {{Cond(kEvents, "k", Kind::kAbsent)}, {Put(kEvents, "k", "2")}}});
  ASSERT_EQ(result.verdicts.size(), 4);
  EXPECT_TRUE(result.verdicts[0].applied);
  EXPECT_FALSE(result.verdicts[1].applied);
  EXPECT_EQ(result.verdicts[1].failed_condition, 1);
  EXPECT_TRUE(result.verdicts[2].applied);
  EXPECT_TRUE(result.verdicts[3].applied);
  EXPECT_EQ(Value(kEvents, "k"), "2");
  EXPECT_EQ(Value(kEvents, "x"), std::nullopt);
}

TEST_P(KvConformance, ConditionsHoldWhenTheySay) {
  Must({{{}, {Put(kStates, "k", "epoch7|rest")}}});
  EXPECT_TRUE(Holds(Cond(kStates, "k", Kind::kPresent)));
  EXPECT_FALSE(Holds(Cond(kStates, "n", Kind::kPresent)));
  EXPECT_TRUE(Holds(Cond(kStates, "n", Kind::kAbsent)));
  EXPECT_FALSE(Holds(Cond(kStates, "k", Kind::kAbsent)));
  EXPECT_TRUE(Holds(Cond(kStates, "k", Kind::kValueEquals, "epoch7|rest")));
  EXPECT_FALSE(Holds(Cond(kStates, "k", Kind::kValueEquals, "epoch7")));
  EXPECT_TRUE(Holds(Cond(kStates, "k", Kind::kValuePrefix, "epoch7|")));
  EXPECT_FALSE(Holds(Cond(kStates, "k", Kind::kValuePrefix, "epoch8|")));
  EXPECT_TRUE(Holds(Cond(kStates, "a", Kind::kRangeCount, "z", 1)));
  EXPECT_FALSE(Holds(Cond(kStates, "a", Kind::kRangeCount, "z", 2)));
  EXPECT_TRUE(Holds(Cond(kStates, "l", Kind::kRangeCount, "z", 0)));
}

TEST_P(KvConformance, UnchangedSinceNoticesEveryWrite) {
  const CommitSeq before = Must({{{}, {Put(kStates, "k", "1")}}}).seq;
  EXPECT_TRUE(Holds(Cond(kStates, "k", Kind::kUnchangedSince, "", 0, before)));
  EXPECT_FALSE(Holds(Cond(kStates, "k", Kind::kUnchangedSince, "", 0, before - 1)));
  Must({{{}, {Delete(kStates, "k")}}});
  EXPECT_FALSE(Holds(Cond(kStates, "k", Kind::kUnchangedSince, "", 0, before)));
  // Also within one commit.
  const CommitSeq now = rig_->Get({}).value().seq;
  auto result =
      Must({{{}, {Put(kStates, "k", "2")}},
            {{Cond(kStates, "k", Kind::kUnchangedSince, "", 0, now)}, {Put(kStates, "k", "3")}}});
  EXPECT_FALSE(result.verdicts[1].applied);
}

TEST_P(KvConformance, AfterARestartOnlyTheLatestSequenceCountsAsUnchanged) {
  const CommitSeq first = Must({{{}, {Put(kStates, "k", "1")}}}).seq;
  const CommitSeq last = Must({{{}, {Put(kStates, "other", "1")}}}).seq;
  rig_->Restart();
  EXPECT_FALSE(Holds(Cond(kStates, "k", Kind::kUnchangedSince, "", 0, first)));
  EXPECT_TRUE(Holds(Cond(kStates, "k", Kind::kUnchangedSince, "", 0, last)));
}

TEST_P(KvConformance, ValueACallerSawNeedsNoSecondReadUntilItChanges) {
  const CommitSeq seen = Must({{{}, {Put(kStates, "k", "1")}}}).seq;
  // The condition has the value that the caller saw; the store trusts it while the key is
  // unchanged.
  EXPECT_TRUE(Holds(Cond(kStates, "k", Kind::kValueEquals, "1", 0, seen)));
  Must({{{}, {Put(kStates, "k", "2")}}});
  EXPECT_FALSE(Holds(Cond(kStates, "k", Kind::kValueEquals, "1", 0, seen)));
}

TEST_P(KvConformance, AFenceThatDoesNotHoldStopsTheWholeCommit) {
  CommitRequest request;
  request.fence = {Cond(kStates, "lease", Kind::kPresent)};
  request.groups = {{{}, {Put(kEvents, "a", "1")}}};
  EXPECT_TRUE(absl::IsFailedPrecondition(Try(request)));
  EXPECT_EQ(Value(kEvents, "a"), std::nullopt);
  Must({{{}, {Put(kStates, "lease", "1")}}});
  EXPECT_TRUE(Try(request).ok());
  EXPECT_EQ(Value(kEvents, "a"), "1");
}

TEST_P(KvConformance, RangesAreDeletedOnlyWhereTheContractAllows) {
  auto attempt = [&](Group group) {
    CommitRequest request;
    request.groups = {std::move(group)};
    return Try(std::move(request)).code();
  };
  const std::string claim = "0123456789claim";
  EXPECT_EQ(attempt({{}, {DeleteRange(kEvents, "a", "z")}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      attempt({{Cond(kEvents, "a", Kind::kRangeCount, "y", 0)}, {DeleteRange(kEvents, "a", "z")}}),
      absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      attempt({{Cond(kEvents, "a", Kind::kRangeCount, "z", 0)}, {DeleteRange(kEvents, "a", "z")}}),
      absl::StatusCode::kOk);
  EXPECT_EQ(attempt({{}, {DeleteRange(ColumnFamily::kInflight, claim, claim + "\xff")}}),
            absl::StatusCode::kOk);
  EXPECT_EQ(attempt({{}, {DeleteRange(ColumnFamily::kInflight, "01234", "01235")}}),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(attempt({{}, {DeleteRange(ColumnFamily::kInflight, claim, "1")}}),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(attempt({{}, {DeleteRange(ColumnFamily::kDone, "s0day1", "s0day2")}}),
            absl::StatusCode::kOk);
  EXPECT_EQ(attempt({{}, {DeleteRange(ColumnFamily::kDone, "s0day1", "s0day3")}}),
            absl::StatusCode::kInvalidArgument);
}

TEST_P(KvConformance, AGroupThatPutsAKeyAndWritesItAgainIsRefused) {
  auto attempt = [&](Group group) {
    CommitRequest request;
    request.groups = {std::move(group)};
    return Try(std::move(request)).code();
  };
  const Condition absent = Cond(kEvents, "k", Kind::kAbsent);
  // With 100 further keys the store looks for repeated keys in another way.
  for (const int others : {0, 100}) {
    Group group = {{absent, absent}, {Put(kEvents, "k", "1")}};
    for (int i = 0; i < others; ++i)
      group.mutations.push_back(Put(kEvents, "o" + std::to_string(i), ""));
    for (const Mutation& second :
         {Put(kEvents, "k", "2"), Put(kEvents, "k", "1"), Delete(kEvents, "k")}) {
      Group twice = group;
      twice.mutations.push_back(second);
      EXPECT_EQ(attempt(std::move(twice)), absl::StatusCode::kInvalidArgument);
    }
    // An exact repeat is allowed if no condition asks for absence.
    Group repeated = group;
    repeated.conditions.clear();
    repeated.mutations.push_back(Put(kEvents, "k", "2"));
    EXPECT_EQ(attempt(repeated), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(Value(kEvents, "k"), std::nullopt);
    repeated.mutations.back().value = "1";
    EXPECT_EQ(attempt(std::move(repeated)), absl::StatusCode::kOk);
    Must({{{}, {Delete(kEvents, "k")}}});
    // A delete followed by a put is one replacement.
    Group replaced = group;
    replaced.conditions.clear();
    replaced.mutations.insert(replaced.mutations.begin(), Delete(kEvents, "k"));
    EXPECT_EQ(attempt(std::move(replaced)), absl::StatusCode::kOk);
    EXPECT_EQ(Value(kEvents, "k"), "1");
    Must({{{}, {Delete(kEvents, "k")}}});
    // The same key in another column family is a different key.
    group.mutations.push_back(Put(kStates, "k", "2"));
    EXPECT_EQ(attempt(std::move(group)), absl::StatusCode::kOk);
    Must({{{}, {Delete(kEvents, "k")}}});
  }
}

TEST_P(KvConformance, SmallAndLargeRangesGoAway) {
  for (int keys : {3, 300}) {
    Group puts;
    for (int i = 0; i < keys; ++i)
      puts.mutations.push_back(Put(kEvents, "r" + std::to_string(1000 + i), "v"));
    puts.mutations.push_back(Put(kEvents, "s", "stays"));
    const CommitSeq put = Must({puts}).seq;
    auto result = Must(
        {{{Cond(kEvents, "r", Kind::kRangeCount, "s", keys)}, {DeleteRange(kEvents, "r", "s")}},
         {{Cond(kEvents, "r", Kind::kRangeCount, "s", 0), Cond(kEvents, "r1001", Kind::kAbsent)},
          {Put(kEvents, "r5", "later")}}});
    EXPECT_TRUE(result.verdicts[0].applied);
    EXPECT_TRUE(result.verdicts[1].applied);
    EXPECT_EQ(Keys({.cf = kEvents, .begin = "", .end = ""}), "r5 s ");
    EXPECT_FALSE(Holds(Cond(kEvents, "r1002", Kind::kUnchangedSince, "", 0, put)));
    Must({{{}, {Delete(kEvents, "r5")}}});
  }
}

TEST_P(KvConformance, StampsAreStoreTimeAndPassWhenItHasPassedThem) {
  Mutation stamped = Put(ColumnFamily::kLeases, "l", "ownerSTAMPEDtail");
  stamped.kind = Mutation::Kind::kPutStamped;
  stamped.stamp_offset = 5;
  stamped.stamp_add = absl::Hours(1);
  auto result = Must({{{}, {stamped}}});
  const std::string value = *Value(ColumnFamily::kLeases, "l");
  EXPECT_EQ(value.substr(0, 5), "owner");
  EXPECT_EQ(value.substr(13), "ail");
  EXPECT_EQ(ReadBigEndian<uint64_t>(absl::string_view(value).substr(5)),
            static_cast<uint64_t>(absl::ToUnixMicros(result.store_time + absl::Hours(1))));
  EXPECT_FALSE(Holds(Cond(ColumnFamily::kLeases, "l", Kind::kStampPassed, "", 5)));
  stamped.stamp_add = -absl::Seconds(1);
  Must({{{}, {stamped}}});
  EXPECT_TRUE(Holds(Cond(ColumnFamily::kLeases, "l", Kind::kStampPassed, "", 5)));
  EXPECT_FALSE(Holds(Cond(ColumnFamily::kLeases, "l", Kind::kStampPassed, "", 12)));
  EXPECT_FALSE(Holds(Cond(ColumnFamily::kLeases, "none", Kind::kStampPassed, "", 0)));
  stamped.stamp_offset = 9;
  CommitRequest outside;
  outside.groups = {{{}, {stamped}}};
  EXPECT_TRUE(absl::IsInvalidArgument(Try(outside)));
}

TEST_P(KvConformance, TimeBeforeHoldsUntilStoreTimeIsThere) {
  const absl::Time now = Must({{{}, {Put(ColumnFamily::kMeta, "k", "v")}}}).store_time;
  const auto before = [](absl::Time time) {
    return Condition{.kind = Kind::kTimeBefore,
                     .number = static_cast<uint64_t>(absl::ToUnixMicros(time))};
  };
  EXPECT_TRUE(Holds(before(now + absl::Hours(1))));
  EXPECT_FALSE(Holds(before(now)));
}

TEST_P(KvConformance, NoStampHasPassedJustAfterTheStart) {
  auto rig = GetParam().make({.lease_ttl = absl::Hours(1)});
  const uint64_t session = rig->OpenSession().value().session;
  const std::string long_ago(8, '\0');
  auto result =
      rig->Commit(Request(session, 1,
                          {{{}, {Put(ColumnFamily::kLeases, "l", long_ago)}},
                           {{Cond(ColumnFamily::kLeases, "l", Kind::kStampPassed)}, {}}}));
  EXPECT_FALSE(result.value().verdicts[1].applied);
}

TEST_P(KvConformance, AResendIsAnsweredAsTheFirstTimeAlsoAfterARestart) {
  const CommitRequest request =
      Request(session_, ++number_,
              {{{Cond(kEvents, "a", Kind::kAbsent)}, {Put(kEvents, "a", "")}},
               {{Cond(kEvents, "b", Kind::kPresent)}, {}}});
  auto first = rig_->Commit(request).value();
  auto second = rig_->Commit(request).value();
  rig_->Restart();
  auto third = rig_->Commit(request).value();
  for (const CommitResult& again : {second, third}) {
    EXPECT_EQ(again.seq, first.seq);
    EXPECT_EQ(again.store_time, first.store_time);
    EXPECT_TRUE(again.verdicts.at(0).applied);
    EXPECT_FALSE(again.verdicts.at(1).applied);
    EXPECT_EQ(again.verdicts.at(1).failed_condition, 0);
  }
}

TEST_P(KvConformance, StrangersAndOldNumbersAreRefused) {
  EXPECT_TRUE(absl::IsAborted(rig_->Commit(Request(session_ + 1, 1, {})).status()));
  EXPECT_TRUE(absl::IsAborted(rig_->Commit(Request(0, 1, {})).status()));
  EXPECT_TRUE(rig_->Commit(Request(session_, 70, {{{}, {Put(kEvents, "a", "1")}}})).ok());
  EXPECT_TRUE(absl::IsAborted(
      rig_->Commit(Request(session_, 6, {{{}, {Put(kEvents, "a", "2")}}})).status()));
  EXPECT_TRUE(rig_->Commit(Request(session_, 7, {{{}, {Put(kEvents, "b", "1")}}})).ok());
  EXPECT_EQ(Value(kEvents, "a"), "1");
}

TEST_P(KvConformance, AClientThatHasSeenMoreIsRefused) {
  auto info = rig_->OpenSession().value();
  EXPECT_TRUE(rig_->OpenSession(info.incarnation, info.seq).ok());
  EXPECT_TRUE(
      absl::IsFailedPrecondition(rig_->OpenSession(info.incarnation, info.seq + 1).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(rig_->OpenSession(info.incarnation + 1, 0).status()));
  EXPECT_TRUE(rig_->OpenSession(info.incarnation - 1, info.seq + 9).ok());
  rig_->Restart();
  EXPECT_EQ(rig_->OpenSession().value().incarnation, info.incarnation);
}

TEST_P(KvConformance, ScansGoBothWaysWithinTheirLimits) {
  Group puts;
  for (const char* key : {"a", "b", "c", "d", "e"})
    puts.mutations.push_back(Put(kEvents, key, std::string(100, 'v')));
  Must({puts});
  EXPECT_EQ(Keys({.cf = kEvents, .begin = "b", .end = "e"}), "b c d ");
  EXPECT_EQ(Keys({.cf = kEvents, .begin = "b", .end = ""}), "b c d e ");
  EXPECT_EQ(Keys({.cf = kEvents, .begin = "b", .end = "e", .reverse = true}), "d c b ");
  EXPECT_EQ(Keys({.cf = kEvents, .begin = "d", .end = "b"}), "");
  EXPECT_EQ(Keys({.cf = kEvents, .begin = "a", .end = "", .limit = 2}), "a b ");
  EXPECT_EQ(Keys({.cf = kEvents, .begin = "a", .end = "", .bytes_max = 150, .reverse = true}),
            "e d ");
  EXPECT_TRUE(rig_->Scan({.cf = kEvents, .begin = "a", .end = "e", .limit = 3}).value().more);
  EXPECT_FALSE(rig_->Scan({.cf = kEvents, .begin = "a", .end = "e", .limit = 4}).value().more);
  EXPECT_EQ(rig_->Scan({.cf = kEvents, .keys_only = true}).value().entries[0].value, "");
  EXPECT_TRUE(absl::IsInvalidArgument(rig_->Scan({.cf = kEvents, .limit = 0}).status()));
}

TEST_P(KvConformance, AScanOfSeveralRangesGoesThroughThemInOrder) {
  Group puts;
  for (const char* key : {"a", "b", "c", "d", "e"})
    puts.mutations.push_back(Put(kEvents, key, std::string(100, 'v')));
  Must({puts});
  const std::vector<KeyRange> then = {{"bb", "bc"}, {"c", "d"}, {"e", ""}};
  EXPECT_EQ(Keys({.cf = kEvents, .begin = "a", .end = "b", .then = then}), "a c e ");
  EXPECT_EQ(Keys({.cf = kEvents, .begin = "a", .end = "b", .limit = 2, .then = then}), "a c ");
  EXPECT_EQ(Keys({.cf = kEvents, .begin = "a", .end = "b", .bytes_max = 150, .then = then}),
            "a c ");
  const auto more = [&](uint32_t limit, std::vector<KeyRange> ranges) {
    return rig_
        ->Scan({.cf = kEvents, .begin = "a", .end = "b", .limit = limit, .then = std::move(ranges)})
        .value()
        .more;
  };
  EXPECT_TRUE(more(2, then));
  EXPECT_FALSE(more(3, then));
  EXPECT_FALSE(more(4, then));
  EXPECT_TRUE(more(1, {{"bb", "bc"}}));  // although that range is empty
  EXPECT_FALSE(more(2, {{"bb", "bc"}}));
  const auto invalid = [&](ScanRequest request) {
    return absl::IsInvalidArgument(rig_->Scan(std::move(request)).status());
  };
  EXPECT_TRUE(invalid({.cf = kEvents, .begin = "a", .end = "", .then = then}));
  EXPECT_TRUE(invalid({.cf = kEvents, .begin = "a", .end = "c", .then = then}));
  EXPECT_TRUE(invalid({.cf = kEvents, .begin = "a", .end = "b", .then = {{"d", "c"}}}));
  EXPECT_TRUE(invalid({.cf = kEvents, .begin = "a", .end = "b", .reverse = true, .then = then}));
  EXPECT_TRUE(invalid({.cf = kEvents,
                       .begin = "a",
                       .end = "b",
                       .then = std::vector<KeyRange>(kScanRangesMax + 1, {"c", "c"})}));
}

// Like the children of a schedule: two hours of a zone have rows, and the hours between have none.
TEST_P(KvConformance, RangesOfOnePrefixAndOfSeveralHoldTheirRows) {
  const auto hour = [](char hour) { return std::string("\0\1Z\0\1\0\0\0", 8) + hour + "\7"; };
  const ColumnFamily children = ColumnFamily::kChildren;
  Must({{{}, {Put(children, hour(1) + "a", "1"), Put(children, hour(1) + "b", "2")}}});
  Must({{{}, {Put(children, hour(9) + "c", "3"), Put(children, "x", "t")}}});
  for (int i = 0; i < 2; ++i) {
    const auto values = [&](ScanRequest scan) {
      scan.cf = children;
      std::string values;
      for (const Entry& entry : rig_->Scan(scan).value().entries)
        values += entry.value.substr(0, 1);
      return values;
    };
    EXPECT_EQ(values({.begin = hour(1), .end = PrefixEnd(hour(1))}), "12");
    EXPECT_EQ(values({.begin = hour(1) + "b", .end = PrefixEnd(hour(1))}), "2");
    EXPECT_EQ(values({.begin = hour(1), .end = hour(1) + "b"}), "1");
    EXPECT_EQ(values({.begin = hour(5), .end = PrefixEnd(hour(5))}), "");
    EXPECT_EQ(values({.begin = hour(5), .end = PrefixEnd(hour(9))}), "3");
    EXPECT_EQ(values({.begin = hour(1), .end = PrefixEnd(hour(9))}), "123");
    EXPECT_EQ(values({.begin = hour(5)}), "3t");
    EXPECT_EQ(values({.begin = hour(1), .end = PrefixEnd(hour(5)), .reverse = true}), "21");
    EXPECT_EQ(values({.begin = hour(1),
                      .end = PrefixEnd(hour(1)),
                      .then = {{hour(4), PrefixEnd(hour(4))},
                               {hour(5), PrefixEnd(hour(9))},
                               {hour(10), PrefixEnd(hour(10))},
                               {"w", ""}}}),
              "123t");
    EXPECT_TRUE(Holds(Cond(children, hour(5), Kind::kRangeCount, PrefixEnd(hour(9)), 1)));
    EXPECT_TRUE(Holds(Cond(children, hour(1), Kind::kRangeCount, PrefixEnd(hour(9)), 3)));
    rig_->Restart();
  }
}

TEST_P(KvConformance, TheStoresOwnKeysAreOutOfReach) {
  CommitRequest request;
  request.groups = {{{}, {Put(ColumnFamily::kMeta, std::string("\0q", 2), "x")}}};
  EXPECT_TRUE(absl::IsInvalidArgument(Try(request)));
  EXPECT_EQ(Keys({.cf = ColumnFamily::kMeta}), "layout ");
  EXPECT_EQ(DecodeLayout(*Value(ColumnFamily::kMeta, std::string(kLayoutKey))).value(), Layout());
  EXPECT_TRUE(absl::IsInvalidArgument(rig_->Get({{static_cast<ColumnFamily>(99), "k"}}).status()));
}

TEST_P(KvConformance, StoreTimeAdvancesOverRestarts) {
  absl::Time last = absl::InfinitePast();
  for (int i = 0; i < 3; ++i) {
    const absl::Time committed = Must({{{}, {Put(kEvents, "k", "v")}}}).store_time;
    EXPECT_GT(committed, last);
    last = committed;
    rig_->Restart();
  }
}

TEST_P(KvConformance, TooLargeIsRefused) {
  CommitRequest request;
  request.groups.resize(kGroupsMax + 1);
  EXPECT_TRUE(absl::IsInvalidArgument(Try(request)));
  request.groups = {{{}, {Put(kEvents, std::string(kKeyBytesMax + 1, 'k'), "")}}};
  EXPECT_TRUE(absl::IsInvalidArgument(Try(request)));
  request.groups = {{{}, {Put(kEvents, "", "")}}};
  EXPECT_TRUE(absl::IsInvalidArgument(Try(request)));
}

// The read is refused; the connection and its watches go on.
TEST_P(KvConformance, MoreThanAnAnswerHoldsIsRefusedToTheReadAlone) {
  constexpr size_t kValues = 200;
  const std::string value(300'000, 'v');
  std::vector<Key> keys;
  for (size_t i = 0; i < kValues; i += 50) {
    CommitRequest request;
    Group& group = request.groups.emplace_back();
    for (size_t j = i; j < i + 50; ++j) {
      keys.push_back({kEvents, absl::StrCat("k", j)});
      group.mutations.push_back(Put(kEvents, keys.back().key, value));
    }
    ASSERT_TRUE(Try(std::move(request)).ok());
  }
  WatchLog log;
  auto watch = rig_->store().OpenWatch({kEvents, "w", "x", kWatchFromNow, 0}, log.observer());
  EXPECT_TRUE(absl::IsOutOfRange(rig_->Get(keys).status()));
  keys.resize(kMultiGetBytesMax / value.size());
  EXPECT_EQ(rig_->Get(keys).value().values.back(), value);
  Must({{{}, {Put(kEvents, "w", "told")}}});
  EXPECT_EQ(log.WaitFor(1).size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Stores, KvConformance, EveryStore(), NameOfStore);

}  // namespace kv_conformance_test
}  // namespace escapement::kv
