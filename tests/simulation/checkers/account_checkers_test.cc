// CheckAccount passes a correct account and catches each breach.

#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/simulation/checkers/checkers.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {
namespace account_checkers_test {

using testing::HasSubstr;

std::string Tenth(int tenth) { return "20260301T0000" + std::to_string(tenth) + "0-0-UTC"; }

// A schedule every 10 seconds, made at 5 s and deleted at 55 s. The event of 10 s
// was sent, that of 20 s failed, that of 30 s was skipped. At 40 s its account was asked for, and
// what was listed and got agreed.
History Accounted() {
  History history;
  history.begin = kBegin;
  history.end = At(60);
  ScheduleLife life{.id = "s", .uid = "u1", .changes = {}, .triggered = {}};
  life.changes.push_back(
      {ScheduleChange::Kind::kCreate, At(5), At(5.1), {"*/10 * * * * *", "UTC", 1}});
  life.changes.push_back({ScheduleChange::Kind::kDelete, At(55), At(55.2), {}});
  history.schedules.push_back(life);
  AccountSeen account;
  account.called = At(39);
  account.answered = At(40);
  account.compared = At(41);
  account.begin = At(0);
  account.end = At(60);
  account.last = true;
  const char* results[] = {"ON_TIME", "FAILED", "SKIPPED", "PENDING", "PENDING"};
  const Outcome outcomes[] = {Outcome::kSucceeded, Outcome::kFailed, Outcome::kSkipped,
                              Outcome::kSucceeded, Outcome::kSucceeded};
  for (int tenth = 1; tenth <= 5; ++tenth) {
    const size_t i = static_cast<size_t>(tenth - 1);
    DoneRow row;
    row.uid = "u1";
    row.occurrence = Tenth(tenth);
    row.nominal = At(10 * tenth);
    row.outcome = outcomes[i];
    row.reason = "misfire";
    history.done.push_back(row);
    AccountedRun run;
    run.schedule = "s";
    run.occurrence = Tenth(tenth);
    run.nominal = At(10 * tenth);
    run.result = results[i];
    ListedRun listed;
    listed.schedule = "s";
    listed.occurrence = run.occurrence;
    listed.state = tenth > 3 ? "ACTIVE" : tenth == 3 ? "SKIPPED" : "COMPLETED";
    listed.failed = tenth == 2;
    run.got = listed.state;
    run.got_failed = listed.failed;
    account.runs.push_back(run);
    account.listed.push_back(listed);
  }
  account.counted = 5;
  history.accounts.push_back(account);
  return history;
}

TEST(CheckAccount, PassesATrueAccount) { EXPECT_EQ(Texts(CheckAccount(Accounted())), ""); }

TEST(CheckAccount, CatchesEachBreach) {
  struct Case {
    const char* text;
    std::function<void(History&, AccountSeen&)> breach;
  };
  const Case cases[] = {
      {"UNACCOUNTED", [](History&, AccountSeen& a) { a.runs[3].result = "UNACCOUNTED"; }},
      {"is in it twice",
       [](History&, AccountSeen& a) { a.runs.push_back(a.runs[0]), ++a.counted; }},
      {"counts 4", [](History&, AccountSeen& a) { a.counted = 4; }},
      {"has no s/", [](History&, AccountSeen& a) { a.runs.erase(a.runs.begin()), --a.counted; }},
      {"nobody asked for it",
       [](History&, AccountSeen& a) { a.runs[0].occurrence = "20260301T000011-0-UTC"; }},
      {"has ended as ON_TIME", [](History&, AccountSeen& a) { a.runs[0].result = "SKIPPED"; }},
      {"has ended as SKIPPED", [](History&, AccountSeen& a) { a.runs[2].result = "LATE"; }},
      {"has no outcome", [](History& h, AccountSeen&) { h.done.erase(h.done.begin()); }},
      {"is none in the list", [](History&, AccountSeen& a) { a.listed.erase(a.listed.begin()); }},
      {"is ACTIVE when it is got", [](History&, AccountSeen& a) { a.runs[0].got = "ACTIVE"; }},
      {"is not in the list of runs",
       [](History&, AccountSeen& a) {
         a.runs[3].reason = "it waits, or is being sent";
         a.listed.erase(a.listed.begin() + 3);
       }},
      {"cannot be got",
       [](History&, AccountSeen& a) {
         a.runs[3].reason = "it waits, or is being sent";
         a.runs[3].got = "none";
       }},
      {"is listed twice", [](History&, AccountSeen& a) { a.listed.push_back(a.listed[0]); }},
  };
  for (const Case& breach : cases) {
    History history = Accounted();
    breach.breach(history, history.accounts[0]);
    EXPECT_THAT(Texts(CheckAccount(history)), HasSubstr(breach.text));
  }
}

TEST(CheckAccount, AccountDuringAChangeOfIncarnationsIsNotCompared) {
  History history = Accounted();
  history.schedules[0].changes[1].called = At(39.5);
  history.accounts[0].runs.clear();
  history.accounts[0].counted = 0;
  EXPECT_EQ(Texts(CheckAccount(history)), "");
}

}  // namespace account_checkers_test
}  // namespace escapement::simulation
