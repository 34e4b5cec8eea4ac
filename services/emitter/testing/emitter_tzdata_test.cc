// Emitters with different time zone databases at one store: the newer one takes over, and each
// occurrence is emitted once though the rules of its zone have changed.

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/cron/zone.h"
#include "common/storage/children_table.h"
#include "common/storage/schedule_table.h"
#include "common/tzdata/rederive.h"
#include "common/tzdata/tzdata_gate.h"
#include "common/tzdata/tzdata_table.h"
#include "services/emitter/service/emitter_service.h"
#include "services/emitter/testing/emitter_world.h"

namespace escapement::emitter {
namespace emitter_tzdata_test {

using kv::ColumnFamily;
using Spans = std::vector<cron::OffsetSpan>;

constexpr char kZone[] = "Test/Moved";
constexpr int64_t kStart = 1'772'323'200;  // as the fixture's
constexpr size_t kAll = std::numeric_limits<size_t>::max();

class EmitterTzdataTest : public EmitterWorld {
 protected:
  EmitterTzdataTest() {
    on_durable_ = [this](const kv::CommitRequest& request) {
      if (request.groups.size() > 1000) ++large_commits_;
      for (const kv::Group& group : request.groups) {
        for (const kv::Mutation& mutation : group.mutations) {
          // From the switch on the process-wide rules are the new ones.
          if (mutation.key == tzdata::kRevisionKey && mutation.value == "2026b") UseRules(new_);
        }
      }
    };
  }
  ~EmitterTzdataTest() override {
    while (!hosts_.empty()) Kill(hosts_.begin()->first);
  }

  void UseRules(const Spans& spans) {
    rules_.reset();
    rules_ = std::make_unique<cron::ZoneOverride>(kZone, spans);
  }
  void SetRules(Spans before, Spans now) {
    old_ = std::move(before);
    new_ = std::move(now);
    UseRules(old_);
  }

  // An emitter behind its gate, as a process hosts it.
  void Start(const std::string& name, const std::string& revision, const Spans& spans) {
    Host& host = hosts_[name];
    sim::SimProcess::Options process;
    process.incarnation = ++incarnations_;
    host.process = std::make_unique<sim::SimProcess>(world_, name, process);
    EmitterOptions options;
    options.instance = absl::StrCat(name, "-", incarnations_);
    options.tz_rev = revision;
    host.service = std::make_unique<EmitterService>(options, *hooked_, *host.process);
    host.gate = std::make_unique<tzdata::TzdataGate>(
        tzdata::TzdataGate::Options{
            .database = {.revision = revision,
                         .zones =
                             [spans] { return std::vector{cron::Zone::FromSpans(kZone, spans)}; }},
            .instance = options.instance},
        *hooked_, *host.process, [&host] { host.service->Start(); },
        [&host] { host.service->Drain([&host] { host.drained = true; }); });
    host.gate->Start();
  }
  void StartOld(const std::string& name) { Start(name, "2026a", old_); }
  void StartNew(const std::string& name) { Start(name, "2026b", new_); }
  void Kill(const std::string& name) {
    hosts_[name].process->Kill();
    hosts_.erase(name);
  }

  std::string Meta(const std::string& key) const {
    const auto it = Disk(ColumnFamily::kMeta).find(key);
    return it == Disk(ColumnFamily::kMeta).end() ? "" : it->second;
  }
  bool Switched() const { return Meta(std::string(tzdata::kRevisionKey)) == "2026b"; }

  void AddUsualSchedules() {
    for (const char* cron :
         {"*/20 * * * * *", "* * * * *", "*/7 * * * *", "0 0-3 * * *", "30 1 * * *"}) {
      AddSchedule(cron, kZone);
      AddSchedule(cron, "Europe/Berlin");
    }
  }

  std::map<std::string, absl::Time> All(const Schedule& schedule, const Spans& spans,
                                        absl::Time begin, absl::Time end) const {
    cron::TimetableSpec spec = TimetableOf(schedule.definition).value().spec();
    if (spec.zone.name() == kZone) spec.zone = cron::Zone::FromSpans(kZone, spans);
    const cron::Timetable timetable(std::move(spec));
    std::map<std::string, absl::Time> all;
    for (const cron::Occurrence& o : timetable.Enumerate(begin, end, kAll))
      all[timetable.IdOf(o)] = o.instant;
    return all;
  }

  // Every occurrence of either rules that is due by `to` has rows once, where rederive.h says. How
  // many of them have moved.
  size_t ExpectExact(absl::Time to) {
    std::map<std::pair<Uid, std::string>, std::vector<absl::Time>> due;
    for (const auto& [bytes, times] : puts_) {
      const EventKey key = DecodeEventKey(bytes).value();
      for (size_t i = 0; i < times.size(); ++i)
        due[{key.uid, key.occurrence}].push_back(key.due_time);
    }
    EXPECT_TRUE(tzdata::DecodeSwitch(Meta(std::string(tzdata::kSwitchKey))).has_value());
    size_t moved = 0;
    for (const auto& [uid, schedule] : schedules_) {
      const auto frontier =
          tzdata::DecodeFrontier(Meta(tzdata::FrontierKey(PartitionOf(uid, layout_.partitions))));
      EXPECT_TRUE(frontier.has_value());
      const absl::Time decided_to = frontier->emitted_to;
      const auto before = All(schedule, old_, schedule.from, to + absl::Hours(3));
      const auto now = All(schedule, new_, schedule.from - absl::Hours(3), to + absl::Hours(3));
      std::set<std::string> names;
      for (const auto* all : {&before, &now}) {
        for (const auto& [id, instant] : *all) names.insert(id);
      }
      for (const std::string& id : names) {
        const auto was = before.find(id), is = now.find(id);
        std::vector<absl::Time> expected;
        if (was != before.end() && was->second < decided_to) {
          expected = {was->second};
        } else if (is != now.end() && (was != before.end() || is->second >= decided_to)) {
          expected = {is->second};
          if (was == before.end() || was->second != is->second) ++moved;
        }
        if (!expected.empty() && expected[0] >= to) continue;
        const auto& found = due[{uid, id}];
        EXPECT_EQ(found, expected) << schedule.definition.cron() << " " << id;
      }
    }
    return moved;
  }

  struct Host {
    std::unique_ptr<sim::SimProcess> process;
    std::unique_ptr<EmitterService> service;
    std::unique_ptr<tzdata::TzdataGate> gate;
    bool drained = false;
  };
  std::map<std::string, Host> hosts_;
  uint64_t incarnations_ = 0;
  Spans old_, new_;
  std::unique_ptr<cron::ZoneOverride> rules_;
  size_t large_commits_ = 0;
};

// The offset changes by `by` a little before the news of it come.
Spans ChangedBy(int64_t by) { return {{.offset = 0}, {.begin = kStart + 30, .offset = by}}; }

TEST_F(EmitterTzdataTest, TheNewerEmitterTakesOverAndEveryOccurrenceIsEmittedOnce) {
  SetRules({{.offset = 0}}, ChangedBy(3600));
  AddUsualSchedules();
  StartOld("old");
  Advance(absl::Seconds(95));
  EXPECT_TRUE(hosts_["old"].service->Ready());
  StartNew("new");
  Advance(absl::Seconds(2));
  EXPECT_TRUE(Switched());
  EXPECT_TRUE(hosts_["old"].drained);
  EXPECT_FALSE(hosts_["old"].service->Ready());
  EXPECT_TRUE(hosts_["new"].service->Ready());
  Advance(absl::Minutes(130));
  EXPECT_GT(ExpectExact(Now()), 400u);
}

TEST_F(EmitterTzdataTest, AClockSetBackHoldsBackWhatHasBeenEmitted) {
  SetRules({{.offset = 0}}, ChangedBy(-3600));
  AddUsualSchedules();
  StartOld("old");
  Advance(absl::Minutes(40));
  StartNew("new");
  Advance(absl::Minutes(130));
  EXPECT_GT(ExpectExact(Now()), 200u);
}

TEST_F(EmitterTzdataTest, SwitchersThatDieInTheMiddleLoseAndDoubleNothing) {
  SetRules({{.offset = 0}}, ChangedBy(1800));
  AddUsualSchedules();
  StartOld("old");
  Advance(absl::Seconds(95));
  for (int round = 0; round < 25; ++round) {
    StartNew("new");
    Advance(absl::Milliseconds(1) + absl::Microseconds(1700) * round * round);
    Kill("new");
    Advance(absl::Milliseconds(40 * (round % 4)));
  }
  EXPECT_TRUE(Switched());
  StartNew("new");
  Advance(absl::Minutes(70));
  EXPECT_GT(ExpectExact(Now()), 200u);
}

TEST_F(EmitterTzdataTest, ALateCommitOfTheOldRulesIsRefused) {
  SetRules({{.offset = 0}}, ChangedBy(3600));
  AddUsualSchedules();
  StartOld("old");
  Advance(absl::Seconds(95));
  std::vector<std::function<void()>> held;
  hooked_->before_rows = [&](std::function<void()> send) { held.push_back(std::move(send)); };
  ASSERT_TRUE(world_.RunUntil([&] { return !held.empty(); }, absl::Seconds(30)));
  hooked_->before_rows = nullptr;
  StartNew("new");
  ASSERT_TRUE(world_.RunUntil([&] { return Switched(); }, absl::Seconds(1)));
  const size_t before = puts_.size();
  for (const auto& send : held) send();
  Advance(absl::Milliseconds(1));
  EXPECT_EQ(puts_.size(), before);
  Advance(absl::Minutes(70));
  EXPECT_GT(ExpectExact(Now()), 200u);
}

// Part of the children of a window has been emitted when the rules change: the rest is emitted by
// the same rules.
TEST_F(EmitterTzdataTest, AWindowThatWasBegunIsFinishedByTheRulesItWasBegunWith) {
  SetRules({{.offset = 0}}, ChangedBy(-3600));
  std::vector<std::vector<kv::Group>> commits;
  const absl::Time start = Now();
  for (size_t i = 0; i < 24'000; ++i) {
    const Uid uid = Uid::FromHalves(i + 1, i * 0x9e3779b97f4a7c15);
    Schedule& schedule = schedules_[uid];
    schedule.from = start;
    schedule.definition.set_tenant("default");
    schedule.definition.set_uid(std::string(uid.bytes()));
    schedule.definition.set_version(1);
    schedule.definition.set_cron("1 0 * * *");
    schedule.definition.set_time_zone(kZone);
    schedule.definition.set_event_count(1);
    schedule.state.set_kind(storage::v1::SCHEDULE_STATE_KIND_ENABLED);
    schedule.state.set_version(1);
    if (i % 500 == 0) commits.emplace_back();
    kv::Group& group = commits.back().emplace_back();
    group.mutations.push_back({.cf = ColumnFamily::kStates,
                               .key = StateKey(uid),
                               .value = schedule.state.SerializeAsString()});
    AddChildren(schedule.definition, TimetableOf(schedule.definition).value(), start, layout_,
                group.mutations);
  }
  for (std::vector<kv::Group>& groups : commits) Commit(std::move(groups));
  StartOld("old");
  ASSERT_TRUE(world_.RunUntil([&] { return large_commits_ >= 3; }, absl::Minutes(2)));
  Kill("old");
  size_t cursors = 0;
  for (uint16_t p = 0; p < layout_.partitions; ++p)
    cursors += Disk(ColumnFamily::kCheckpoints).contains(CursorKey(p));
  EXPECT_GT(cursors, 0u);
  StartNew("new");
  Advance(absl::Minutes(65));
  EXPECT_GT(large_commits_, 2u * layout_.partitions - 1);
  // None has moved to where the new rules have it.
  EXPECT_EQ(ExpectExact(Now()), 0u);
  EXPECT_EQ(puts_.size(), 24'000u);
  std::set<absl::Time> instants;
  for (const auto& [bytes, times] : puts_) instants.insert(DecodeEventKey(bytes)->due_time);
  EXPECT_EQ(instants.size(), 1u);
}

TEST_F(EmitterTzdataTest, AnOlderEmitterTakesNoLeases) {
  SetRules({{.offset = 0}}, ChangedBy(3600));
  StartNew("new");
  Advance(absl::Seconds(2));
  UseRules(new_);
  Kill("new");
  StartOld("old");
  AddSchedule("* * * * *", kZone);
  Advance(absl::Minutes(5));
  EXPECT_FALSE(hosts_["old"].service->Ready());
  EXPECT_TRUE(puts_.empty());
  for (const auto& [key, value] : Disk(ColumnFamily::kMembers))
    EXPECT_EQ(key.find("old"), std::string::npos);
}

}  // namespace emitter_tzdata_test
}  // namespace escapement::emitter
