// A consumer's notes of two keys pass if each key's events come one after another, and each breach
// of that is caught.

#include "tests/e2e/chaos/check_order.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace escapement::chaos {
namespace check_order_test {

using Kind = OrderNote::Kind;

class CheckOrderTest : public testing::Test {
 protected:
  static absl::Time At(int second) { return absl::FromUnixSeconds(1'772'323'200 + second); }

  // Each note is one second after the one before.
  void Note(Kind kind, size_t key, size_t index) {
    notes_.push_back({kind, At(static_cast<int>(notes_.size())), key, index});
  }
  void Accept(size_t key, size_t index) {
    Note(Kind::kArrived, key, index);
    Note(Kind::kAccepted, key, index);
  }
  void Refuse(size_t key, size_t index) {
    Note(Kind::kArrived, key, index);
    Note(Kind::kRefused, key, index);
  }

  std::string Rules() {
    std::string rules;
    verdict_ = CheckOrder(notes_, faults_, 2, 2);
    for (const auto& violation : verdict_.violations) rules += violation.rule + " ";
    return rules;
  }

  std::vector<OrderNote> notes_;
  std::vector<OrderFault> faults_;
  OrderVerdict verdict_;
};

TEST_F(CheckOrderTest, KeysThatGoOneAtATimeAndRetriesPass) {
  Note(Kind::kArrived, 0, 0);
  Refuse(1, 0);
  Note(Kind::kAccepted, 0, 0);
  Accept(0, 1);
  Accept(1, 0);
  Accept(1, 1);
  EXPECT_EQ(Rules(), "");
  EXPECT_EQ(verdict_.arrivals, 5u);
  EXPECT_EQ(verdict_.accepted, 4u);
  EXPECT_EQ(verdict_.refused, 1u);
  EXPECT_EQ(verdict_.repeats, 0u);
  EXPECT_EQ(verdict_.out_max, 2u);
}

TEST_F(CheckOrderTest, EventThatOvertakesARetryIsCaught) {
  Accept(0, 0);
  Accept(0, 1);
  Refuse(1, 0);
  Accept(1, 1);
  Accept(1, 0);
  EXPECT_EQ(Rules(), "order order ");
}

TEST_F(CheckOrderTest, SecondEventOfAKeyIsCaughtWhileTheFirstIsOut) {
  Accept(0, 0);
  Accept(0, 1);
  Note(Kind::kArrived, 1, 0);
  Note(Kind::kArrived, 1, 1);
  Note(Kind::kAccepted, 1, 0);
  Note(Kind::kAccepted, 1, 1);
  // No fault excuses it.
  faults_ = {{At(0), At(9)}};
  EXPECT_EQ(Rules(), "order together ");
}

TEST_F(CheckOrderTest, RepeatIsCaughtUnlessAFaultCameBetween) {
  Accept(0, 0);  // at 0 s
  Accept(0, 0);  // at 2 s
  Accept(0, 1);
  Accept(1, 0);
  Note(Kind::kArrived, 1, 1);  // at 8 s
  Note(Kind::kArrived, 1, 1);  // at 9 s
  Note(Kind::kAccepted, 1, 1);
  Note(Kind::kAccepted, 1, 1);
  EXPECT_EQ(Rules(), "repeat repeat ");
  EXPECT_EQ(verdict_.repeats, 2u);
  faults_ = {{At(1), At(1)}};
  EXPECT_EQ(Rules(), "repeat ");
  // It also counts until the process is ready again.
  faults_.push_back({At(7), At(8)});
  EXPECT_EQ(Rules(), "");
  EXPECT_EQ(verdict_.repeats, 2u);
  faults_.back() = {At(5), At(7)};
  EXPECT_EQ(Rules(), "repeat ");
}

TEST_F(CheckOrderTest, RepeatIsCaughtAfterTheNextEventWhateverTheFault) {
  faults_ = {{At(0), At(20)}};
  Accept(0, 0);
  Accept(0, 1);
  Accept(0, 0);
  Accept(1, 0);
  Accept(1, 1);
  EXPECT_EQ(Rules(), "order ");
}

TEST_F(CheckOrderTest, EventThatIsNeverAcceptedIsCaught) {
  Accept(0, 0);
  Accept(0, 1);
  Accept(1, 0);
  Refuse(1, 1);
  EXPECT_EQ(Rules(), "lost ");
}

TEST_F(CheckOrderTest, EventThatWasNotCreatedIsCaught) {
  Accept(0, 0);
  Accept(0, 1);
  Accept(1, 0);
  Accept(1, 1);
  Note(Kind::kArrived, 2, 0);
  EXPECT_EQ(Rules(), "order ");
}

}  // namespace check_order_test
}  // namespace escapement::chaos
