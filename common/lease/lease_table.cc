#include "common/lease/lease_table.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/key_codec.h"

namespace escapement::lease {

std::string KindPrefix(absl::string_view kind) { return absl::StrCat(kind, "/"); }

std::string LeaseKey(absl::string_view kind, uint32_t index) {
  return absl::StrFormat("%s/%05d", kind, index);
}

std::optional<uint32_t> LeaseIndexOf(absl::string_view kind, absl::string_view key) {
  uint32_t index = 0;
  if (key.size() <= kind.size() || !absl::StartsWith(key, KindPrefix(kind))) return std::nullopt;
  if (!absl::SimpleAtoi(key.substr(kind.size() + 1), &index)) return std::nullopt;
  return index;
}

std::string EncodeLeaseValue(uint64_t epoch, absl::string_view owner) {
  std::string value = EpochPrefix(epoch);
  value.append(8, '\0');
  value.append(owner.data(), owner.size());
  return value;
}

std::optional<LeaseRow> DecodeLeaseValue(absl::string_view value) {
  if (value.size() < 16) return std::nullopt;
  LeaseRow row;
  row.epoch = ReadBigEndian<uint64_t>(value);
  row.end = absl::FromUnixMicros(
      static_cast<int64_t>(ReadBigEndian<uint64_t>(value.substr(kLeaseStampOffset))));
  row.owner = std::string(value.substr(16));
  return row;
}

std::string EpochPrefix(uint64_t epoch) {
  std::string prefix;
  AppendBigEndian<uint64_t>(&prefix, epoch);
  return prefix;
}

std::string MemberKey(absl::string_view kind, absl::string_view instance) {
  return absl::StrCat(kind, "/", instance);
}

std::string EncodeMemberValue() { return std::string(8, '\0'); }

std::optional<absl::Time> DecodeMemberValue(absl::string_view value) {
  if (value.size() != 8) return std::nullopt;
  return absl::FromUnixMicros(static_cast<int64_t>(ReadBigEndian<uint64_t>(value)));
}

}  // namespace escapement::lease
