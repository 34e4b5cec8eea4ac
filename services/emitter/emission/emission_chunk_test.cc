#include "services/emitter/emission/emission_chunk.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/cron/zone.h"
#include "common/storage/children_table.h"
#include "common/storage/schedule_table.h"
#include "common/tzdata/rederive.h"
#include "common/tzdata/tzdata_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "gtest/gtest.h"
#include "services/emitter/base/options.h"
#include "services/emitter/emission/emission_plan.h"

namespace escapement::emitter {
namespace emission_chunk_test {

using kv::ColumnFamily;
using kv::Condition;
using kv::Mutation;
using storage::v1::DefinitionRecord;

const absl::Time kStart = absl::FromUnixSeconds(1'772'323'200);  // 2026-03-01T00:00:00Z

absl::Time At(int second) { return kStart + absl::Seconds(second); }

class EmissionChunkTest : public ::testing::Test {
 protected:
  DefinitionRecord Definition(const std::string& cron) {
    DefinitionRecord definition;
    definition.set_tenant("default");
    definition.set_schedule_id(absl::StrCat("s", ++uids_));
    definition.set_uid(std::string(Uid::FromHalves(uids_, 2).bytes()));
    definition.set_version(1);
    definition.set_cron(cron);
    definition.set_time_zone("UTC");
    definition.set_event_count(1);
    return definition;
  }

  DefinitionRecord Interval(absl::Duration every) {
    DefinitionRecord definition = Definition("");
    definition.mutable_timing()->mutable_interval()->set_every_micros(
        absl::ToInt64Microseconds(every));
    definition.mutable_timing()->mutable_interval()->set_anchor_micros(ToMicros(kStart));
    return definition;
  }

  static std::vector<kv::Entry> Children(const DefinitionRecord& definition, absl::Time from) {
    std::vector<Mutation> rows;
    AddChildren(definition, TimetableOf(definition).value(), from, kLayout, rows);
    std::vector<kv::Entry> children;
    for (const Mutation& row : rows) {
      if (row.cf == ColumnFamily::kChildren) children.push_back({row.key, row.value});
    }
    return children;
  }

  EmissionChunk Chunk(absl::Time begin, absl::Time end) {
    return EmissionChunk({.layout = kLayout, .begin = begin, .end = end}, catch_up_);
  }

  // The state of an enabled schedule.
  static std::string Enabled(uint64_t version) {
    storage::v1::StateRecord state;
    state.set_kind(storage::v1::SCHEDULE_STATE_KIND_ENABLED);
    state.set_version(version);
    state.set_change_count(1);
    return state.SerializeAsString();
  }

  EmissionChunk::Groups Build(EmissionChunk& chunk,
                              const std::vector<std::optional<std::string>>& values) {
    kv::GetResult result;
    keys_ = chunk.StatesToRead();
    EXPECT_EQ(keys_.size(), values.size());
    result.values = values;
    result.values.resize(keys_.size());
    result.seq = 9;
    result.store_time = now_;
    return chunk.Build(result);
  }

  static size_t Count(const kv::Group& group, ColumnFamily cf, Mutation::Kind kind) {
    size_t count = 0;
    for (const Mutation& m : group.mutations) count += m.cf == cf && m.kind == kind;
    return count;
  }

  static constexpr kv::Layout kLayout{.partitions = 4, .queue_shards = 4};
  uint64_t uids_ = 0;
  absl::Time now_ = kStart;
  std::shared_ptr<CatchUp> catch_up_ = std::make_shared<CatchUp>();
  std::vector<kv::Key> keys_;
};

TEST_F(EmissionChunkTest, ChildrenOfOneScheduleAreOneGroup) {
  EmissionChunk chunk = Chunk(At(30), At(90));
  const DefinitionRecord definition = Definition("*/10 0,1 0 * * *");
  const auto children = Children(definition, kStart);
  ASSERT_EQ(children.size(), 2u);
  for (const kv::Entry& child : children)
    EXPECT_EQ(chunk.Add(kv::Entry(child), 5).value(), EmissionChunk::Added::kDue);
  const auto built = Build(chunk, {Enabled(1)});
  ASSERT_EQ(built.groups.size(), 1u);
  EXPECT_TRUE(built.fence.empty());
  EXPECT_EQ(built.groups[0].conditions.size(), 3u);
  EXPECT_EQ(Count(built.groups[0], ColumnFamily::kEvents, Mutation::Kind::kPut), 6u);
  EXPECT_EQ(built.counts[0].occurrences, 6u);
  EXPECT_EQ(built.counts[0].children, 2u);
}

TEST_F(EmissionChunkTest, InstantThatDoesNotFireIsRemovedOthersStay) {
  const DefinitionRecord cron = Definition("* * * * *");
  const DefinitionRecord interval = Interval(absl::Seconds(10));
  for (const std::optional<std::string>& state :
       {std::optional<std::string>(Enabled(2)), std::optional<std::string>()}) {
    EmissionChunk chunk = Chunk(At(0), At(1));
    ASSERT_TRUE(chunk.Add(kv::Entry(Children(cron, kStart)[0]), 5).ok());
    ASSERT_TRUE(chunk.Add(kv::Entry(Children(interval, kStart)[0]), 5).ok());
    const auto built = Build(chunk, {state, state});
    ASSERT_EQ(built.groups.size(), 1u);
    ASSERT_EQ(built.groups[0].mutations.size(), 1u);
    EXPECT_EQ(built.groups[0].mutations[0].kind, Mutation::Kind::kDelete);
    EXPECT_TRUE(DecodeInstantChildKey(built.groups[0].mutations[0].key).has_value());
    ASSERT_EQ(built.groups[0].conditions.size(), 2u);
    EXPECT_EQ(built.groups[0].conditions[0].kind,
              state ? Condition::Kind::kValuePrefix : Condition::Kind::kAbsent);
    EXPECT_EQ(built.groups[0].conditions[1].kind, Condition::Kind::kValueEquals);
    EXPECT_EQ(built.counts[0].removed, 1u);
  }
}

TEST_F(EmissionChunkTest, OccurrenceEmittedByAChangeIsNotEmittedAgain) {
  EmissionChunk chunk = Chunk(At(0), At(60));
  ASSERT_TRUE(chunk.Add(kv::Entry(Children(Interval(absl::Seconds(10)), kStart)[0]), 5).ok());
  storage::v1::StateRecord state;
  ASSERT_TRUE(state.ParseFromString(Enabled(1)));
  state.set_covered_to_micros(ToMicros(At(30)));
  const auto built = Build(chunk, {state.SerializeAsString()});
  EXPECT_EQ(built.counts[0].occurrences, 3u);
}

TEST_F(EmissionChunkTest, FieldsThatCancelRunsStandLastInAState) {
  const auto* state = storage::v1::StateRecord::descriptor();
  for (const char* name : {"cancelled_before_micros", "cancelled_runs"}) {
    const auto* cancels = state->FindFieldByName(name);
    for (int i = 0; i < state->field_count(); ++i) {
      if (absl::StartsWith(state->field(i)->name(), "cancelled_")) continue;
      EXPECT_LT(state->field(i)->number(), cancels->number()) << state->field(i)->name();
    }
  }
}

TEST_F(EmissionChunkTest, TheConditionOnTheStateLeavesOutWhatCancelsRuns) {
  storage::v1::StateRecord state;
  ASSERT_TRUE(state.ParseFromString(Enabled(1)));
  state.set_covered_to_micros(1);
  const std::string before = state.SerializeAsString();
  state.add_cancelled_runs()->set_occurrence("o");
  const std::string run_cancelled = state.SerializeAsString();
  state.set_cancelled_before_micros(77);
  const std::string after = state.SerializeAsString();
  state.set_change_count(2);
  const std::string changed = state.SerializeAsString();
  for (const std::string& read : {before, run_cancelled, after}) {
    EmissionChunk chunk = Chunk(At(0), At(60));
    ASSERT_TRUE(chunk.Add(kv::Entry(Children(Definition("* * * * *"), kStart)[0]), 5).ok());
    const auto built = Build(chunk, {read});
    const std::string& prefix = built.groups[0].conditions[0].value;
    EXPECT_EQ(prefix, before);
    EXPECT_EQ(after.compare(0, prefix.size(), prefix), 0);
    EXPECT_NE(changed.compare(0, prefix.size(), prefix), 0);
  }
}

TEST_F(EmissionChunkTest, AnIntervalWithMoreThanACommitHoldsGoesOnInTheNext) {
  EmissionChunk chunk = Chunk(At(0), At(60));
  kv::Entry child = Children(Interval(absl::Milliseconds(1)), kStart)[0];
  size_t occurrences = 0;
  for (int part = 0; part < 3; ++part) {
    EXPECT_FALSE(chunk.full());
    EXPECT_EQ(chunk.Add(kv::Entry(child), 5).value(),
              part < 2 ? EmissionChunk::Added::kDueInPart : EmissionChunk::Added::kDue);
    const auto built = Build(chunk, {Enabled(1)});
    occurrences += built.counts[0].occurrences;
    EXPECT_LE(built.counts[0].occurrences, kChunkMutationsMax);
    const Mutation& moved = built.groups[0].mutations.back();
    EXPECT_GT(moved.key, child.key);
    child = {moved.key, moved.value};
    chunk.Clear();
  }
  EXPECT_EQ(occurrences, 60'000u);
  EXPECT_EQ(DecodeInstantChildKey(child.key)->instant, At(60));
}

TEST_F(EmissionChunkTest, ItIsFullWhenItsBoundIsReached) {
  EmissionChunk chunk = Chunk(At(0), At(1));
  for (size_t i = 0; i < kChunkChildrenMax; ++i) {
    EXPECT_FALSE(chunk.full());
    ASSERT_EQ(chunk.Add(kv::Entry(Children(Definition("0 0 * * *"), kStart)[0]), 5).value(),
              EmissionChunk::Added::kDue);
  }
  EXPECT_TRUE(chunk.full());
  EXPECT_EQ(chunk.Add(kv::Entry(Children(Definition("0 0 * * *"), kStart)[0]), 5).value(),
            EmissionChunk::Added::kNoRoom);
  chunk.Clear();
  EXPECT_TRUE(chunk.empty());
}

class LateChunkTest : public EmissionChunkTest {
 protected:
  // Half an hour late; the latest of what is missed fires, the four before are skipped one by one.
  LateChunkTest() {
    now_ = kStart + absl::Minutes(30);
    catch_up_->OnWindow(kStart, At(60), /*resumed=*/false, now_);
    policy_.set_action(storage::v1::MISFIRE_KIND_FIRE_LATEST);
    policy_.set_max_catch_up(5);
  }
  storage::v1::MisfireRecord policy_;
};

TEST_F(LateChunkTest, ASummaryIsCountedUpAsItWasRead) {
  DefinitionRecord definition = Definition("*/10 0,1 0 * * *");
  *definition.mutable_misfire() = policy_;
  const auto children = Children(definition, kStart);
  EmissionChunk chunk = Chunk(At(0), At(60));
  for (const kv::Entry& child : children) ASSERT_TRUE(chunk.Add(kv::Entry(child), 5).ok());
  // Twelve occurrences were missed, from 00:00:00 to 00:01:50. The summary has seven of them, up to
  // 00:01:00.
  auto built = Build(chunk, {Enabled(1), std::nullopt});
  ASSERT_EQ(built.groups.size(), 1u);
  EXPECT_EQ(built.counts[0].skipped, 6u);
  EXPECT_EQ(built.counts[0].occurrences, 0u);
  ASSERT_EQ(built.fence.size(), 1u);
  EXPECT_EQ(built.fence[0].kind, Condition::Kind::kAbsent);
  EXPECT_EQ(Count(built.groups[0], ColumnFamily::kDone, Mutation::Kind::kPut), 1u);
  storage::v1::DoneRecord summary;
  const Mutation first = built.groups[0].mutations.back();
  EXPECT_EQ(first.key, keys_[1].key);
  EXPECT_EQ(first.key, built.fence[0].key);
  ASSERT_TRUE(summary.ParseFromString(first.value));
  EXPECT_EQ(FromMicros(summary.nominal_time_micros()), kStart) << "under the first of all";
  EXPECT_EQ(summary.skipped_occurrences(), 6u);
  EXPECT_EQ(FromMicros(summary.last_nominal_time_micros()), At(50));

  EmissionChunk next = Chunk(At(60), At(120));
  for (const kv::Entry& child : children) ASSERT_TRUE(next.Add(kv::Entry(child), 5).ok());
  built = Build(next, {Enabled(1), first.value});
  ASSERT_EQ(built.fence.size(), 1u);
  EXPECT_EQ(built.fence[0].kind, Condition::Kind::kValueEquals);
  EXPECT_EQ(built.fence[0].value, first.value);
  EXPECT_EQ(built.counts[0].occurrences, 1u);
  EXPECT_EQ(built.counts[0].skipped, 5u);
  EXPECT_EQ(Count(built.groups[0], ColumnFamily::kDone, Mutation::Kind::kPut), 5u);
  EXPECT_EQ(built.groups[0].mutations.back().key, first.key);
  ASSERT_TRUE(summary.ParseFromString(built.groups[0].mutations.back().value));
  EXPECT_EQ(summary.skipped_occurrences(), 7u);
  EXPECT_EQ(FromMicros(summary.last_nominal_time_micros()), At(60));
}

// A backfill fires the first occurrence after all: its run is active, or has ended.
TEST_F(LateChunkTest, WhereTheSummaryHasGoneEachCommitHasItsOwn) {
  DefinitionRecord definition = Definition("*/10 0-2 0 * * *");
  *definition.mutable_misfire() = policy_;
  storage::v1::DoneRecord ended;
  ended.set_outcome(storage::v1::OUTCOME_KIND_SUCCEEDED);
  ended.set_count(1);
  for (const std::optional<std::string>& read :
       {std::optional<std::string>(), std::optional<std::string>(ended.SerializeAsString())}) {
    EmissionChunk chunk = Chunk(At(60), At(120));
    for (const kv::Entry& child : Children(definition, kStart))
      ASSERT_TRUE(chunk.Add(kv::Entry(child), 5).ok());
    const auto built = Build(chunk, {Enabled(1), read});
    EXPECT_TRUE(built.fence.empty());
    EXPECT_EQ(built.counts[0].skipped, 6u);
    ASSERT_EQ(Count(built.groups[0], ColumnFamily::kDone, Mutation::Kind::kPut), 1u);
    const Mutation& put = built.groups[0].mutations.back();
    EXPECT_NE(put.key, keys_[1].key);
    storage::v1::DoneRecord summary;
    ASSERT_TRUE(summary.ParseFromString(put.value));
    EXPECT_EQ(FromMicros(summary.nominal_time_micros()), At(60));
    EXPECT_EQ(summary.skipped_occurrences(), 6u);
    EXPECT_EQ(FromMicros(summary.last_nominal_time_micros()), At(110));
  }
}

// It has not been missed: its time was another one, and is in the past at once.
TEST_F(LateChunkTest, OccurrenceMovedIntoThePastByARuleChangeFires) {
  constexpr char kZone[] = "Test/Moved";
  const cron::ZoneOverride present(kZone, {{.offset = 3600}});
  tzdata::Switch change{.time = kStart, .old_revision = "2026a", .new_revision = "2026b"};
  change.before[kZone] = tzdata::RulesOf(cron::Zone::FromSpans(kZone, {{.offset = 0}}),
                                         kStart - absl::Hours(24), kStart + absl::Hours(24));
  auto rules = std::make_shared<RulesChange>();
  rules->moved = std::make_shared<tzdata::MovedZones>(change);
  rules->frontier.emitted_to = rules->frontier.planned_to = kStart;
  rules->first = true;
  for (const auto action :
       {storage::v1::MISFIRE_KIND_FIRE_ALL, storage::v1::MISFIRE_KIND_FIRE_LATEST}) {
    policy_.set_action(action);
    // Half an hour after kStart by the former rules, half an hour before it by the present ones.
    DefinitionRecord definition = Definition("30 0 * * *");
    definition.set_time_zone(kZone);
    *definition.mutable_misfire() = policy_;
    EmissionChunk chunk({.layout = kLayout, .begin = kStart, .end = At(60), .rules = rules},
                        catch_up_);
    for (const kv::Entry& child : Children(definition, kStart - absl::Hours(2)))
      ASSERT_EQ(chunk.Add(kv::Entry(child), 5).value(), EmissionChunk::Added::kDue);
    const auto built = Build(chunk, {Enabled(1)});
    ASSERT_EQ(built.groups.size(), 1u);
    EXPECT_EQ(built.counts[0].occurrences, 1u);
    EXPECT_EQ(built.counts[0].skipped, 0u);
  }
}

TEST_F(LateChunkTest, AListIsPlannedByItsDefinition) {
  DefinitionRecord definition = Definition("");
  *definition.mutable_misfire() = policy_;
  for (int i = 0; i < 20; ++i) definition.mutable_timing()->add_times_micros(ToMicros(At(10 * i)));
  const auto children = Children(definition, kStart);
  EmissionChunk chunk = Chunk(At(0), At(60));
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(chunk.Add(kv::Entry(children[i]), 5).ok());
  const auto keys = chunk.DefinitionsToRead();
  ASSERT_EQ(keys.size(), 1u);
  EXPECT_EQ(keys[0].key, DefinitionKey(Uid::FromBytes(definition.uid()), 1));
  kv::GetResult definitions;
  definitions.values = {definition.SerializeAsString()};
  chunk.SetDefinitions(definitions);
  EXPECT_TRUE(chunk.DefinitionsToRead().empty());
  const auto built = Build(chunk, {Enabled(1), std::nullopt});
  EXPECT_EQ(built.counts[0].skipped, 6u);
  EXPECT_EQ(Count(built.groups[0], ColumnFamily::kDone, Mutation::Kind::kPut), 1u);
  EXPECT_EQ(Count(built.groups[0], ColumnFamily::kChildren, Mutation::Kind::kDelete), 6u);
  // The next windows know the plan.
  EmissionChunk next = Chunk(At(180), At(240));
  for (int i = 18; i < 20; ++i) ASSERT_TRUE(next.Add(kv::Entry(children[i]), 5).ok());
  EXPECT_TRUE(next.DefinitionsToRead().empty());
  const auto last = Build(next, {Enabled(1)});
  EXPECT_EQ(last.counts[0].occurrences, 1u);
  EXPECT_EQ(last.counts[0].skipped, 1u);
}

TEST_F(LateChunkTest, AChildThatCannotBeReadIsAnError) {
  EmissionChunk chunk = Chunk(At(0), At(60));
  kv::Entry child = Children(Definition("* * * * *"), kStart)[0];
  EXPECT_FALSE(chunk.Add({child.key, "\xff"}, 5).ok());
  EXPECT_FALSE(chunk.Add({"x", child.value}, 5).ok());
  storage::v1::ChildRecord record;
  ASSERT_TRUE(record.ParseFromString(child.value));
  record.set_cron("61 * * * *");
  EXPECT_FALSE(chunk.Add({child.key, record.SerializeAsString()}, 5).ok());
  EXPECT_TRUE(chunk.empty());
}

}  // namespace emission_chunk_test
}  // namespace escapement::emitter
