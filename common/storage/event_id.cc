#include "common/storage/event_id.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/base/hash.h"
#include "common/base/key_codec.h"

namespace escapement {
namespace {

constexpr char kDigits[] = "0123456789abcdefghijklmnopqrstuv";
// Bytes of shard, lane, due time and uid, with which an `events` key begins.
constexpr size_t kIdBytes = 2 + 1 + 8 + Uid::kBytes;
constexpr size_t kIdDigits = (kIdBytes * 8 + 4) / 5;

constexpr std::array<std::array<char, 2>, 1024> kDigitPairs = [] {
  std::array<std::array<char, 2>, 1024> pairs{};
  for (size_t i = 0; i < pairs.size(); ++i) pairs[i] = {kDigits[i >> 5], kDigits[i & 31]};
  return pairs;
}();

// Empty if a character is not a digit.
std::string FromBase32Hex(absl::string_view text) {
  std::string bytes;
  uint32_t buffer = 0;
  int bits = 0;
  for (char c : text) {
    uint32_t digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<uint32_t>(c - '0');
    } else if (c >= 'a' && c <= 'v') {
      digit = static_cast<uint32_t>(c - 'a') + 10;
    } else {
      return std::string();
    }
    buffer = (buffer << 5) | digit;
    bits += 5;
    if (bits >= 8) {
      bits -= 8;
      bytes.push_back(static_cast<char>((buffer >> bits) & 0xff));
    }
  }
  return bytes;
}

}  // namespace

RunIdentity::RunIdentity(absl::string_view tenant, const Uid& uid, absl::string_view occurrence)
    : prefix_(KeyWriter().Text(tenant).Id(uid).Text(occurrence).Take()) {}

std::string RunIdentity::EventId(uint64_t index) const {
  return StableHash128(KeyWriter(prefix_).U64(index).Take()).ToHex();
}

uint16_t ShardOfEventId(absl::string_view event_id, uint32_t queue_shards) {
  return static_cast<uint16_t>(StableHash64(event_id) % queue_shards);
}

IndexSlice SliceOfShard(uint64_t n, uint32_t shard, uint32_t shards) {
  const uint64_t size = n / shards;
  const uint64_t longer = n % shards;  // the first `longer` shards have one event more
  IndexSlice slice;
  slice.first = shard * size + std::min<uint64_t>(shard, longer);
  slice.count = size + (shard < longer ? 1 : 0);
  return slice;
}

uint16_t ShardOfIndex(uint64_t n, uint64_t index, uint32_t shards) {
  const uint64_t size = n / shards;
  const uint64_t longer = n % shards;
  const uint64_t in_longer = longer * (size + 1);
  const uint64_t shard = index < in_longer
                             ? index / (size + 1)
                             : longer + (index - in_longer) / std::max<uint64_t>(size, 1);
  return static_cast<uint16_t>(std::min<uint64_t>(shard, shards - 1));
}

std::string ServerMadeEventId(const EventKey& key) {
  return ServerMadeEventId(EncodeEventKey(key));
}

std::string ServerMadeEventId(absl::string_view event_key) {
  constexpr size_t kGroups = (kIdBytes + 4) / 5;  // each has eight digits
  std::array<char, 5 * kGroups> padded{};
  std::memcpy(padded.data(), event_key.data(), std::min(event_key.size(), kIdBytes));
  std::array<char, 8 * kGroups> digits;
  for (size_t i = 0; i < kGroups; ++i) {
    const absl::string_view group(padded.data() + 5 * i, 5);
    const uint32_t high = ReadBigEndian<uint32_t>(group);
    const uint32_t low = (high & 255) << 8 | static_cast<unsigned char>(group[4]);
    char* const out = digits.data() + 8 * i;
    std::memcpy(out, kDigitPairs[high >> 22].data(), 2);
    std::memcpy(out + 2, kDigitPairs[(high >> 12) & 1023].data(), 2);
    std::memcpy(out + 4, kDigitPairs[(high >> 2) & 1023].data(), 2);
    std::memcpy(out + 6, kDigitPairs[low & 1023].data(), 2);
  }
  return std::string(digits.data(), kIdDigits);
}

std::optional<EventKey> ParseServerMadeEventId(absl::string_view event_id) {
  if (event_id.size() != kIdDigits) return std::nullopt;
  const std::string bytes = FromBase32Hex(event_id);
  if (bytes.size() != kIdBytes) return std::nullopt;
  KeyReader reader(bytes);
  EventKey key;
  key.shard = reader.U16();
  key.lane = reader.U8();
  key.due_time = reader.Time();
  key.uid = reader.Id();
  if (!reader.done() || key.lane > kLaneLimited || ServerMadeEventId(key) != event_id)
    return std::nullopt;
  return key;
}

Uid UidOfClientChosenId(absl::string_view tenant, absl::string_view event_id) {
  return StableHash128(KeyWriter().Text(tenant).Text(event_id).Take());
}

}  // namespace escapement
