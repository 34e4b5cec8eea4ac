#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/process/store_client.h"
#include "gtest/gtest.h"

namespace escapement {
namespace store_addresses_test {

std::string Parsed(absl::string_view text) {
  const auto addresses = ParseStoreAddresses(text);
  return addresses.ok() ? absl::StrJoin(*addresses, "|")
                        : absl::StrCat("error: ", addresses.status().message());
}

TEST(StoreAddresses, OneAddressOrAListIsRead) {
  EXPECT_EQ(Parsed("127.0.0.1:7400"), "127.0.0.1:7400");
  EXPECT_EQ(Parsed("store-0.store:7400,store-1.store:7400"),
            "store-0.store:7400|store-1.store:7400");
  EXPECT_EQ(Parsed(" a:1, [::1]:2 "), "a:1|[::1]:2");
}

TEST(StoreAddresses, ImpossibleAddressIsNamed) {
  EXPECT_EQ(Parsed("a:0"), "error: a needs a port, as in 127.0.0.1:7400");
  EXPECT_EQ(Parsed("a:1,a:1"), "error: a:1 occurs twice");
  EXPECT_EQ(Parsed("a:1,b"), "error: 'b' is not host:port: it has no colon");
  EXPECT_EQ(Parsed("a:1,"), "error: '' is not host:port: it has no colon");
  EXPECT_EQ(Parsed(""), "error: '' is not host:port: it has no colon");
}

TEST(StoreAddresses, ListIsBounded) {
  std::string text = "a:1";
  for (size_t i = 1; i < kStoreAddressesMax; ++i) absl::StrAppend(&text, ",a:", 1 + i);
  EXPECT_TRUE(ParseStoreAddresses(text).ok());
  EXPECT_EQ(Parsed(absl::StrCat(text, ",b:1")), "error: more than 16 addresses of one store");
}

}  // namespace store_addresses_test
}  // namespace escapement
