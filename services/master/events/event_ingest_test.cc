#include "services/master/events/event_ingest.h"

#include "common/base/proto_time.h"
#include "gtest/gtest.h"
#include "services/master/testing/master_world.h"

namespace escapement::master {
namespace event_ingest_test {

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

IngestRecord MetBy(absl::Duration due_in, uint8_t lane = 5, bool cancelled = false) {
  storage::v1::EventNameRecord name;
  name.set_cancelled(cancelled);
  name.set_event_key(EncodeEventKey(
      {.lane = lane, .due_time = kNow + due_in, .uid = Uid(), .occurrence = "", .first = 0}));
  IngestRecord record{.fate = IngestRecord::Fate::kAlone};
  Meet(name.SerializeAsString(), /*read_at=*/7, v1::Event::UPSERT, kNow, record);
  return record;
}

// A handler may claim it from one minute before it is due; the name alone does not tell.
TEST(EventIngestTest, EventIsTakenOnlyBeforeItsFirstClaim) {
  using Fate = IngestRecord::Fate;
  EXPECT_EQ(MetBy(absl::Seconds(61)).fate, Fate::kAlone);
  EXPECT_EQ(MetBy(absl::Hours(1), kLaneRetry).fate, Fate::kAlone);
  EXPECT_EQ(MetBy(absl::Hours(1), 5, /*cancelled=*/true).fate, Fate::kAlone) << "it has no row";
  EXPECT_EQ(MetBy(absl::Hours(1), kLaneLimited).fate, Fate::kAlone) << "it waits somewhere else";
  const IngestRecord taken = MetBy(absl::Hours(1));
  ASSERT_EQ(taken.fate, Fate::kTakes);

  const v1::IngestRequest request = ValidBatch(kNow, 1);
  v1::IngestRequest upsert = request;
  upsert.mutable_events(0)->set_event_id("e");
  upsert.mutable_events(0)->set_mode(v1::Event::UPSERT);
  const InternCache cache;
  const TargetSecrets secrets(nullptr);
  const auto plan = PlanIngest(upsert, upsert.defaults(), {taken}, /*return_ids=*/false,
                               {.tenant = "default", .now = kNow}, {}, cache, secrets, {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const kv::Group& group = plan->commit.groups.at(plan->first_client_group);
  EXPECT_EQ(group.conditions.at(0).kind, kv::Condition::Kind::kTimeBefore);
  EXPECT_EQ(group.conditions.at(0).number,
            static_cast<uint64_t>(ToMicros(kNow + absl::Hours(1) - absl::Minutes(1))));
  // Unless the name has changed since, the store need not read it again.
  const kv::Condition& named = group.conditions.back();
  EXPECT_EQ(named.kind, kv::Condition::Kind::kValueEquals);
  EXPECT_EQ(named.cf, kv::ColumnFamily::kEventNames);
  EXPECT_EQ(named.since, 7u);
}

}  // namespace event_ingest_test
}  // namespace escapement::master
