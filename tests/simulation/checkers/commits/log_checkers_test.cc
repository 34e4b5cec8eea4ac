#include <cstdint>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/simulation/checkers/commits/commit_checks.h"

namespace escapement::simulation {
namespace log_checkers_test {

using Kind = LoggedRow::Kind;

absl::Time At(int seconds) { return absl::FromUnixSeconds(seconds); }

LoggedRow Row(uint64_t seq, uint64_t epoch, Kind kind) { return {At(1), seq, epoch, kind}; }

size_t Rows(std::vector<LoggedRow> rows) {
  History history;
  history.log = std::move(rows);
  return CheckLog(history).size();
}

TEST(CheckLog, AcceptsTermsOneAfterTheOther) {
  EXPECT_EQ(Rows({Row(1, 1, Kind::kLeader), Row(2, 1, Kind::kBatch), Row(3, 1, Kind::kHandover),
                  Row(4, 1, Kind::kProof), Row(5, 3, Kind::kLeader), Row(6, 3, Kind::kBatch)}),
            0u);
}

TEST(CheckLog, CatchesRowsOfAnOldTerm) {
  EXPECT_EQ(Rows({Row(1, 2, Kind::kLeader), Row(2, 1, Kind::kLeader)}), 1u);
}

TEST(CheckLog, CatchesTermWithoutLeadersRow) {
  EXPECT_EQ(Rows({Row(1, 1, Kind::kLeader), Row(2, 2, Kind::kBatch)}), 1u);
}

TEST(CheckLog, CatchesBatchBehindHandover) {
  EXPECT_EQ(Rows({Row(1, 1, Kind::kLeader), Row(2, 1, Kind::kHandover), Row(3, 1, Kind::kBatch)}),
            1u);
}

TEST(CheckLog, CatchesMissingRow) {
  EXPECT_EQ(Rows({Row(1, 1, Kind::kLeader), Row(3, 1, Kind::kBatch)}), 1u);
}

TEST(CheckLog, ReportsCopies) {
  History history;
  history.copies = {"store1 differs"};
  EXPECT_EQ(CheckLog(history).size(), 1u);
}

size_t Reads(ReadSeen read) {
  History history;
  for (const auto& [seq, answered] : {std::pair<uint64_t, int>{7, 10}, {8, 20}}) {
    Acknowledged& told = history.acknowledged.emplace_back();
    told.seq = seq;
    told.applied = true;
    told.answered = At(answered);
  }
  history.reads = {std::move(read)};
  return CheckReads(history).size();
}

TEST(CheckReads, AcceptsReadThatBeganBeforeTheAnswer) {
  EXPECT_EQ(Reads({"p", At(15), At(30), 7}), 0u);
}

TEST(CheckReads, CatchesReadOfFormerState) { EXPECT_EQ(Reads({"p", At(21), At(30), 7}), 1u); }

}  // namespace log_checkers_test
}  // namespace escapement::simulation
