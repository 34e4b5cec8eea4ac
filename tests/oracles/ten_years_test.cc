// Ten years × all zones × the 200 expressions of expressions.txt. The index emits over windows that
// are cut at random. Its occurrences must be those of the evaluator, each exactly once.
//
// As a test it covers every offset change of the ten years with all expressions around it, and
// random stretches. It takes one zone of each group with equal rules in these years. The full run
// takes hours (all zones, the whole ten years, all expressions):
//   bazel run //tests/oracles:ten_years_test -- --full [--shard=K/N]

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "common/base/uid.h"
#include "common/cron/cron_expression.h"
#include "common/cron/evaluator.h"
#include "common/cron/timetable.h"
#include "common/cron/zone.h"
#include "common/kv/kv_store.h"
#include "common/kv/layout.h"
#include "common/storage/children_table.h"
#include "common/storage/occurrence_rows.h"
#include "escapement/storage/v1/records.pb.h"
#include "gtest/gtest.h"
#include "services/emitter/emission/child_evaluator.h"
#include "services/emitter/emission/emission_plan.h"

namespace escapement::emitter {
namespace ten_years_test {

// These ten years have a skipped day (Apia 2011), changes of half an hour, changes at midnight and
// three 29 Februaries.
const absl::Time kBegin = absl::FromCivil(absl::CivilDay(2006, 6, 1), absl::UTCTimeZone());
const absl::Time kEnd = absl::FromCivil(absl::CivilDay(2016, 6, 1), absl::UTCTimeZone());

struct Options {
  bool full = false;
  int shard = 0, shards = 1;
};
Options& TheOptions() {
  static auto* const options = new Options;
  return *options;
}

using Random = std::mt19937_64;
int64_t Below(Random& random, int64_t bound) { return static_cast<int64_t>(random() % bound); }

std::vector<std::string> ReadExpressions() {
  std::vector<std::string> expressions;
  std::ifstream file("tests/oracles/expressions.txt");
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') expressions.push_back(line);
  }
  return expressions;
}

// All names of the zone database: Zones and Links.
std::vector<std::string> ReadZoneNames() {
  const char* dir = std::getenv("TZDIR");
  std::vector<std::string> names;
  std::ifstream file(absl::StrCat(dir != nullptr ? dir : "/usr/share/zoneinfo", "/tzdata.zi"));
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words[0] == "Z" && words.size() > 1) names.push_back(words[1]);
    if (words[0] == "L" && words.size() > 2) names.push_back(words[2]);
  }
  return names;
}

std::vector<cron::OffsetChange> ChangesOf(const cron::Zone& zone) {
  std::vector<cron::OffsetChange> changes;
  auto change = zone.NextChange(kBegin);
  for (; change.has_value() && change->instant < kEnd; change = zone.NextChange(change->instant))
    changes.push_back(*change);
  return changes;
}

// One zone of each group that has the same offsets throughout the ten years.
std::vector<cron::Zone> DistinctZones(const std::vector<std::string>& names) {
  std::map<std::string, cron::Zone> zones;
  for (const std::string& name : names) {
    const cron::Zone zone = cron::Zone::Load(name).value();
    std::string rules = absl::StrCat(zone.spans()[zone.SpanAt(absl::ToUnixSeconds(kBegin))].offset);
    for (const cron::OffsetChange& change : ChangesOf(zone)) {
      absl::StrAppend(&rules, " ", absl::ToUnixSeconds(change.instant), ":",
                      absl::ToInt64Seconds(change.after));
    }
    zones.emplace(rules, zone);
  }
  std::vector<cron::Zone> distinct;
  for (const auto& [rules, zone] : zones) distinct.push_back(zone);
  return distinct;
}

struct Emitted {
  absl::Time instant;
  std::string id;
};

// One expression and its occurrences, computed by the evaluator alone from the beginning.
class Whole {
 public:
  Whole(std::string text, const cron::Zone& zone, const cron::DstPolicy& policy, absl::Time begin)
      : text_(std::move(text)),
        expression_(cron::ParseCron(text_).value()),
        zone_(zone),
        policy_(policy),
        next_(cron::FirstAtOrAfter(expression_, zone_, policy_, begin)) {}

  const std::string& text() const { return text_; }

  // Checks what was emitted for the expression, in order, in a window that ends at `end`. Returns
  // "" if it is right.
  std::string Take(const std::vector<Emitted>& emitted, absl::Time end, size_t& occurrences) {
    for (const Emitted& e : emitted) {
      if (!next_.has_value() || e.instant != next_->instant) return Wrong("emitted", e.instant);
      if (e.id != cron::FormatCalendarOccurrence(next_->civil, next_->fold, zone_.name()))
        return Wrong(absl::StrCat("emitted as ", e.id), e.instant);
      next_ = cron::FirstAfter(expression_, zone_, policy_, next_->instant);
      ++occurrences;
    }
    if (next_.has_value() && next_->instant < end) return Wrong("window done at", end);
    return "";
  }

 private:
  std::string Wrong(const std::string& what, absl::Time at) const {
    return absl::StrCat("\"", text_, "\" in ", zone_.name(), ": ", what, " ", absl::FormatTime(at),
                        ", but the next occurrence is ",
                        next_.has_value() ? absl::FormatTime(next_->instant) : "none");
  }

  std::string text_;
  cron::CronExpression expression_;
  cron::Zone zone_;
  cron::DstPolicy policy_;
  std::optional<cron::Occurrence> next_;
};

// The children of all expressions in a zone, in one partition, in memory.
class Index {
 public:
  Index(const std::vector<std::string>& expressions, const cron::Zone& zone,
        const cron::DstPolicy& policy)
      : expressions_(expressions), zone_(zone), policy_(policy) {
    for (size_t i = 0; i < expressions.size(); ++i) {
      storage::v1::DefinitionRecord definition;
      definition.set_tenant("default");
      definition.set_schedule_id(absl::StrCat(i));
      definition.set_uid(std::string(Uid::FromHalves(7, i).bytes()));
      definition.set_version(1);
      definition.set_cron(expressions[i]);
      definition.set_time_zone(zone.name());
      definition.set_event_count(1);
      definition.mutable_timing()->set_gap(static_cast<storage::v1::GapKind>(policy.gap));
      definition.mutable_timing()->set_fold(static_cast<storage::v1::FoldKind>(policy.fold));
      Add(definition, i);
    }
  }

  // Emits [cuts.front(), cuts.back()) window by window. Returns false, with a test failure, if the
  // evaluator disagrees.
  bool Check(const std::vector<absl::Time>& cuts, size_t& occurrences) const {
    std::vector<Whole> wholes;
    for (const std::string& text : expressions_) wholes.emplace_back(text, zone_, policy_, cuts[0]);
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      const std::vector<std::vector<Emitted>> emitted = Emit(cuts[i], cuts[i + 1]);
      for (size_t k = 0; k < wholes.size(); ++k) {
        const std::string wrong = wholes[k].Take(emitted[k], cuts[i + 1], occurrences);
        if (wrong.empty()) continue;
        ADD_FAILURE() << wrong << "; window " << absl::FormatTime(cuts[i]) << " to "
                      << absl::FormatTime(cuts[i + 1]) << ", gap policy "
                      << static_cast<int>(policy_.gap) << ", fold policy "
                      << static_cast<int>(policy_.fold);
        return false;
      }
    }
    return true;
  }

 private:
  struct Child {
    size_t expression = 0;
    ChildKey key;
    storage::v1::ChildRecord record;
  };

  void Add(const storage::v1::DefinitionRecord& definition, size_t expression) {
    kv::Layout layout;
    layout.partitions = 1;
    std::vector<kv::Mutation> rows;
    AddChildren(definition, TimetableOf(definition).value(), kBegin, layout, rows);
    for (const kv::Mutation& row : rows) {
      if (row.cf == kv::ColumnFamily::kInUse) {
        EXPECT_TRUE(AddInUse(row.key, in_use_));
      }
      if (row.cf != kv::ColumnFamily::kChildren) continue;
      Child child;
      child.expression = expression;
      child.key = DecodeChildKey(row.key).value();
      EXPECT_TRUE(child.record.ParseFromString(row.value));
      EXPECT_TRUE(children_.emplace(row.key, std::move(child)).second);
    }
  }

  // The emitter's occurrences in [begin, end), by expression, in order.
  std::vector<std::vector<Emitted>> Emit(absl::Time begin, absl::Time end) const {
    std::vector<std::vector<Emitted>> emitted(expressions_.size());
    const ChildRanges ranges = RangesToRead(0, in_use_, begin, end);
    EXPECT_TRUE(ranges.unknown_zones.empty());
    ChildEvaluator evaluator(begin, end);
    for (const KeyRange& range : ranges.ranges) {
      for (auto it = children_.lower_bound(range.begin);
           it != children_.end() && it->first < range.end; ++it) {
        const Child& child = it->second;
        const auto result =
            evaluator.OfCalendar(child.key, child.record, SourceOf(child.key.uid, child.record));
        EXPECT_TRUE(result.ok()) << result.status().ToString();
        if (!result.ok()) continue;
        for (const EmittedOccurrence& o : result->occurrences)
          emitted[child.expression].push_back({o.nominal_time, o.id});
      }
    }
    for (std::vector<Emitted>& of_one : emitted) {
      std::stable_sort(of_one.begin(), of_one.end(),
                       [](const Emitted& a, const Emitted& b) { return a.instant < b.instant; });
    }
    return emitted;
  }

  const std::vector<std::string>& expressions_;
  cron::Zone zone_;
  cron::DstPolicy policy_;
  InUse in_use_;
  std::map<std::string, Child> children_;
};

// Returns begin, cuts and end. The windows between them last from a millisecond to `longest`; short
// ones are as frequent as long ones.
std::vector<absl::Time> RandomCuts(absl::Time begin, absl::Time end, absl::Duration longest,
                                   Random& random) {
  std::vector<absl::Time> cuts = {begin};
  while (cuts.back() < end) {
    absl::Duration length = longest * (static_cast<double>(1 + Below(random, 1000)) / 1000);
    for (int64_t halves = Below(random, 8); halves > 0; --halves) length /= 2;
    // The emitter's windows end at whole seconds; other windows must give the same result.
    if (Below(random, 4) != 0) length = absl::Ceil(length, absl::Seconds(1));
    cuts.push_back(std::min(end, cuts.back() + std::max(length, absl::Milliseconds(1))));
  }
  return cuts;
}

cron::DstPolicy RandomPolicy(Random& random) {
  cron::DstPolicy policy;
  if (Below(random, 2) == 0) return policy;
  policy.gap = static_cast<cron::GapPolicy>(Below(random, 4));
  policy.fold = static_cast<cron::FoldPolicy>(Below(random, 4));
  return policy;
}

class TenYearsTest : public ::testing::Test {
 protected:
  TenYearsTest() : expressions_(ReadExpressions()), names_(ReadZoneNames()) {}

  void SetUp() override {
    ASSERT_EQ(expressions_.size(), 200u);
    ASSERT_GT(names_.size(), 500u);
  }

  // Checks all changes of the zone, with all expressions around each.
  void CheckChanges(const cron::Zone& zone, Random& random) {
    const Index automatic(expressions_, zone, {}), other(expressions_, zone, RandomPolicy(random));
    for (const cron::OffsetChange& change : ChangesOf(zone)) {
      const absl::Duration length = absl::AbsDuration(change.after - change.before);
      const absl::Time begin = change.instant - length - absl::Minutes(61 + Below(random, 60));
      const absl::Time end = change.instant + length + absl::Minutes(61 + Below(random, 60));
      const Index& index = Below(random, 2) == 0 ? automatic : other;
      if (!index.Check(RandomCuts(begin, end, absl::Hours(3), random), occurrences_)) return;
      ++changes_;
    }
  }

  const std::vector<std::string> expressions_;
  const std::vector<std::string> names_;
  size_t occurrences_ = 0, changes_ = 0;
};

TEST_F(TenYearsTest, EveryChangeOfTheOffset) {
  Random random(20061231);
  for (const cron::Zone& zone : DistinctZones(names_)) {
    CheckChanges(zone, random);
    if (HasFailure()) return;
  }
  EXPECT_GT(changes_, 1000u);
  EXPECT_GT(occurrences_, 500'000u);
  std::printf("%zu changes, %zu occurrences\n", changes_, occurrences_);
}

TEST_F(TenYearsTest, RandomStretches) {
  Random random(20160229);
  for (int round = 0; round < 250 && !HasFailure(); ++round) {
    const auto zone = cron::Zone::Load(names_[Below(random, names_.size())]).value();
    const absl::Time begin = kBegin + absl::Seconds(Below(random, 3600 * 86400));
    const absl::Time end = std::min(kEnd, begin + absl::Hours(1 + Below(random, 15 * 24)));
    const Index index(expressions_, zone, RandomPolicy(random));
    index.Check(RandomCuts(begin, end, absl::Hours(6 << Below(random, 7)), random), occurrences_);
  }
  EXPECT_GT(occurrences_, 1'000'000u);
  std::printf("%zu occurrences\n", occurrences_);
}

TEST_F(TenYearsTest, InFull) {
  for (size_t i = 0; i < names_.size() && !HasFailure(); ++i) {
    if (static_cast<int>(i % TheOptions().shards) != TheOptions().shard) continue;
    Random random(i);
    const cron::Zone zone = cron::Zone::Load(names_[i]).value();
    occurrences_ = 0;
    CheckChanges(zone, random);
    const Index index(expressions_, zone, {});
    index.Check(RandomCuts(kBegin, kEnd, absl::Hours(24 * 20), random), occurrences_);
    std::printf("%zu of %zu %s: %zu occurrences\n", i + 1, names_.size(), names_[i].c_str(),
                occurrences_);
    std::fflush(stdout);
  }
}

// Malformed options end the program.
void ReadOptions(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    Options& options = TheOptions();
    if (argument == "--full") {
      options.full = true;
    } else if (const std::vector<absl::string_view> parts = absl::StrSplit(argument, '/');
               parts.size() == 2 && absl::ConsumePrefix(&argument, "--shard=") &&
               absl::SimpleAtoi(argument.substr(0, argument.find('/')), &options.shard) &&
               absl::SimpleAtoi(parts[1], &options.shards) && options.shard >= 0 &&
               options.shard < options.shards) {
    } else {
      std::fprintf(stderr, "usage: ten_years_test [--full [--shard=K/N]], K from 0 to N-1\n");
      std::exit(2);
    }
  }
}

}  // namespace ten_years_test
}  // namespace escapement::emitter

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  escapement::emitter::ten_years_test::ReadOptions(argc, argv);
  const bool full = escapement::emitter::ten_years_test::TheOptions().full;
  GTEST_FLAG_SET(filter, full ? "*.InFull" : "-*.InFull");
  return RUN_ALL_TESTS();
}
