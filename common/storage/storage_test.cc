#include <string>

#include "common/base/proto_time.h"
#include "common/kv/layout.h"
#include "common/storage/children_table.h"
#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "common/storage/statistics_table.h"
#include "common/storage/waiting_table.h"
#include "gtest/gtest.h"

namespace escapement {
namespace storage_test {

EventKey SomeEvent() {
  return {.shard = 3,
          .lane = 5,
          .due_time = absl::FromUnixMicros(1'800'000'000'000'001),
          .uid = Uid::FromHalves(7, 9),
          .occurrence = "20261121T030000-0-Asia~Kolkata",
          .first = 12};
}

TEST(ScheduleTableTest, KeysOfCalendarsReadBackAndStandApart) {
  const Uid change = Uid::FromHalves(1, 2), schedule = Uid::FromHalves(3, 4);
  const std::string user = CalendarUserKey(CalendarUid("t", "c"), schedule);
  EXPECT_EQ(DecodeCalendarUserKey(user), schedule);
  EXPECT_EQ(DecodeCalendarUserKey(PolicyUserKey(PolicyUid("t", "c"), schedule)), std::nullopt);
  EXPECT_NE(CalendarUid("t", "c"), PolicyUid("t", "c"));
  const auto name = DecodeRetimingKey(RetimingKey("t", "c"));
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->tenant, "t");
  EXPECT_EQ(name->calendar_id, "c");
  EXPECT_FALSE(DecodeRetimingKey(CalendarKey("t", "c")).has_value());
  EXPECT_FALSE(DecodePolicyKey(CalendarKey("t", "c")).has_value());
  // Token managers watch the policies only.
  EXPECT_GT(CalendarKey("", ""), std::string(1, '\1'));
  RetimingProgress whole{.change = change, .steps = 7, .last = schedule};
  whole.failed = {schedule, change};
  whole.redo_after = change;
  whole.retry_time = absl::FromUnixSeconds(9);
  RetimingProgress waiting{.change = change, .steps = 1, .last = std::nullopt};
  waiting.retry_time = absl::FromUnixSeconds(8);
  for (const RetimingProgress& progress :
       {RetimingProgress{.change = change, .last = std::nullopt},
        RetimingProgress{.change = change, .last = schedule}, whole, waiting})
    EXPECT_EQ(DecodeRetimingProgress(EncodeRetimingProgress(progress)), progress);
  const std::string bytes = EncodeRetimingProgress(whole);
  EXPECT_FALSE(DecodeRetimingProgress(bytes.substr(0, bytes.size() - 1)).has_value());
  std::string unknown = bytes;
  unknown[Uid::kBytes] |= 8;
  EXPECT_FALSE(DecodeRetimingProgress(unknown).has_value());
  EXPECT_FALSE(DecodeRetimingProgress("short").has_value());
}

TEST(StatisticsTableTest, KeysReadBackAndSortByHour) {
  const std::string tenant = TenantStatistics("t"), policy = PolicyStatistics("t", "p"),
                    target = TargetStatistics("t", Uid::FromHalves(1, 2));
  for (const std::string& subject : {tenant, policy, target}) {
    const auto name = DecodeStatisticsKey(StatisticsKey(subject, 500'000, "a.7"));
    ASSERT_TRUE(name.has_value());
    EXPECT_EQ(name->subject, subject);
    EXPECT_EQ(name->hour, 500'000u);
    EXPECT_EQ(name->writer, "a.7");
    EXPECT_LT(StatisticsKey(subject, 255, "z"), StatisticsKeyFrom(subject, 256));
    EXPECT_LT(StatisticsKeyFrom(subject, 256), StatisticsKey(subject, 256, ""));
    EXPECT_EQ(subject.rfind(StatisticsPrefix(), 0), 0u);
    EXPECT_FALSE(DecodePolicyKey(StatisticsKey(subject, 1, "a")).has_value());
    EXPECT_FALSE(DecodeStatisticsKey(subject).has_value());
    EXPECT_FALSE(DecodeStatisticsKey(StatisticsKeyFrom(subject, 1)).has_value());
  }
  // No subject's rows are among those of another one.
  EXPECT_NE(policy.rfind(tenant, 0), 0u);
  EXPECT_NE(PolicyStatistics("t", "pp").rfind(policy, 0), 0u);
  EXPECT_FALSE(DecodeStatisticsKey(PolicyKey("t", "p")).has_value());
  EXPECT_FALSE(DecodeStatisticsKey(RetimingKey("t", "c")).has_value());
}

TEST(EventTable, KeysReadBackAndSortByLaneThenDueTime) {
  EventKey key = SomeEvent();
  EXPECT_EQ(DecodeEventKey(EncodeEventKey(key)), key);
  EventKey later = key;
  later.due_time += absl::Microseconds(1);
  EXPECT_LT(EncodeEventKey(key), EncodeEventKey(later));
  EventKey next_lane = key;
  next_lane.lane = 6;
  next_lane.due_time = absl::UnixEpoch();
  EXPECT_LT(EncodeEventKey(later), EncodeEventKey(next_lane));
  EXPECT_LT(EncodeEventKey(next_lane), EventShardEnd(3));
  EXPECT_EQ(EventKeyOfParked(ParkedKey(key.uid, EncodeEventKey(key))), EncodeEventKey(key));
  EXPECT_FALSE(DecodeEventKey("short").has_value());
}

TEST(EventTable, RowsOfNewEventsAreSerializedMessages) {
  const absl::Time due = absl::FromUnixSeconds(1'772'323'200);
  const Uid hash = Intern({}, due).hash, group = Uid::FromHalves(5, 6);
  storage::v1::ThrottleRecord throttle;
  throttle.set_policy_id("p");
  NamedBefore before;
  before.generation = 300;
  before.revision = 2;
  NewEvent event;
  event.nominal_micros = ToMicros(due);
  event.definition_hash = &hash;
  NewEvent whole = event;
  whole.client_id = "order-1";
  whole.payload = "payload";
  whole.priority = 7;
  whole.max_lateness_micros = 1'000'000;
  whole.throttle = &throttle;
  whole.wait_group = group;
  whole.before = &before;
  for (const NewEvent& each : {event, whole}) {
    EventRowBuilder builder({.tenant = "t",
                             .queue_shards = 8,
                             .now = due - absl::Seconds(1),
                             .uid_high = 1,
                             .uid_low = 2,
                             .trace_parent = each.client_id.empty() ? "" : "trace"});
    kv::Group rows;
    builder.Add(each, rows);
    storage::v1::EventRecord row;
    ASSERT_TRUE(row.ParseFromString(rows.mutations[0].value));
    EXPECT_EQ(row.SerializeAsString(), rows.mutations[0].value);
    EXPECT_EQ(row.tenant(), "t");
    EXPECT_EQ(row.definition_hash(), hash.bytes());
    EXPECT_EQ(row.count(), 1u);
    EXPECT_EQ(row.run_count(), 1u);
    EXPECT_EQ(row.nominal_time_micros(), ToMicros(due));
    EXPECT_EQ(row.launch_time_micros(), ToMicros(due));
    EXPECT_EQ(row.payload(), each.payload);
    EXPECT_EQ(row.event_id(), each.client_id);
    EXPECT_EQ(row.client_chosen_id(), !each.client_id.empty());
    EXPECT_EQ(row.max_lateness_micros(), each.max_lateness_micros);
    EXPECT_EQ(row.has_throttle(), each.throttle != nullptr);
    EXPECT_EQ(row.trace_parent(), each.client_id.empty() ? "" : "trace");
    EXPECT_EQ(builder.event_id(), OneOffEventId(rows.mutations[0].key, row));
    if (!row.has_throttle()) continue;
    EXPECT_EQ(row.throttle().policy_id(), "p");
    EXPECT_EQ(row.wait_group(), group.bytes());
    EXPECT_EQ(row.priority(), 7u);
    EXPECT_EQ(row.generation(), 300u);
    EXPECT_EQ(row.revision(), 2u);
  }
}

TEST(InflightTable, ClaimsAndEndsShareAPrefixAndDiffer) {
  const ClaimId claim = {.shard = 1, .epoch = 5, .number = 77};
  const auto read_claim = DecodeInflightKey(EncodeClaimKey(claim));
  ASSERT_TRUE(read_claim.has_value());
  EXPECT_EQ(read_claim->claim, claim);
  EXPECT_FALSE(read_claim->is_end());
  const auto read_end = DecodeInflightKey(EncodeClaimEndKey(claim, 4));
  ASSERT_TRUE(read_end.has_value());
  EXPECT_TRUE(read_end->is_end());
  EXPECT_EQ(read_end->end_number, 4u);
  EXPECT_LT(EncodeClaimKey(claim), EncodeClaimEndKey(claim, 0));
}

TEST(GrantTable, HistoryAndRatesOfKeysAreBehindThePolicysGrants) {
  const Uid policy = Uid::FromHalves(1, 2);
  const std::string history = PolicyHistoryKey(3, policy);
  const std::string rate = KeyRateKey(3, policy, "customer-7");
  const std::string last = EncodeGrantKey({3, policy, UINT64_MAX - 1, UINT64_MAX});
  EXPECT_LT(PolicyCountsKey(3, policy), GrantsBegin(3, policy));
  EXPECT_LT(last, GrantsEnd(3, policy));
  for (const std::string& key : {history, rate}) {
    EXPECT_LE(GrantsEnd(3, policy), key);
    EXPECT_LT(key, PolicyCountsKey(3, Uid::FromHalves(1, 3)));
    EXPECT_FALSE(DecodeGrantKey(key).has_value());
    EXPECT_FALSE(DecodePolicyCountsKey(key).has_value());
  }
  EXPECT_TRUE(DecodeGrantKey(last).has_value());
  EXPECT_LT(history, rate);
  EXPECT_NE(rate, KeyRateKey(3, policy, ""));
  EXPECT_EQ(DecodeKeyRateKey(rate), policy);
  EXPECT_FALSE(DecodeKeyRateKey(history).has_value());
  EXPECT_FALSE(DecodeKeyRateKey(last).has_value());
}

TEST(DoneTable, KeysReadBackAndDaysDoNotOverlap) {
  const DoneKey key = {.shard = 2,
                       .day = DoneDay(absl::FromUnixSeconds(86'400 * 100 + 5)),
                       .uid = Uid::FromHalves(1, 1),
                       .occurrence = "x",
                       .first = 3};
  EXPECT_EQ(key.day, 100u);
  EXPECT_EQ(DecodeDoneKey(EncodeDoneKey(key)), key);
  EXPECT_LT(EncodeDoneKey(key), DoneDayKey(2, 101));
  EXPECT_GT(EncodeDoneKey(key), DoneDayKey(2, 100));
}

TEST(ChildrenTable, ChildrenOfAnExpressionHaveItsInUseKeyAsPrefix) {
  const ChildKey key = {.expression = {.partition = 4,
                                       .zone = "Asia/Kolkata",
                                       .expression_class = 2,
                                       .date_value = 400},
                        .hour = 3,
                        .minute = kAnyMinute,
                        .uid = Uid::FromHalves(1, 2)};
  EXPECT_EQ(DecodeChildKey(EncodeChildKey(key)), key);
  EXPECT_EQ(DecodeExpressionKey(ExpressionPrefix(key.expression)), key.expression);
  EXPECT_EQ(EncodeChildKey(key).rfind(ExpressionPrefix(key.expression), 0), 0u);
  const absl::Time time = absl::FromUnixMicros(-5);
  EXPECT_EQ(DecodeCheckpoint(EncodeCheckpoint(time)), time);
}

TEST(ChildrenTable, FilterPrefixCoversEachHourAndMinuteOfAnExpression) {
  const ChildKey key{.expression = {.partition = 256,
                                    .zone = "Europe/Berlin",
                                    .expression_class = 3,
                                    .date_value = 1},
                     .hour = 1,
                     .minute = kAnyMinute,
                     .uid = Uid::FromHalves(1, 2)};
  const std::string prefix = ChildPrefix(key.expression, key.hour, key.minute);
  EXPECT_EQ(kv::PrefixBytes(kv::ColumnFamily::kChildren, prefix), prefix.size());
  EXPECT_EQ(kv::PrefixBytes(kv::ColumnFamily::kChildren, EncodeChildKey(key)), prefix.size());
  EXPECT_EQ(kv::PrefixBytes(kv::ColumnFamily::kChildren, ExpressionPrefix(key.expression)), 0u);
  EXPECT_EQ(kv::PrefixBytes(kv::ColumnFamily::kInUse, prefix), 0u);
}

TEST(ChildrenTable, ChildrenOfInstantsSortByInstantBeforeAllOtherChildren) {
  const absl::Time instant = absl::FromUnixMicros(1'800'000'000'000'001);
  const InstantChildKey key = {.partition = 4, .instant = instant, .uid = Uid::FromHalves(1, 2)};
  const std::string bytes = EncodeInstantChildKey(key);
  EXPECT_EQ(DecodeInstantChildKey(bytes), key);
  EXPECT_FALSE(DecodeChildKey(bytes).has_value());
  EXPECT_EQ(bytes.rfind(InstantChildPrefix(4), 0), 0u);
  EXPECT_LE(InstantChildrenFrom(4, instant), bytes);
  EXPECT_GT(InstantChildrenFrom(4, instant + absl::Microseconds(1)), bytes);
  EXPECT_LT(InstantChildPrefix(4), InstantChildrenFrom(4, absl::FromUnixMicros(-1)));
  const ChildKey calendar = {.expression = {.partition = 4, .zone = "A"}, .uid = key.uid};
  EXPECT_LT(InstantChildrenFrom(4, absl::InfiniteFuture()), EncodeChildKey(calendar));
  EXPECT_FALSE(DecodeInstantChildKey(EncodeChildKey(calendar)).has_value());
  EXPECT_FALSE(DecodeInstantChildKey(bytes.substr(1)).has_value());
  EXPECT_FALSE(DecodeInstantChildKey(bytes + "x").has_value());
}

TEST(ChildrenTable, LaunchesSortByTheirTimes) {
  const LaunchKey key = {.partition = 4,
                         .launch_time = absl::FromUnixMicros(77),
                         .uid = Uid::FromHalves(1, 2),
                         .occurrence = "o"};
  EXPECT_EQ(DecodeLaunchKey(EncodeLaunchKey(key)), key);
  EXPECT_EQ(EncodeLaunchKey(key).rfind(LaunchPrefix(4), 0), 0u);
  LaunchKey later = key;
  later.launch_time += absl::Microseconds(1);
  later.uid = Uid::FromHalves(0, 1);
  EXPECT_LT(EncodeLaunchKey(key), EncodeLaunchKey(later));
  EXPECT_FALSE(DecodeLaunchKey(ActiveRunKey(4, key.uid, "o")).has_value());
  EXPECT_FALSE(DecodeActiveRunKey(EncodeLaunchKey(key)).has_value());
}

TEST(RunTable, PartsShareTheRunsKeyAsPrefix) {
  const RunKey run = {.uid = Uid::FromHalves(3, 4), .occurrence = "o"};
  EXPECT_EQ(DecodeRunKey(EncodeRunKey(run)), run);
  EXPECT_EQ(RunPartKey(run, 5).rfind(RunPartPrefix(run), 0), 0u);
}

TEST(EventId, ServerMadeIdsNameTheirRow) {
  EventKey key = SomeEvent();
  key.occurrence.clear();
  key.first = 0;
  const std::string id = ServerMadeEventId(key);
  EXPECT_EQ(id.size(), 44u);
  EXPECT_EQ(ParseServerMadeEventId(id), key);
  EXPECT_EQ(ServerMadeEventId(EncodeEventKey(key)), id);
  EXPECT_FALSE(ParseServerMadeEventId(id.substr(1)).has_value());
  std::string other = id;
  other[3] = 'z';
  EXPECT_FALSE(ParseServerMadeEventId(other).has_value());
}

// docs/design/cells.md gives the six highest bits of the shard to the cell of an installation with
// several stores. All ids that exist are of cell 0.
TEST(EventId, ServerMadeIdsLeaveSixBitsOfTheShardFree) {
  static_assert(kv::kLayoutNumberMax <= 1 << 10);
  EventKey key = SomeEvent();
  key.occurrence.clear();
  key.first = 0;
  for (const uint32_t shard : {0u, kv::kLayoutNumberMax - 1}) {
    key.shard = static_cast<uint16_t>(shard);
    const std::string id = ServerMadeEventId(key);
    EXPECT_EQ(id[0], '0');  // five bits
    EXPECT_LT(id[1], 'g');  // the sixth is the highest of the next five
  }
  key.shard = 63 << 10;
  EXPECT_EQ(ParseServerMadeEventId(ServerMadeEventId(key)), key);
}

TEST(EventId, IdsOfARunDifferByIndexAndStayTheSame) {
  const RunIdentity run("default", Uid::FromHalves(1, 2), "20261121T030000-0-UTC");
  EXPECT_NE(run.EventId(0), run.EventId(1));
  // This value is stored, and consumers see it: a change of it is a change of the format.
  EXPECT_EQ(run.EventId(0),
            RunIdentity("default", Uid::FromHalves(1, 2), "20261121T030000-0-UTC").EventId(0));
}

TEST(EventId, SlicesOfShardsAreContiguousAndComplete) {
  for (uint64_t n : {1u, 7u, 8u, 9u, 1000u}) {
    uint64_t next = 0;
    for (uint32_t shard = 0; shard < 8; ++shard) {
      const IndexSlice slice = SliceOfShard(n, shard, 8);
      EXPECT_EQ(slice.first, next);
      EXPECT_LE(slice.count, n / 8 + 1);
      next += slice.count;
    }
    EXPECT_EQ(next, n);
  }
}

}  // namespace storage_test
}  // namespace escapement
