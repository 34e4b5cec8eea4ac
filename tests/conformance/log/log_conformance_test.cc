// Every SharedLog does this. Each case runs over PostgreSQL and over the simulation's engine.

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/conformance/log/log_rig.h"

namespace escapement::kv {
namespace log_conformance_test {

using Outcome = AppendResult::Outcome;

struct RigKind {
  const char* name;
  std::unique_ptr<LogRig> (*make)();
};

class LogConformance : public testing::TestWithParam<RigKind> {
 protected:
  LogConformance() : rig_(GetParam().make()) {}

  // Appends one row, which must succeed, and returns the log's end.
  LogPosition Must(size_t replica, const LogTerm& term, const LogPosition& after,
                   const std::string& row) {
    const AppendRequest request = Rows(term, after, {row});
    const AppendResult result = rig_->Append(replica, request);
    EXPECT_EQ(result.outcome, Outcome::kAcknowledged) << result.why;
    return EndOf(request);
  }
  std::vector<std::string> AllRows(size_t replica, const LogPosition& after) {
    std::vector<std::string> all;
    const auto read = rig_->Read(replica, {.after = after});
    EXPECT_TRUE(read.ok()) << read.status();
    if (!read.ok()) return all;
    for (const LogRow& row : read->rows) all.push_back(*row.data);
    return all;
  }

  const std::unique_ptr<LogRig> rig_;
};

TEST_P(LogConformance, FirstLeadMakesTheLog) {
  const LogState none = rig_->State(0);
  EXPECT_EQ(none.leader.epoch, 0u);
  EXPECT_EQ(none.last, LogPosition());
  const LeadResult led = rig_->Lead(0, "a");
  EXPECT_EQ(led.term, (LogTerm{1, "a"}));
  EXPECT_EQ(led.last.seq, 0u);
  EXPECT_EQ(led.first, led.last);
  const LogState state = rig_->State(1);
  EXPECT_EQ(state.leader, led.term);
  EXPECT_EQ(state.address, "a:7400");
  EXPECT_EQ(state.first, led.first);
  EXPECT_EQ(state.last, led.last);
  EXPECT_EQ(rig_->TryLead(1, none, "b").status().code(), absl::StatusCode::kAborted);
}

TEST_P(LogConformance, LeadNeedsTheSeenLeaderAndEnd) {
  const LeadResult a = rig_->Lead(0, "a");
  const LogState early = rig_->State(1);
  Must(0, a.term, a.last, "row");
  // The leader lives: its log has grown since the state was read.
  EXPECT_EQ(rig_->TryLead(1, early, "b").status().code(), absl::StatusCode::kAborted);
  const LogState seen = rig_->State(1);
  const auto b = rig_->TryLead(1, seen, "b");
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_EQ(b->term, (LogTerm{2, "b"}));
  EXPECT_EQ(b->last, seen.last);
  // Another candidate that has seen the same comes too late.
  EXPECT_EQ(rig_->TryLead(2, seen, "c").status().code(), absl::StatusCode::kAborted);
}

TEST_P(LogConformance, PipelinedAppendsKeepTheirOrder) {
  const LeadResult led = rig_->Lead(0, "a");
  LogPosition end = led.last;
  std::vector<std::shared_ptr<LogAnswer<AppendResult>>> answers;
  std::vector<std::string> expected;
  for (int i = 0; i < 100; ++i) {
    std::vector<std::string> rows;
    for (int j = 0; j <= i % 3; ++j) rows.push_back(absl::StrCat("row ", i, ".", j));
    expected.insert(expected.end(), rows.begin(), rows.end());
    const AppendRequest request = Rows(led.term, end, rows);
    end = EndOf(request);
    answers.push_back(rig_->StartAppend(0, request));
  }
  for (const auto& answer : answers) EXPECT_EQ(rig_->Wait(answer).outcome, Outcome::kAcknowledged);
  EXPECT_EQ(AllRows(1, led.first), expected);
  EXPECT_EQ(rig_->State(2).last, end);
}

TEST_P(LogConformance, RowsOfAnySizeAreKept) {
  const LeadResult led = rig_->Lead(0, "a");
  const std::vector<std::string> rows = {"", std::string(3000, 'x'), std::string(1, '\0'),
                                         std::string(5 << 20, 'y'), ""};
  const AppendRequest request = Rows(led.term, led.last, rows);
  EXPECT_EQ(rig_->Append(0, request).outcome, Outcome::kAcknowledged);
  EXPECT_EQ(AllRows(1, led.first), rows);
}

TEST_P(LogConformance, AppendNeedsTheExactEnd) {
  const LeadResult led = rig_->Lead(0, "a");
  const LogPosition one = Must(0, led.term, led.last, "one");
  // Behind a row that is not there, behind one that is not the last, and behind another history.
  const LogPosition gap = NextPosition(one, led.term.epoch, "missing");
  EXPECT_EQ(rig_->Append(0, Rows(led.term, gap, {"x"})).outcome, Outcome::kConflict);
  EXPECT_EQ(rig_->Append(0, Rows(led.term, led.last, {"x"})).outcome, Outcome::kConflict);
  EXPECT_EQ(rig_->Append(0, Rows(led.term, {one.seq, one.chain + 1}, {"x"})).outcome,
            Outcome::kConflict);
  EXPECT_EQ(AllRows(0, led.first), std::vector<std::string>{"one"});
  Must(0, led.term, one, "two");
}

TEST_P(LogConformance, SameAppendAgainIsPresent) {
  const LeadResult led = rig_->Lead(0, "a");
  const AppendRequest request = Rows(led.term, led.last, {"one", "two"});
  EXPECT_EQ(rig_->Append(0, request).outcome, Outcome::kAcknowledged);
  EXPECT_EQ(rig_->Append(0, request).outcome, Outcome::kPresent);
  // A resend with other rows behind the same ones appends nothing: the caller reads the state.
  EXPECT_EQ(rig_->Append(0, Rows(led.term, led.last, {"one", "two", "three"})).outcome,
            Outcome::kConflict);
  EXPECT_EQ(AllRows(0, led.first), (std::vector<std::string>{"one", "two"}));
  Must(0, led.term, EndOf(request), "three");
}

TEST_P(LogConformance, DeposedLeaderAppendsNothing) {
  const LeadResult a = rig_->Lead(0, "a");
  const LogPosition one = Must(0, a.term, a.last, "one");
  const LeadResult b = rig_->Lead(1, "b");
  EXPECT_EQ(b.last, one);
  // Refused already before the new leader has appended anything.
  EXPECT_EQ(rig_->Append(0, Rows(a.term, one, {"late"})).outcome, Outcome::kDeposed);
  const LogPosition two = Must(1, b.term, b.last, "two");
  EXPECT_EQ(rig_->Append(0, Rows(a.term, one, {"late"})).outcome, Outcome::kDeposed);
  EXPECT_EQ(rig_->Append(0, Rows(a.term, two, {"late"})).outcome, Outcome::kDeposed);
  // An append of several rows, of which the first is there, is no way around.
  EXPECT_EQ(rig_->Append(0, Rows(a.term, a.last, {"one", "late"})).outcome, Outcome::kDeposed);
  EXPECT_EQ(AllRows(2, a.first), (std::vector<std::string>{"one", "two"}));
}

TEST_P(LogConformance, SameEpochOfAnotherOwnerAppendsNothing) {
  const LeadResult a = rig_->Lead(0, "a");
  EXPECT_EQ(rig_->Append(1, Rows({a.term.epoch, "b"}, a.last, {"x"})).outcome, Outcome::kDeposed);
}

TEST_P(LogConformance, AppendsBehindFailedOneHaveItsCause) {
  const LeadResult a = rig_->Lead(0, "a");
  rig_->Lead(1, "b");
  LogPosition end = a.last;
  std::vector<std::shared_ptr<LogAnswer<AppendResult>>> answers;
  for (int i = 0; i < 10; ++i) {
    const AppendRequest request = Rows(a.term, end, {absl::StrCat(i)});
    end = EndOf(request);
    answers.push_back(rig_->StartAppend(0, request));
  }
  for (const auto& answer : answers) EXPECT_EQ(rig_->Wait(answer).outcome, Outcome::kDeposed);
}

TEST_P(LogConformance, ReadIsAnchoredInItsHistory) {
  const LeadResult led = rig_->Lead(0, "a");
  const LogPosition one = Must(0, led.term, led.last, "one");
  const LogPosition two = Must(0, led.term, one, "two");
  EXPECT_EQ(AllRows(1, one), std::vector<std::string>{"two"});
  EXPECT_EQ(AllRows(1, two), std::vector<std::string>{});
  for (const LogPosition& wrong : {LogPosition{1, one.chain + 1}, LogPosition{2, one.chain},
                                   NextPosition(two, 1, "lost"), LogPosition{99, 1}}) {
    EXPECT_EQ(rig_->Read(1, {.after = wrong}).status().code(), absl::StatusCode::kAborted);
  }
}

TEST_P(LogConformance, ReadStopsAtItsLimits) {
  const LeadResult led = rig_->Lead(0, "a");
  const AppendRequest request = Rows(led.term, led.last, std::vector<std::string>(10, "12345"));
  ASSERT_EQ(rig_->Append(0, request).outcome, Outcome::kAcknowledged);
  const auto three = rig_->Read(1, {.after = led.first, .rows_max = 3});
  ASSERT_TRUE(three.ok()) << three.status();
  EXPECT_EQ(three->rows.size(), 3u);
  EXPECT_TRUE(three->more);
  // The row that reaches the size is the last, and there is always one.
  EXPECT_EQ(rig_->Read(1, {.after = led.first, .bytes_max = 11})->rows.size(), 3u);
  EXPECT_EQ(rig_->Read(1, {.after = led.first, .bytes_max = 10})->rows.size(), 2u);
  EXPECT_EQ(rig_->Read(1, {.after = led.first, .bytes_max = 1})->rows.size(), 1u);
  const auto all = rig_->Read(1, {.after = led.first});
  EXPECT_EQ(all->rows.size(), 10u);
  EXPECT_FALSE(all->more);
}

TEST_P(LogConformance, LostConnectionLeavesOneCopy) {
  const LeadResult led = rig_->Lead(0, "a");
  LogPosition end = led.last;
  std::vector<std::string> expected;
  for (int i = 0; i < 40; ++i) {
    const AppendRequest request = Rows(led.term, end, {absl::StrCat("row ", i)});
    const auto answer = rig_->StartAppend(0, request);
    rig_->Disconnect(0);
    const Outcome first = rig_->Wait(answer).outcome;
    EXPECT_TRUE(first == Outcome::kAcknowledged || first == Outcome::kUnknown ||
                first == Outcome::kNotApplied);
    if (first != Outcome::kAcknowledged) {
      const Outcome again = rig_->AppendSurely(0, request).outcome;
      EXPECT_TRUE(again == Outcome::kAcknowledged || again == Outcome::kPresent);
    }
    expected.push_back(absl::StrCat("row ", i));
    end = EndOf(request);
  }
  EXPECT_EQ(AllRows(1, led.first), expected);
}

TEST_P(LogConformance, TheLastReportOfEachReplicaIsListed) {
  EXPECT_TRUE(rig_->PutReport(1, "b", "first").ok());
  EXPECT_TRUE(rig_->PutReport(0, "a", std::string("\0 of a", 6)).ok());
  EXPECT_TRUE(rig_->PutReport(1, "b", "second").ok());
  const auto reports = rig_->Reports(2);
  ASSERT_TRUE(reports.ok()) << reports.status();
  ASSERT_EQ(reports->size(), 2u);
  EXPECT_EQ((*reports)[0].replica, "a");
  EXPECT_EQ((*reports)[0].details, std::string("\0 of a", 6));
  EXPECT_EQ((*reports)[1].replica, "b");
  EXPECT_EQ((*reports)[1].details, "second");
  for (const ReplicaReport& report : *reports) {
    EXPECT_GE(report.age, absl::ZeroDuration());
    EXPECT_LT(report.age, absl::Minutes(2));
  }
}

TEST_P(LogConformance, MalformedCallsAreRefused) {
  const LeadResult led = rig_->Lead(0, "a");
  EXPECT_EQ(rig_->TryLead(1, rig_->State(1), "").status().code(),
            absl::StatusCode::kInvalidArgument);
  for (const AppendRequest& request :
       {AppendRequest{led.term, led.last, {}}, Rows({0, "a"}, led.last, {"x"}),
        Rows({1, ""}, led.last, {"x"})}) {
    const AppendResult result = rig_->Append(0, request);
    EXPECT_EQ(result.outcome, Outcome::kNotApplied);
    EXPECT_EQ(result.why.code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(rig_->Read(0, {.after = led.first, .rows_max = 0}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(rig_->Trim(0, 0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(rig_->PutReport(0, "", "x").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(rig_->PutReport(0, "a", std::string(kReplicaReportBytesMax + 1, 'x')).code(),
            absl::StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Logs, LogConformance,
                         testing::Values(RigKind{"Memory", &MakeMemRig},
                                         RigKind{"Postgres", &MakePgRig}),
                         [](const auto& rig) { return rig.param.name; });

}  // namespace log_conformance_test
}  // namespace escapement::kv
