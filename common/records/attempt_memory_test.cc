#include <string>

#include "common/records/row_judge.h"
#include "gtest/gtest.h"

namespace escapement {
namespace attempt_memory_test {

storage::v1::AttemptRecord Attempt(uint32_t number) {
  storage::v1::AttemptRecord attempt;
  attempt.set_number(number);
  attempt.set_error("error " + std::to_string(number));
  return attempt;
}

TEST(AttemptMemoryTest, KeepsTheLastAttempts) {
  storage::v1::EventRecord row;
  for (uint32_t i = 1; i <= 12; ++i) RememberAttempt(Attempt(i), row);
  ASSERT_EQ(row.tried_size(), kAttemptsRemembered);
  EXPECT_EQ(row.tried(0).number(), 4u);
  EXPECT_EQ(row.tried(8).number(), 12u);
  EXPECT_EQ(row.tried(8).error(), "error 12");
}

TEST(AttemptMemoryTest, CutsTexts) {
  storage::v1::AttemptRecord attempt;
  attempt.set_error(std::string(5000, 'e'));
  attempt.set_answer(std::string(5000, '\xff'));
  storage::v1::EventRecord row;
  RememberAttempt(attempt, row);
  EXPECT_LE(row.tried(0).error().size(), kRememberedErrorBytesMax);
  EXPECT_EQ(row.tried(0).answer(), std::string(kRememberedAnswerBytesMax, '\xff'));
}

TEST(AttemptMemoryTest, AnErrorThatIsNoTextStaysReadable) {
  storage::v1::AttemptRecord attempt;
  attempt.set_error("bad \xff byte");
  storage::v1::EventRecord row;
  RememberAttempt(attempt, row);
  storage::v1::EventRecord read;
  ASSERT_TRUE(read.ParseFromString(row.SerializeAsString()));
  EXPECT_EQ(read.tried(0).error(), row.tried(0).error());
}

}  // namespace attempt_memory_test
}  // namespace escapement
