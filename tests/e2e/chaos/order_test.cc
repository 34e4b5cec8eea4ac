// Events of a key go out in the order of their due times and one at a time, by real processes,
// although some fail once and handler, token manager and store are killed.

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/e2e/chaos/chaos_run.h"
#include "tests/e2e/chaos/order_run.h"

namespace escapement::chaos {
namespace order_test {

void ExpectOrder(const std::string& name, size_t kills, OrderResult* result) {
  OrderOptions options{.bin = absl::StrCat(getenv("TEST_SRCDIR"), "/escapement"),
                       .folder = absl::StrCat(getenv("TEST_TMPDIR"), "/", name),
                       .kills = kills};
  std::filesystem::create_directories(options.folder);
  const auto made = RunOrder(options);
  ASSERT_TRUE(made.ok()) << made.status() << "; logs in " << options.folder;
  *result = *made;
  SCOPED_TRACE(Report(options, *result));
  EXPECT_TRUE(result->verdict.violations.empty());
  EXPECT_EQ(result->verdict.accepted, options.keys * options.events_of_key);
  // Every tenth failed. Its answer may be one that a killed handler never read.
  EXPECT_EQ(result->verdict.refused, options.keys * options.events_of_key / 10);
  // Keys did not wait for each other.
  EXPECT_GE(result->verdict.out_max, 10u);
  EXPECT_EQ(result->kills, kills);
  if (testing::Test::HasFailure()) KeepLogs(options.folder);
}

TEST(OrderTest, EventsOfAKeyComeOneAtATimeAndOnceWithoutAFault) {
  OrderResult result;
  ASSERT_NO_FATAL_FAILURE(ExpectOrder("order", 0, &result));
  EXPECT_EQ(result.verdict.repeats, 0u);
  EXPECT_EQ(result.verdict.arrivals, result.verdict.accepted + result.verdict.refused);
}

TEST(OrderTest, EventsOfAKeyKeepTheirOrderWhateverIsKilled) {
  OrderResult result;
  ASSERT_NO_FATAL_FAILURE(ExpectOrder("order_kills", 6, &result));
}

}  // namespace order_test
}  // namespace escapement::chaos
