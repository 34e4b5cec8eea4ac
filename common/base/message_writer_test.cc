#include "common/base/message_writer.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "gtest/gtest.h"

namespace escapement {
namespace message_writer_test {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

CodedInputStream Reader(absl::string_view bytes) {
  return CodedInputStream(reinterpret_cast<const uint8_t*>(bytes.data()),
                          static_cast<int>(bytes.size()));
}

TEST(MessageWriterTest, NumbersOfEachLengthAreReadBack) {
  for (int bits = 0; bits <= 64; ++bits) {
    const uint64_t value = bits == 64 ? std::numeric_limits<uint64_t>::max() : uint64_t{1} << bits;
    for (const uint64_t number : {value - 1, value}) {
      const std::string bytes = MessageWriter(1).Number(3000, number).Take();
      CodedInputStream reader = Reader(bytes);
      if (number == 0) {
        EXPECT_EQ(bytes, "");
        continue;
      }
      EXPECT_EQ(reader.ReadTag(), WireFormatLite::MakeTag(3000, WireFormatLite::WIRETYPE_VARINT));
      uint64_t read = 0;
      EXPECT_TRUE(reader.ReadVarint64(&read));
      EXPECT_EQ(read, number);
      EXPECT_EQ(reader.CurrentPosition(), static_cast<int>(bytes.size()));
    }
  }
}

TEST(MessageWriterTest, TextsMessagesAndFieldsGrowBeyondTheUsualSize) {
  const std::string text(300, 'x');
  MessageWriter writer(0);
  writer.Bytes(1, "").Bytes(2, text).Message(3, "");
  std::memcpy(writer.Room(4, 2), "ab", 2);
  writer.Fields(MessageWriter(15).Number(5, 7).written());
  EXPECT_EQ(writer.size(), writer.written().size());
  const std::string wanted = std::string("\x12\xac\x02", 3) + text + std::string("\x1a\0", 2) +
                             std::string("\x22\x02", 2) + "ab" + "\x28\x07";
  EXPECT_EQ(writer.written(), wanted);
  EXPECT_EQ(writer.Take(), wanted);
}

TEST(MessageWriterTest, ClearBeginsAnotherMessage) {
  MessageWriter writer(8);
  writer.Bytes(1, "a long text of the first message");
  EXPECT_EQ(writer.Clear().Number(1, 1).written(), "\x08\x01");
}

}  // namespace message_writer_test
}  // namespace escapement
