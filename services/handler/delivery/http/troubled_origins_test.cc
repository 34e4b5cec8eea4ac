#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "services/handler/delivery/http/http_transport.h"

namespace escapement::handler {
namespace troubled_origins_test {

TEST(TroubledOriginsTest, AnOriginIsInTroubleUntilItAnswersManyTimesInSuccession) {
  TroubledOrigins origins;
  origins.OnEnd("a", true);
  EXPECT_FALSE(origins.Has("a"));
  origins.OnEnd("a", false);
  origins.OnEnd("b", true);
  EXPECT_TRUE(origins.Has("a"));
  EXPECT_FALSE(origins.Has("b"));
  for (int i = 1; i < TroubledOrigins::kAnswersInSuccession; ++i) origins.OnEnd("a", true);
  EXPECT_TRUE(origins.Has("a"));
  origins.OnEnd("a", false);
  for (int i = 1; i < TroubledOrigins::kAnswersInSuccession; ++i) origins.OnEnd("a", true);
  EXPECT_TRUE(origins.Has("a"));
  origins.OnEnd("a", true);
  EXPECT_FALSE(origins.Has("a"));
}

TEST(TroubledOriginsTest, ItRemembersABoundedNumber) {
  TroubledOrigins origins;
  for (size_t i = 0; i <= TroubledOrigins::kOriginsMax; ++i)
    origins.OnEnd(absl::StrCat("origin ", i), false);
  EXPECT_FALSE(origins.Has("origin 0"));
  EXPECT_TRUE(origins.Has(absl::StrCat("origin ", TroubledOrigins::kOriginsMax)));
}

}  // namespace troubled_origins_test
}  // namespace escapement::handler
