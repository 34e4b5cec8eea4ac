#include "common/kv/replica/append_window.h"

#include <memory>
#include <string>

#include "common/kv/replica/log_record.h"
#include "gtest/gtest.h"

namespace escapement::kv {
namespace append_window_test {

using Outcome = AppendResult::Outcome;
using Step = AppendWindow::Step;

class AppendWindowTest : public testing::Test {
 protected:
  void Add(const char* text) { window_.Add(std::make_shared<const std::string>(text)); }
  // Sends the next append and returns its row.
  LogRow Send() {
    auto request = window_.NextToSend();
    EXPECT_TRUE(request.has_value());
    if (!request.has_value()) return {};
    EXPECT_EQ(request->term, term_);
    EXPECT_EQ(request->rows.size(), 1u);
    EXPECT_TRUE(FollowsOn(request->after, request->rows));
    return request->rows[0];
  }
  Step Answer(Outcome outcome) { return window_.OnResult({outcome, absl::OkStatus()}); }
  std::string Acknowledged() {
    std::string all;
    for (const LogRow& row : window_.TakeAcknowledged())
      all += (row.data->size() == 1 && (*row.data)[0] < 9 ? "proof" : *row.data) + " ";
    return all;
  }
  LogState State(LogPosition last) {
    LogState state;
    state.leader = term_;
    state.last = last;
    return state;
  }

  const LogTerm term_{7, "me"};
  const LogPosition begin_{10, 99};
  AppendWindow window_{term_, begin_, 10};
};

TEST_F(AppendWindowTest, RowsAreAcknowledgedInOrder) {
  Add("a");
  Add("b");
  EXPECT_EQ(Send().position, NextPosition(begin_, 7, "a"));
  Send();
  EXPECT_FALSE(window_.NextToSend().has_value());
  EXPECT_EQ(Answer(Outcome::kAcknowledged), Step::kGoOn);
  EXPECT_EQ(Acknowledged(), "a ");
  Add("c");
  Send();
  EXPECT_EQ(Answer(Outcome::kAcknowledged), Step::kGoOn);
  EXPECT_EQ(Answer(Outcome::kAcknowledged), Step::kGoOn);
  EXPECT_EQ(Acknowledged(), "b c ");
}

TEST_F(AppendWindowTest, AfterAFailureAllAppendsAreSentAgain) {
  Add("a");
  Add("b");
  const LogRow a = Send();
  Send();
  EXPECT_EQ(Answer(Outcome::kUnknown), Step::kGoOn);
  Add("c");
  EXPECT_FALSE(window_.NextToSend().has_value());  // until the round has ended
  EXPECT_EQ(Answer(Outcome::kNotApplied), Step::kSendAgain);
  window_.SendAgain();
  EXPECT_EQ(Send().position, a.position);
  EXPECT_EQ(*Send().data, "b");
  EXPECT_EQ(*Send().data, "c");
  EXPECT_EQ(Acknowledged(), "");
}

TEST_F(AppendWindowTest, PresentRowIsProvenByAFurtherAcknowledgement) {
  Add("a");
  Send();
  EXPECT_EQ(Answer(Outcome::kUnknown), Step::kSendAgain);
  window_.SendAgain();
  Send();
  EXPECT_EQ(Answer(Outcome::kPresent), Step::kGoOn);
  EXPECT_EQ(Acknowledged(), "");
  const LogRow proof = Send();
  RecordKind kind;
  ASSERT_TRUE(ReadRecordKind(*proof.data, kind).ok());
  EXPECT_EQ(kind, RecordKind::kProof);
  EXPECT_EQ(Answer(Outcome::kAcknowledged), Step::kGoOn);
  EXPECT_EQ(Acknowledged(), "a proof ");
}

TEST_F(AppendWindowTest, RowThatFollowsAPresentOneIsItsProof) {
  Add("a");
  Send();
  Answer(Outcome::kUnknown);
  window_.SendAgain();
  Add("b");
  Send();
  Send();
  EXPECT_EQ(Answer(Outcome::kPresent), Step::kGoOn);
  EXPECT_EQ(Answer(Outcome::kAcknowledged), Step::kGoOn);
  EXPECT_EQ(Acknowledged(), "a b ");
  EXPECT_FALSE(window_.NextToSend().has_value());
}

TEST_F(AppendWindowTest, ConflictIsResolvedByTheState) {
  Add("a");
  Add("b");
  const LogRow a = Send();
  Send();
  EXPECT_EQ(Answer(Outcome::kUnknown), Step::kGoOn);
  EXPECT_EQ(Answer(Outcome::kConflict), Step::kReadState);
  EXPECT_FALSE(window_.NextToSend().has_value());
  // The first has been appended, the second has not.
  EXPECT_EQ(window_.OnState(State(a.position)), Step::kGoOn);
  EXPECT_EQ(*Send().data, "b");
  EXPECT_EQ(Answer(Outcome::kAcknowledged), Step::kGoOn);
  EXPECT_EQ(Acknowledged(), "a b ");
}

TEST_F(AppendWindowTest, LostRowsAreAppendedAgain) {
  for (const char* text : {"a", "b", "c"}) {
    Add(text);
    Send();
    Answer(Outcome::kAcknowledged);
  }
  Acknowledged();
  Add("d");
  Send();
  EXPECT_EQ(Answer(Outcome::kConflict), Step::kReadState);
  EXPECT_EQ(window_.OnState(State(NextPosition(begin_, 7, "a"))), Step::kGoOn);
  EXPECT_EQ(window_.rows_lost(), 2u);
  for (const char* text : {"b", "c", "d"}) {
    EXPECT_EQ(*Send().data, text);
    EXPECT_EQ(Answer(Outcome::kAcknowledged), Step::kGoOn);
  }
  EXPECT_EQ(Acknowledged(), "b c d ");
}

TEST_F(AppendWindowTest, MoreThanIsKeptCannotBeAppendedAgain) {
  for (const char* text : {"0123456", "abcdefg"}) {  // more than 10 bytes
    Add(text);
    Send();
    Answer(Outcome::kAcknowledged);
  }
  Add("d");
  Send();
  EXPECT_EQ(Answer(Outcome::kConflict), Step::kReadState);
  EXPECT_EQ(window_.OnState(State(NextPosition(begin_, 7, "0123456"))), Step::kLost);
}

TEST_F(AppendWindowTest, LogOfAnotherHistoryIsNotContinued) {
  Add("a");
  Send();
  EXPECT_EQ(Answer(Outcome::kConflict), Step::kReadState);
  EXPECT_EQ(window_.OnState(State({11, 1})), Step::kLost);
}

TEST_F(AppendWindowTest, AnotherLeaderEndsTheTerm) {
  Add("a");
  Add("b");
  Send();
  Send();
  EXPECT_EQ(Answer(Outcome::kConflict), Step::kGoOn);
  EXPECT_EQ(Answer(Outcome::kConflict), Step::kReadState);
  LogState other = State(begin_);
  other.leader = {8, "other"};
  EXPECT_EQ(window_.OnState(other), Step::kDeposed);
  EXPECT_EQ(Answer(Outcome::kDeposed), Step::kDeposed);
  EXPECT_EQ(Acknowledged(), "");
}

}  // namespace append_window_test
}  // namespace escapement::kv
