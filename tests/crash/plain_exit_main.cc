// Runs all tests, and exits without the destructors of static objects. A store that has ended its
// process in a test has left threads behind that never stop.

#include <unistd.h>

#include <cstdio>

#include "gtest/gtest.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const int result = RUN_ALL_TESTS();
  std::fflush(nullptr);
  _exit(result);
}
