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

TEST(Gzip, StreamUnpacksPiecesWhereverTheyEnd) {
  std::string plain;
  for (int i = 0; i < 20'000; ++i) plain += std::to_string(i * 7919);
  const std::string packed = Gzipped(plain);
  for (const size_t piece : {size_t{7}, size_t{777}, packed.size()}) {
    GunzipStream stream;
    std::string unpacked;
    for (size_t at = 0; at < packed.size(); at += piece) {
      EXPECT_FALSE(stream.complete());
      stream.Add(packed.substr(at, piece));
      for (auto part = stream.Next(); !part.value().empty(); part = stream.Next()) {
        EXPECT_LE(part->size(), size_t{64 << 10});
        unpacked += *part;
      }
    }
    EXPECT_TRUE(stream.complete());
    EXPECT_TRUE(unpacked == plain) << piece;
    stream.Add("x");
    EXPECT_FALSE(stream.Next().ok());
  }
  GunzipStream other;
  other.Add("hello");
  EXPECT_FALSE(other.Next().ok());
  EXPECT_FALSE(other.complete());
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
