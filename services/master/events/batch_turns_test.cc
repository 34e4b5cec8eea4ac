#include "services/master/events/batch_turns.h"

#include <string>

#include "gtest/gtest.h"

namespace escapement::master {
namespace batch_turns_test {

TEST(BatchTurnsTest, ABatchThatGoesAloneHasNoOtherBesideIt) {
  BatchTurns turns;
  std::string begun;
  const auto add = [&](bool alone, char name) {
    turns.Add(alone, [&begun, name] { begun += name; });
  };
  add(false, 'a');
  add(false, 'b');
  add(true, 'C');
  add(false, 'd');
  add(false, 'e');
  add(true, 'F');
  EXPECT_EQ(begun, "ab");
  turns.End();
  EXPECT_EQ(begun, "ab") << "one of the two is under way";
  turns.End();
  EXPECT_EQ(begun, "abC");
  turns.End();
  EXPECT_EQ(begun, "abCde");
  turns.End();
  turns.End();
  EXPECT_EQ(begun, "abCdeF");
}

TEST(BatchTurnsTest, BatchMayEndAsItBegins) {
  BatchTurns turns;
  int begun = 0;
  for (int i = 0; i < 1000; ++i) {
    turns.Add(/*alone=*/i % 2 == 0, [&] {
      ++begun;
      turns.End();
    });
  }
  EXPECT_EQ(begun, 1000);
}

}  // namespace batch_turns_test
}  // namespace escapement::master
