// The checkers of checkpoints and of overdue events pass correct histories and catch planted
// breaches.

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "tests/simulation/checkers/checkers.h"
#include "tests/simulation/checkers/commits/commit_checks.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {
namespace due_checkers_test {

using Kind = StateWrite::Kind;
using Table = RowWrite::Table;

testing::AssertionResult Says(const std::vector<Violation>& violations, const std::string& what) {
  for (const Violation& violation : violations) {
    if (violation.what.find(what) != std::string::npos) return testing::AssertionSuccess();
  }
  return testing::AssertionFailure()
         << "instead: " << (violations.empty() ? "nothing" : violations[0].what);
}

Commit& NewCommit(History* history, double at) {
  Commit commit;
  commit.seq = history->commits.size() + 1;
  commit.time = commit.store_time = At(at);
  history->commits.push_back(commit);
  return history->commits.back();
}

EmissionWrite Emitted(int second) { return {"u1", Id(second), 1, At(second), At(second), false}; }

void EmitTo(History* history, double at, std::vector<int> seconds, int to) {
  Commit& commit = NewCommit(history, at);
  commit.fence = {{"partition/2", 1}};
  for (int second : seconds) commit.times.push_back(Emitted(second));
  commit.checkpoints = {{"emitted_to/2", absl::ToUnixMicros(At(to))}};
}

// Every 10 seconds, made at 5 s when the checkpoint is at 30 s. The master emits the occurrences
// before the checkpoint.
History Emission() {
  History history;
  history.begin = kBegin;
  history.end = At(300);
  ScheduleLife life{.id = "s", .uid = "u1", .changes = {}, .triggered = {}};
  Definition definition;
  definition.zone = "UTC";
  definition.every = absl::Seconds(10);
  definition.anchor = At(0);
  life.changes.push_back({ScheduleChange::Kind::kCreate, At(4.9), At(5.1), definition});
  history.schedules.push_back(life);
  EmitTo(&history, 1, {}, 30);
  Commit& made = NewCommit(&history, 5);
  made.queue = {ChildWrite{"u1", 2}, StateWrite{"u1", Kind::kEnabled, 1}};
  made.times = {Emitted(10), Emitted(20)};
  EmitTo(&history, 6, {30, 40}, 50);
  return history;
}

TEST(CheckCheckpointTest, PassesWhatIsEmittedBeforeTheCheckpointMoves) {
  History history = Emission();
  EmitTo(&history, 20, {50}, 60);
  EmitTo(&history, 30, {}, 60);
  EXPECT_EQ(CheckCheckpoint(history).size(), 0u);
}

TEST(CheckCheckpointTest, CatchesACheckpointBeforeItsRows) {
  History history = Emission();
  EmitTo(&history, 20, {50}, 70);
  EmitTo(&history, 21, {60}, 80);
  const std::vector<Violation> violations = CheckCheckpoint(history);
  EXPECT_TRUE(Says(violations, Id(60) + " of u1 at 2026-03-01T00:01:00+00:00 is neither emitted"));
  EXPECT_TRUE(Says(violations, Id(60) + " of u1 at 2026-03-01T00:01:00+00:00 is emitted or "
                                        "skipped for the first time, and emitted_to is"));
}

TEST(CheckCheckpointTest, CatchesAMasterThatLeavesOutWhatTheCheckpointHasPassed) {
  History history = Emission();
  history.commits[1].times.pop_back();
  EXPECT_TRUE(Says(CheckCheckpoint(history), "commit 2"));
}

TEST(CheckCheckpointTest, SummariesAndPausesOweNothing) {
  History history = Emission();
  Commit& commit = NewCommit(&history, 100);
  OutcomeWrite summary;
  summary.uid = "u1";
  summary.occurrence = Id(50);
  summary.nominal = At(50);
  summary.last = At(80);
  summary.occurrences = 4;
  summary.run_skipped = true;
  summary.outcome = Outcome::kSkipped;
  commit.fence = {{"partition/2", 2}};
  commit.times = {summary};
  commit.checkpoints = {{"emitted_to/2", absl::ToUnixMicros(At(90))}};
  NewCommit(&history, 101).queue = {StateWrite{"u1", Kind::kPaused, 1}};
  EmitTo(&history, 102, {}, 200);
  EXPECT_EQ(CheckCheckpoint(history).size(), 0u);
}

// Calm from 100 s on; a row due at 110 s is claimed at once.
History Calm() {
  History history;
  history.begin = kBegin;
  history.end = At(300);
  history.calm = At(100);
  NewCommit(&history, 5).queue = {StateWrite{"u1", Kind::kEnabled, 1}};
  QueuePut row;
  row.table = Table::kEvents;
  row.key = 1;
  row.uid = "u1";
  row.occurrence = Id(110);
  row.events = {0, 1};
  row.due = At(110);
  NewCommit(&history, 50).queue = {row};
  return history;
}

void ClaimAt(History* history, double at, double gone) {
  ClaimPut claim;
  claim.claim = {0, 1, 1};
  claim.timeout = absl::Seconds(2);
  claim.events = {{"u1", Id(110), {0, 1}, 0, 1}};
  NewCommit(history, at).queue = {claim, QueueGone{1}};
  if (gone > 0) NewCommit(history, gone).queue = {ClaimGone{{0, 1, 1}}};
  NewCommit(history, 290);
}

TEST(CheckOverdueTest, PassesWhatIsClaimedInTime) {
  History history = Calm();
  ClaimAt(&history, 139, 141);
  EXPECT_EQ(CheckOverdue(history).size(), 0u);
}

TEST(CheckOverdueTest, CatchesWhatWaits) {
  History late = Calm();
  ClaimAt(&late, 141, 142);
  EXPECT_TRUE(Says(CheckOverdue(late), "was not claimed from"));

  History never = Calm();
  NewCommit(&never, 290);
  EXPECT_TRUE(Says(CheckOverdue(never), "was not claimed from"));

  History stuck = Calm();
  ClaimAt(&stuck, 111, 0);
  EXPECT_TRUE(Says(CheckOverdue(stuck), "claim 0/1.1 was open from"));
}

TEST(CheckOverdueTest, PausedOrLateBeforeTheCalmIsNoBreach) {
  History paused = Calm();
  NewCommit(&paused, 60).queue = {StateWrite{"u1", Kind::kPaused, 1}};
  NewCommit(&paused, 280).queue = {StateWrite{"u1", Kind::kEnabled, 1}};
  ClaimAt(&paused, 281, 282);
  EXPECT_EQ(CheckOverdue(paused).size(), 0u);

  History faults = Calm();
  faults.calm = At(250);
  ClaimAt(&faults, 240, 260);
  EXPECT_EQ(CheckOverdue(faults).size(), 0u);
}

TEST(CheckOverdueTest, LetsANextAttemptWaitForProbesBesideAHangingSchedule) {
  for (const uint32_t attempts : {0u, 1u}) {
    for (const double claimed : {141, 259, 261}) {
      History history = Calm();
      history.hanging = "hangs";
      std::get<QueuePut>(history.commits.back().queue[0]).attempts = attempts;
      ClaimAt(&history, claimed, claimed + 1);
      EXPECT_EQ(CheckOverdue(history).empty(), attempts == 1 && claimed < 260)
          << attempts << " " << claimed;
    }
  }
}

TEST(CheckOverdueTest, LetsAClaimAfterLostOnesWaitForProbes) {
  for (const uint32_t lost : {0u, 1u}) {
    for (const double gone : {143, 262, 264}) {
      History history = Calm();
      history.hanging = "hangs";
      ClaimAt(&history, 111, gone);  // its attempts take at most 2 s
      std::get<ClaimPut>(history.commits[2].queue[0]).events[0].lost_claims = lost;
      EXPECT_EQ(CheckOverdue(history).empty(), gone <= (lost > 0 ? 262 : 143))
          << lost << " " << gone;
    }
  }
}

TEST(CheckOverdueTest, CatchesANextAttemptOfAnotherTargetThanTheHangingOne) {
  const auto passes = [](const std::string& authority, const std::string& kind) {
    History history = Calm();
    history.hanging = "hangs";
    ScheduleLife life = Emission().schedules[0];
    life.changes[0].definition.end = kBegin;
    life.target = authority;
    history.schedules.push_back(life);
    life.id = "hangs";
    life.uid = "u2";
    life.target = "a";
    history.schedules.push_back(life);
    Receipt receipt;
    receipt.uid = "u1";
    receipt.kind = kind;
    history.receipts.push_back(receipt);
    receipt.uid = "u2";
    receipt.kind = "http";
    history.receipts.push_back(receipt);
    std::get<QueuePut>(history.commits.back().queue[0]).attempts = 1;
    ClaimAt(&history, 200, 201);
    return CheckOverdue(history).empty();
  };
  EXPECT_TRUE(passes("a", "http"));
  EXPECT_FALSE(passes("b", "http"));
  EXPECT_FALSE(passes("a", "sqs"));
}

TEST(CheckOverdueTest, CatchesOneOffEventsThatWait) {
  History history;
  history.calm = At(0);
  QueuePut row;
  row.key = 9;
  row.occurrence = "e1";
  row.events = {0, 1};
  row.due = At(10);
  NewCommit(&history, 1).queue = {row};
  ClaimPut claim;
  claim.claim = {0, 1, 1};
  claim.events = {{"", "e1", {0, 1}, 0, 0}};
  History good = history;
  NewCommit(&good, 30).queue = {claim};
  NewCommit(&good, 55).queue = {ClaimGone{{0, 1, 1}}, QueueGone{9}};
  EXPECT_EQ(CheckOverdue(good).size(), 0u);
  NewCommit(&history, 41).queue = {claim};
  EXPECT_TRUE(Says(CheckOverdue(history), "e1[0 +1] due"));
}

TEST(CheckOverdueTest, CatchesWhatIsEmittedLate) {
  History history = Emission();
  history.calm = At(20);
  EmitTo(&history, 100, {50}, 60);
  EmitTo(&history, 101, {60, 70, 80, 90, 100}, 110);
  for (int to = 120; to < 300; to += 10) EmitTo(&history, to - 9, {to - 10}, to);
  EXPECT_TRUE(Says(CheckOverdue(history), Id(50) + " due 2026-03-01T00:00:50+00:00 was not"));
  history.calm = At(75);
  EXPECT_EQ(CheckOverdue(history).size(), 0u);
}

}  // namespace due_checkers_test
}  // namespace escapement::simulation
