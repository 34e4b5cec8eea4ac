#include "common/rest/json_bytes.h"
#include "gtest/gtest.h"

namespace escapement::rest {
namespace gzip_test {

TEST(Gzip, UnpacksWhatItPacked) {
  for (const size_t bytes : {0, 1, 100, 70000, 1000000}) {
    const std::string plain(bytes, 'x');
    EXPECT_EQ(Gunzipped(Gzipped(plain), bytes).value(), plain) << bytes;
  }
}

TEST(Gzip, StopsAtTheBound) {
  const std::string packed = Gzipped(std::string(1000000, 'x'));
  EXPECT_LT(packed.size(), 10000u);
  EXPECT_EQ(Gunzipped(packed, 999999).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(Gzip, RefusesWhatIsNotGzip) {
  const std::string packed = Gzipped("hello");
  for (size_t cut = 0; cut < packed.size(); ++cut)
    EXPECT_FALSE(Gunzipped(packed.substr(0, cut), 100).ok()) << cut;
  EXPECT_FALSE(Gunzipped("hello", 100).ok());
  EXPECT_FALSE(Gunzipped(packed + "x", 100).ok());
  std::string broken = packed;
  broken[broken.size() - 6] ^= 1;  // the checksum
  EXPECT_FALSE(Gunzipped(broken, 100).ok());
}

}  // namespace gzip_test
}  // namespace escapement::rest
