// The checkers of attempts and of children pass correct histories and catch planted breaches.

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "tests/simulation/actors/message_parts.h"
#include "tests/simulation/checkers/checkers.h"
#include "tests/simulation/checkers/commits/commit_checks.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {
namespace attempts_checkers_test {

// An attempt of the one event. Its sender learns the result a tenth of a second later.
Receipt Sent(double seconds, SendResult result, std::string sender = "h1") {
  Receipt receipt;
  receipt.time = receipt.sent = At(seconds);
  receipt.event_id = "e";
  receipt.uid = "u";
  receipt.occurrence = "o";
  receipt.timeout = absl::Seconds(8);
  receipt.sender = std::move(sender);
  receipt.result = result;
  if (result != SendResult::kNone) receipt.result_time = At(seconds + 0.1);
  return receipt;
}

History Ended(std::vector<Receipt> receipts, Outcome outcome, std::string reason,
              uint32_t attempts) {
  History history;
  history.end = At(100);
  history.receipts = std::move(receipts);
  DoneRow row;
  row.uid = "u";
  row.occurrence = "o";
  row.outcome = outcome;
  row.reason = std::move(reason);
  row.attempts = attempts;
  history.done = {row};
  return history;
}

void Acquires(History* history, double seconds, std::string owner, uint64_t epoch) {
  Commit commit;
  commit.seq = history->commits.size() + 1;
  commit.time = commit.store_time = At(seconds);
  commit.leases = {{"queue_shard/0", epoch, std::move(owner)}};
  history->commits.push_back(std::move(commit));
}

TEST(CheckAttempts, OutcomesAreWhatTheConsumerSaid) {
  History history = Ended({Sent(10, SendResult::kAccepted)}, Outcome::kSucceeded, "", 1);
  EXPECT_EQ(Texts(CheckAttempts(history)), "");
  history.receipts[0].result = SendResult::kFailed;
  EXPECT_TRUE(absl::StrContains(Texts(CheckAttempts(history)), "no attempt of it was accepted"));

  history = Ended({Sent(10, SendResult::kRejected)}, Outcome::kFailed, "400", 1);
  EXPECT_EQ(Texts(CheckAttempts(history)), "");
  history.receipts[0].result = SendResult::kFailed;
  EXPECT_TRUE(absl::StrContains(Texts(CheckAttempts(history)), "ended as refused, and was not"));
}

TEST(CheckAttempts, AllAttemptsAreMade) {
  History history = Ended({Sent(10, SendResult::kFailed)}, Outcome::kFailed, "503", kMaxAttempts);
  EXPECT_EQ(Texts(CheckAttempts(history)), "");
  history.done[0].attempts = kMaxAttempts - 1;
  EXPECT_TRUE(absl::StrContains(Texts(CheckAttempts(history)), "after 4 attempts of 5"));
  history.done[0].reason = "503; not tried again past the next occurrence";
  EXPECT_EQ(Texts(CheckAttempts(history)), "");
  history.done[0].reason = "503";
  history.clock_leaps = true;
  EXPECT_EQ(Texts(CheckAttempts(history)), "");
}

TEST(CheckAttempts, TheConsumerIsLeftAlone) {
  History history = Ended({Sent(10, SendResult::kFailed), Sent(12, SendResult::kAccepted)},
                          Outcome::kSucceeded, "", 2);
  history.receipts[0].asked = absl::Seconds(3);
  EXPECT_TRUE(absl::StrContains(Texts(CheckAttempts(history)), "its consumer asked"));
  history.receipts[1].sent = At(13.2);
  EXPECT_EQ(Texts(CheckAttempts(history)), "");
  // h2 did not get the consumer's request to wait.
  history.receipts[1] = Sent(12, SendResult::kAccepted, "h2");
  EXPECT_EQ(Texts(CheckAttempts(history)), "");
}

TEST(CheckAttempts, TheNextOwnerWaitsForAttemptsOfTheOneBefore) {
  History history = Ended({Sent(10, SendResult::kNone), Sent(17, SendResult::kAccepted, "h2")},
                          Outcome::kSucceeded, "", 2);
  Acquires(&history, 1, "h1", 1);
  Acquires(&history, 16, "h2", 2);
  EXPECT_TRUE(absl::StrContains(Texts(CheckAttempts(history)), "may still be under way"));
  // An operator may have confirmed a leap of the store's time; then the wait was over by that time.
  history.clock_leaps = true;
  EXPECT_TRUE(absl::StrContains(Texts(CheckAttempts(history)), "may still be under way"));
  history.commits.back().store_time += absl::Hours(1);
  EXPECT_EQ(Texts(CheckAttempts(history)), "");
  history.commits.back().store_time -= absl::Hours(1);
  history.receipts[1] = Sent(18, SendResult::kAccepted, "h2");
  EXPECT_EQ(Texts(CheckAttempts(history)), "");
  // The sender had its answer by then.
  history.receipts = {Sent(10, SendResult::kFailed), Sent(17, SendResult::kAccepted, "h2")};
  EXPECT_EQ(Texts(CheckAttempts(history)), "");
}

ChildWrite Child(std::string uid, bool deleted = false) {
  return {uid, 0, deleted, "key of " + uid, "daily"};
}

void Writes(History* history, std::vector<QueueWrite> writes) {
  Commit commit;
  commit.seq = history->commits.size() + 1;
  commit.queue = std::move(writes);
  history->commits.push_back(std::move(commit));
}

TEST(CheckChildren, ExpressionsAreInUseAsLongAsTheyHaveChildren) {
  History history;
  Writes(&history, {Child("u1"), InUseWrite{"daily"}});
  Writes(&history, {Child("u2"), InUseWrite{"daily"}});
  Writes(&history, {Child("u1", true)});
  // A commit may delete the last child and put it again.
  Writes(&history, {Child("u2", true), Child("u2"), InUseWrite{"daily"}});
  Writes(&history, {ChildWrite{"u3", 0, false, "an instant", ""}});
  Writes(&history, {Child("u2", true)});
  Writes(&history, {InUseWrite{"daily", true}});
  EXPECT_EQ(Texts(CheckChildren(history)), "");
  history.commits.erase(history.commits.begin() + 5);
  EXPECT_TRUE(absl::StrContains(Texts(CheckChildren(history)), "commit 7"));
  EXPECT_TRUE(absl::StrContains(Texts(CheckChildren(history)), "u2 has a child under it"));
}

TEST(CheckChildren, ChildrenAreMadeWithTheirExpressions) {
  History history;
  Writes(&history, {Child("u1")});
  EXPECT_NE(Texts(CheckChildren(history)), "");
}

}  // namespace attempts_checkers_test
}  // namespace escapement::simulation
