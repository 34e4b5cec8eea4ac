// The checker of hold times passes correct histories and catches planted breaches.

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "tests/simulation/checkers/tokens/token_checks.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {
namespace hold_checkers_test {

void Add(History* history, double seconds, std::vector<ThrottleWrite> writes) {
  Commit commit;
  commit.seq = history->commits.size() + 1;
  commit.time = commit.store_time = At(seconds);
  commit.throttle = std::move(writes);
  history->commits.push_back(std::move(commit));
}

RowWrite Row(double due, std::string error = "") {
  RowWrite row;
  row.key = "row due " + std::to_string(due);
  row.policy = "p";
  row.uid = "u";
  row.occurrence = "o";
  row.events = {0, 1};
  row.due = At(due);
  row.last_error = std::move(error);
  return row;
}

RowWrite Gone(RowWrite row) {
  row.deleted = true;
  return row;
}

// Event 0 holds a token since 10 s. If `delivered` is not zero, the grant's record has it accepted
// then, and holding until `expires`.
GrantWrite Held(double delivered = 0, double expires = 0) {
  GrantWrite grant;
  grant.name = {"p", 1, 1};
  grant.uid = "u";
  grant.occurrence = "o";
  grant.holders = {{0, 1}};
  grant.grant_time = At(10);
  grant.return_due = At(10);
  grant.send_before = At(20);
  grant.timeout = absl::Seconds(2);
  grant.hold_times = {{{0, 1}}};
  if (delivered > 0) grant.hold_times = {{{0, 1}, At(delivered), At(expires)}};
  return grant;
}

GrantWrite NotHeld() {
  GrantWrite grant = Held();
  grant.deleted = true;
  grant.holders.clear();
  grant.hold_times.clear();
  return grant;
}

ReportWrite Reported(std::string kind, double time) {
  ReportWrite report;
  report.grant = {"p", 1, 1};
  report.kind = std::move(kind);
  report.events = {0, 1};
  report.time = At(time);
  return report;
}

EndWrite Expired() { return {"u", "o", {0, 1}, Outcome::kFailed, "hold_expired"}; }

// A policy with hold times of 4 s, which grants at 10 s.
History Granted(bool hold_on_expiry = false) {
  History history;
  history.calm = kBegin;
  history.end = At(12);
  PolicyWrite policy;
  policy.policy = "p";
  policy.max_concurrent = 2;
  policy.hold = absl::Seconds(4);
  policy.hold_on_expiry = hold_on_expiry;
  Add(&history, 1, {policy});
  Add(&history, 9, {Row(10)});
  Add(&history, 10, {Gone(Row(10)), Held()});
  return history;
}

// The same, and the event is accepted at 11 s.
History Delivered(bool hold_on_expiry = false) {
  History history = Granted(hold_on_expiry);
  Add(&history, 11.1, {Reported("DELIVERED", 11)});
  Add(&history, 11.2, {Held(11, 15)});
  return history;
}

TEST(CheckHolds, PassesHoldersThatLeaveWhenTheirTimeIsOver) {
  History history = Delivered();
  Add(&history, 15.1, {NotHeld(), Row(16, "hold_expired")});
  history.end = At(100);
  EXPECT_EQ(Texts(CheckHolds(history)), "");
  history.commits.back().throttle = {NotHeld(), Expired()};
  EXPECT_EQ(Texts(CheckHolds(history)), "");
}

// The row's last error is old: the event had lost another policy's token by its hold time.
TEST(CheckHolds, PassesARowThatWasGrantedAheadAndIsGivenBackByTheSilenceOfAll) {
  History history = Granted(/*hold_on_expiry=*/true);
  std::get<GrantWrite>(history.commits.back().throttle[1]).grant_time = At(9.995);
  Add(&history, 53, {NotHeld(), Row(10, "hold_expired")});
  history.end = At(100);
  EXPECT_EQ(Texts(CheckHolds(history)), "");
}

TEST(CheckHolds, CatchesAHoldTimeThatIsCutShort) {
  for (const ThrottleWrite& how :
       {ThrottleWrite(Expired()), ThrottleWrite(Row(16, "hold_expired"))}) {
    History history = Delivered();
    // The grant's record is right, but its owner acts early.
    Add(&history, 14.9, {NotHeld(), how});
    EXPECT_TRUE(absl::StrContains(Texts(CheckHolds(history)), "which goes to"));
    // The grant's record is wrong.
    history = Delivered();
    history.commits.back().throttle = {Held(10, 14)};
    Add(&history, 14.1, {NotHeld(), how});
    EXPECT_TRUE(absl::StrContains(Texts(CheckHolds(history)), "and was accepted at"));
  }
}

TEST(CheckHolds, LetsAttemptsAndWorkFailWithinTheHoldTime) {
  History history = Delivered();
  Add(&history, 12, {NotHeld(), Row(13, "the work has failed")});
  EXPECT_EQ(Texts(CheckHolds(history)), "");
  history.commits.back().throttle = {NotHeld(),
                                     EndWrite{"u", "o", {0, 1}, Outcome::kSucceeded, ""}};
  EXPECT_EQ(Texts(CheckHolds(history)), "");
}

TEST(CheckHolds, CatchesWhatHoldsForEver) {
  History history = Delivered();
  history.end = At(19);
  EXPECT_EQ(Texts(CheckHolds(history)), "");
  history.end = At(21);
  EXPECT_TRUE(absl::StrContains(Texts(CheckHolds(history)), "its time was over at"));
  // The checker does not trust the grant's record.
  history.commits.back().throttle = {Held(611, 615)};
  EXPECT_TRUE(absl::StrContains(Texts(CheckHolds(history)), "its time was over at"));
  history.calm = At(20);
  EXPECT_EQ(Texts(CheckHolds(history)), "") << "there were faults";
}

TEST(CheckHolds, KnowsExtensionsAndHold) {
  History history = Delivered();
  Add(&history, 14, {Held(11, 30)});
  history.end = At(34);
  EXPECT_EQ(Texts(CheckHolds(history)), "");
  history.end = At(36);
  EXPECT_NE(Texts(CheckHolds(history)), "");

  history = Delivered(/*hold_on_expiry=*/true);
  history.end = At(100);
  EXPECT_EQ(Texts(CheckHolds(history)), "");
  Add(&history, 50, {NotHeld(), Expired()});
  EXPECT_TRUE(absl::StrContains(Texts(CheckHolds(history)), "its policy says HOLD"));
}

TEST(CheckHolds, CatchesWhatIsTakenBackBeforeAnybodyMaySpeak) {
  History history = Granted();
  Add(&history, 51, {NotHeld(), Row(9.9)});
  EXPECT_TRUE(absl::StrContains(Texts(CheckHolds(history)), "which nobody has said"));
  history.commits.back().time = history.commits.back().store_time = At(52.1);
  EXPECT_EQ(Texts(CheckHolds(history)), "");
  // A handler has given the token back.
  history = Granted();
  Add(&history, 20, {Reported("RETURNED", 20)});
  Add(&history, 20.1, {NotHeld(), Row(9.9)});
  EXPECT_EQ(Texts(CheckHolds(history)), "");
}

TEST(CheckHolds, CatchesWhatIsNotTakenBackThoughNobodySpeaks) {
  History history = Granted();
  history.end = At(56);
  EXPECT_EQ(Texts(CheckHolds(history)), "");
  history.end = At(58);
  EXPECT_TRUE(absl::StrContains(Texts(CheckHolds(history)), "still holds its token"));
}

}  // namespace hold_checkers_test
}  // namespace escapement::simulation
