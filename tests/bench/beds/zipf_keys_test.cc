#include <cstdint>
#include <map>
#include <string>

#include "gtest/gtest.h"
#include "tests/bench/beds/ingest_client.h"

namespace escapement::bench {
namespace zipf_keys_test {

TEST(ZipfKeysTest, KthKeyIsDrawnInProportionToOneByK) {
  const ZipfKeys keys(1000);
  std::map<std::string, int> drawn;
  for (uint64_t i = 0; i < 100'000; ++i) ++drawn[keys.Draw(i)];
  EXPECT_EQ(drawn.size(), 1000u);
  for (const auto& [key, count] : drawn) EXPECT_EQ(key.size(), ZipfKeys::kKeyBytes);
  constexpr double kFirst = 100'000 / 7.4855;  // 1 + 1/2 + … + 1/1000
  EXPECT_NEAR(drawn["k0000000"], kFirst, kFirst / 20);
  EXPECT_NEAR(drawn["k0000001"], kFirst / 2, kFirst / 40);
  EXPECT_NEAR(drawn["k0000009"], kFirst / 10, kFirst / 100);
  EXPECT_EQ(keys.Draw(17), ZipfKeys(1000).Draw(17));
}

}  // namespace zipf_keys_test
}  // namespace escapement::bench
