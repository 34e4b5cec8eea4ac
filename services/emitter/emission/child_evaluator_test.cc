#include "services/emitter/emission/child_evaluator.h"

#include "common/base/proto_time.h"
#include "common/storage/children_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "gtest/gtest.h"

namespace escapement::emitter {
namespace child_evaluator_test {

constexpr size_t kMany = 1000;

absl::Time At(int hour, int minute, int second) {
  // A Monday.
  return absl::FromCivil(absl::CivilSecond(2026, 3, 2, hour, minute, second), absl::UTCTimeZone());
}

storage::v1::DefinitionRecord Definition(const std::string& cron) {
  storage::v1::DefinitionRecord definition;
  definition.set_tenant("default");
  definition.set_schedule_id("s");
  definition.set_uid(std::string(Uid::FromHalves(1, 2).bytes()));
  definition.set_version(1);
  definition.set_cron(cron);
  definition.set_time_zone("UTC");
  definition.set_event_count(1);
  return definition;
}

struct Child {
  std::string key;
  storage::v1::ChildRecord record;
};

std::vector<Child> Children(const storage::v1::DefinitionRecord& definition, absl::Time from) {
  std::vector<kv::Mutation> rows;
  AddChildren(definition, TimetableOf(definition).value(), from, kv::Layout(), rows);
  std::vector<Child> children;
  for (const kv::Mutation& row : rows) {
    if (row.cf != kv::ColumnFamily::kChildren) continue;
    children.emplace_back().key = row.key;
    EXPECT_TRUE(children.back().record.ParseFromString(row.value));
  }
  return children;
}

absl::StatusOr<ChildOccurrences> Evaluate(ChildEvaluator& evaluator, const Child& child,
                                          size_t max = kMany) {
  if (const auto key = DecodeInstantChildKey(child.key))
    return evaluator.OfInstant(*key, child.record, SourceOf(key->uid, child.record), max);
  const auto key = DecodeChildKey(child.key);
  return evaluator.OfCalendar(*key, child.record, SourceOf(key->uid, child.record));
}

std::vector<std::string> Ids(const ChildOccurrences& found) {
  std::vector<std::string> ids;
  for (const EmittedOccurrence& o : found.occurrences) ids.push_back(o.id);
  return ids;
}

TEST(ChildEvaluatorTest, AChildEmitsItsOwnOccurrencesFromItsBeginning) {
  ChildEvaluator evaluator(At(0, 0, 0), At(7, 0, 0));
  std::vector<std::string> ids;
  for (const Child& child : Children(Definition("0,30 3,6 * * *"), At(3, 0, 1))) {
    const auto found = Evaluate(evaluator, child);
    ASSERT_TRUE(found.ok());
    for (const std::string& id : Ids(*found)) ids.push_back(id);
  }
  EXPECT_EQ(ids, (std::vector<std::string>{"20260302T033000-0-UTC", "20260302T060000-0-UTC",
                                           "20260302T063000-0-UTC"}));
}

// The occurrences cached for one child are used only for children that fire at the same instants.
TEST(ChildEvaluatorTest, ChildrenOfEqualPlaceAndOtherTimesAreToldApart) {
  ChildEvaluator evaluator(At(3, 0, 0), At(4, 0, 0));
  storage::v1::DefinitionRecord bounded = Definition("0,30 * * * *");
  bounded.mutable_timing()->set_end_micros(ToMicros(At(3, 30, 0)));
  storage::v1::DefinitionRecord begun = Definition("0,30 * * * *");
  begun.mutable_timing()->set_start_micros(ToMicros(At(3, 0, 1)));
  storage::v1::DefinitionRecord excluded = Definition("0,30 * * * *");
  excluded.mutable_timing()->add_exclusions("30 3 * * *");
  storage::v1::DefinitionRecord berlin = Definition("0,30 * * * *");
  berlin.set_time_zone("Europe/Berlin");
  const auto count = [&](const storage::v1::DefinitionRecord& definition, absl::Time from) {
    size_t occurrences = 0;
    for (const Child& child : Children(definition, from))
      occurrences += Evaluate(evaluator, child)->occurrences.size();
    return occurrences;
  };
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(count(Definition("0,30 * * * *"), At(0, 0, 0)), 2u);
    EXPECT_EQ(count(bounded, At(0, 0, 0)), 1u);
    EXPECT_EQ(count(begun, At(0, 0, 0)), 1u);
    EXPECT_EQ(count(excluded, At(0, 0, 0)), 1u);
    EXPECT_EQ(count(berlin, At(0, 0, 0)), 2u);
    EXPECT_EQ(count(Definition("0,30 * * * *"), At(3, 10, 0)), 1u);
    EXPECT_EQ(count(Definition("0,15,30 * * * *"), At(0, 0, 0)), 3u);
  }
}

TEST(ChildEvaluatorTest, JitterIsOfTheScheduleAndNoPartOfTheName) {
  ChildEvaluator evaluator(At(3, 0, 0), At(4, 0, 0));
  storage::v1::DefinitionRecord definition = Definition("30 3 * * *");
  definition.mutable_timing()->set_jitter_micros(600'000'000);
  const auto first = Evaluate(evaluator, Children(definition, At(0, 0, 0))[0]);
  definition.set_uid(std::string(Uid::FromHalves(3, 4).bytes()));
  const auto other = Evaluate(evaluator, Children(definition, At(0, 0, 0))[0]);
  ASSERT_EQ(first->occurrences.size(), 1u);
  ASSERT_EQ(other->occurrences.size(), 1u);
  EXPECT_EQ(first->occurrences[0].id, other->occurrences[0].id);
  EXPECT_NE(first->occurrences[0].launch_time, other->occurrences[0].launch_time);
  for (const auto* found : {&*first, &*other}) {
    EXPECT_GE(found->occurrences[0].launch_time, At(3, 30, 0));
    EXPECT_LE(found->occurrences[0].launch_time, At(3, 40, 0));
  }
}

TEST(ChildEvaluatorTest, AnIntervalEmitsUpToTheEndAndGoesOnBehindIt) {
  storage::v1::DefinitionRecord definition = Definition("");
  definition.mutable_timing()->mutable_interval()->set_every_micros(7'000'000);
  definition.mutable_timing()->mutable_interval()->set_anchor_micros(ToMicros(At(3, 0, 3)));
  const std::vector<Child> children = Children(definition, At(3, 0, 0));
  ASSERT_EQ(children.size(), 1u);
  EXPECT_EQ(DecodeInstantChildKey(children[0].key)->instant, At(3, 0, 3));
  ChildEvaluator evaluator(At(3, 0, 0), At(3, 0, 17));
  const auto found = Evaluate(evaluator, children[0]);
  EXPECT_EQ(Ids(*found),
            (std::vector<std::string>{"20260302T030003.000000Z", "20260302T030010.000000Z"}));
  EXPECT_EQ(found->next, At(3, 0, 17)) << "`end` is not in the window";
  const auto part = Evaluate(evaluator, children[0], /*max=*/1);
  EXPECT_EQ(part->occurrences.size(), 1u);
  EXPECT_EQ(part->next, At(3, 0, 10));
}

TEST(ChildEvaluatorTest, AnIntervalThatHasEndedGoesNowhere) {
  storage::v1::DefinitionRecord definition = Definition("");
  definition.mutable_timing()->mutable_interval()->set_every_micros(7'000'000);
  definition.mutable_timing()->mutable_interval()->set_anchor_micros(ToMicros(At(3, 0, 3)));
  definition.mutable_timing()->set_end_micros(ToMicros(At(3, 0, 10)));
  ChildEvaluator evaluator(At(3, 0, 0), At(3, 0, 17));
  const auto found = Evaluate(evaluator, Children(definition, At(3, 0, 0))[0]);
  EXPECT_EQ(found->occurrences.size(), 1u);
  EXPECT_FALSE(found->next.has_value());
}

TEST(ChildEvaluatorTest, AListsInstantIsItsOwnChild) {
  storage::v1::DefinitionRecord definition = Definition("");
  definition.mutable_timing()->add_times_micros(ToMicros(At(3, 0, 3)));
  definition.mutable_timing()->add_times_micros(ToMicros(At(3, 0, 4)) + 1);
  const std::vector<Child> children = Children(definition, At(3, 0, 0));
  ASSERT_EQ(children.size(), 2u);
  ChildEvaluator evaluator(At(3, 0, 0), At(3, 0, 17));
  EXPECT_EQ(Ids(*Evaluate(evaluator, children[0])),
            std::vector<std::string>{"20260302T030003.000000Z"});
  const auto second = Evaluate(evaluator, children[1]);
  EXPECT_EQ(Ids(*second), std::vector<std::string>{"20260302T030004.000001Z"});
  EXPECT_FALSE(second->next.has_value());
}

TEST(ChildEvaluatorTest, ABrokenChildIsAnError) {
  ChildEvaluator evaluator(At(0, 0, 0), At(7, 0, 0));
  Child child = Children(Definition("0 3 * * *"), At(0, 0, 0))[0];
  child.record.set_cron("61 * * * *");
  EXPECT_EQ(Evaluate(evaluator, child).status().code(), absl::StatusCode::kDataLoss);
  child.record.clear_cron();
  EXPECT_EQ(Evaluate(evaluator, child).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace child_evaluator_test
}  // namespace escapement::emitter
