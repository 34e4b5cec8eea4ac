#include "common/storage/inflight_table.h"

#include "common/base/key_codec.h"

namespace escapement {
namespace {

constexpr uint64_t kGrantedBit = uint64_t{1} << 63;
constexpr uint8_t kClaim = 0;
constexpr uint8_t kEnd = 1;
constexpr uint8_t kTakeover = 2;

}  // namespace

std::string ClaimPrefix(const ClaimId& claim) {
  return KeyWriter().U16(claim.shard).U64(claim.epoch).U64(claim.number).Take();
}

uint64_t GrantedClaimNumber(uint16_t policy_shard, uint64_t counter) {
  return kGrantedBit | uint64_t{policy_shard} << 40 | counter;
}

bool IsGranted(const ClaimId& claim) { return (claim.number & kGrantedBit) != 0; }

std::string EncodeClaimKey(const ClaimId& claim) {
  return KeyWriter(ClaimPrefix(claim)).U8(kClaim).Take();
}

std::string EncodeClaimEndKey(const ClaimId& claim, uint32_t end_number) {
  return KeyWriter(ClaimPrefix(claim)).U8(kEnd).U32(end_number).Take();
}

std::string EncodeClaimTakeoverKey(const ClaimId& claim) {
  return KeyWriter(ClaimPrefix(claim)).U8(kTakeover).Take();
}

std::optional<InflightKey> DecodeInflightKey(absl::string_view bytes) {
  KeyReader reader(bytes);
  InflightKey key;
  key.claim.shard = reader.U16();
  key.claim.epoch = reader.U64();
  key.claim.number = reader.U64();
  const uint8_t kind = reader.U8();
  if (kind == kEnd) key.end_number = reader.U32();
  if (!reader.done()) return std::nullopt;
  switch (kind) {
    case kClaim:
      return key;
    case kEnd:
      key.kind = InflightKey::Kind::kEnd;
      return key;
    case kTakeover:
      key.kind = InflightKey::Kind::kTakeover;
      return key;
    default:
      return std::nullopt;
  }
}

std::string InflightShardBegin(uint16_t shard) { return KeyWriter().U16(shard).Take(); }

std::string InflightShardEnd(uint16_t shard) { return PrefixEnd(InflightShardBegin(shard)); }

std::string TakeoverMarkKey(uint16_t shard) {
  return KeyWriter("takeover_mark/").U16(shard).Take();
}

std::string ClaimMarkKey(uint16_t shard) { return KeyWriter("claim_mark/").U16(shard).Take(); }

}  // namespace escapement
