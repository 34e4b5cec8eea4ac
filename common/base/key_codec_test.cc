#include "common/base/key_codec.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace escapement {
namespace key_codec_test {

TEST(KeyCodec, ReadsBackWhatItWrote) {
  const Uid uid = Uid::FromHalves(1, 2);
  const absl::Time time = absl::FromUnixMicros(1'700'000'000'123'456);
  const std::string key =
      KeyWriter().U8(7).U16(300).U32(70000).U64(1ull << 40).Time(time).Id(uid).Text("a\0b").Take();
  KeyReader reader(key);
  EXPECT_EQ(reader.U8(), 7);
  EXPECT_EQ(reader.U16(), 300);
  EXPECT_EQ(reader.U32(), 70000u);
  EXPECT_EQ(reader.U64(), 1ull << 40);
  EXPECT_EQ(reader.Time(), time);
  EXPECT_EQ(reader.Id(), uid);
  EXPECT_EQ(reader.Text(), "a");
  EXPECT_TRUE(reader.done());
}

TEST(KeyCodec, TextWithZerosKeepsItsOrderAndIsNoPrefixOfAnother) {
  const std::vector<std::string> texts = {"",
                                          std::string("\0", 1),
                                          std::string("\0\0", 2),
                                          std::string("\0a", 2),
                                          "a",
                                          std::string("a\0", 2),
                                          "aa",
                                          "b",
                                          "\xff"};
  for (size_t i = 0; i + 1 < texts.size(); ++i) {
    const std::string low = KeyWriter().Text(texts[i]).U8(255).Take();
    const std::string high = KeyWriter().Text(texts[i + 1]).U8(0).Take();
    EXPECT_LT(low, high) << i;
    KeyReader reader(low);
    EXPECT_EQ(reader.Text(), texts[i]);
  }
}

TEST(KeyCodec, TimesBefore1970SortBeforeLaterOnes) {
  const std::vector<absl::Time> times = {absl::InfinitePast(), absl::FromUnixSeconds(-10),
                                         absl::UnixEpoch(), absl::FromUnixMicros(1),
                                         absl::InfiniteFuture()};
  for (size_t i = 0; i + 1 < times.size(); ++i) {
    EXPECT_LT(KeyWriter().Time(times[i]).Take(), KeyWriter().Time(times[i + 1]).Take());
    const std::string key = KeyWriter().Time(times[i]).Take();
    EXPECT_EQ(KeyReader(key).Time(), times[i]);
  }
}

TEST(KeyCodec, LongKeysKeepEachField) {
  const std::string text(200, 't'), raw(1000, 'r');
  const std::string key = KeyWriter("prefix").U16(7).Text(text).U64(8).Raw(raw).Take();
  KeyReader reader(absl::string_view(key).substr(6));
  EXPECT_EQ(key.substr(0, 6), "prefix");
  EXPECT_EQ(reader.U16(), 7);
  EXPECT_EQ(reader.Text(), text);
  EXPECT_EQ(reader.U64(), 8u);
  EXPECT_EQ(reader.Rest(), raw);
}

TEST(KeyCodec, ShortOrBrokenKeysAreNoticed) {
  KeyReader short_key("\x01");
  EXPECT_EQ(short_key.U64(), 0u);
  EXPECT_FALSE(short_key.ok());
  KeyReader no_end("abc");
  EXPECT_EQ(no_end.Text(), "");
  EXPECT_FALSE(no_end.ok());
}

TEST(KeyCodec, PrefixEndIsAfterEveryKeyWithThePrefix) {
  EXPECT_EQ(PrefixEnd("a"), "b");
  EXPECT_EQ(PrefixEnd("a\xff"), "b");
  EXPECT_EQ(PrefixEnd("\xff\xff"), "");
}

TEST(Uid, HexReadsBackAndOtherTextIsRefused) {
  const Uid uid = Uid::FromHalves(0x0123456789abcdef, 42);
  EXPECT_EQ(uid.ToHex(), "0123456789abcdef000000000000002a");
  EXPECT_EQ(Uid::FromHex(uid.ToHex()), uid);
  EXPECT_TRUE(Uid::FromHex("zz").is_zero());
}

}  // namespace key_codec_test
}  // namespace escapement
