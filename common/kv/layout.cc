#include "common/kv/layout.h"

#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"

namespace escapement::kv {

absl::Status ValidateLayout(const Layout& layout) {
  for (uint32_t number : {layout.partitions, layout.queue_shards, layout.policy_shards}) {
    if (number < 1 || number > kLayoutNumberMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("partitions, queue shards and policy shards must be 1 to ", kLayoutNumberMax,
                       ", not ", number));
    }
  }
  if (layout.cell >= kCellsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("the cell must be 0 to ", kCellsMax - 1, ", not ", layout.cell));
  }
  return absl::OkStatus();
}

std::string EncodeLayout(const Layout& layout) {
  std::string out;
  AppendBigEndian<uint32_t>(&out, layout.partitions);
  AppendBigEndian<uint32_t>(&out, layout.queue_shards);
  AppendBigEndian<uint32_t>(&out, layout.policy_shards);
  if (layout.cell != 0) AppendBigEndian<uint32_t>(&out, layout.cell);
  return out;
}

absl::StatusOr<Layout> DecodeLayout(absl::string_view bytes) {
  if (bytes.size() != 12 && bytes.size() != 16)
    return absl::DataLossError(absl::StrCat("a layout of ", bytes.size(), " bytes"));
  Layout layout;
  layout.partitions = ReadBigEndian<uint32_t>(bytes);
  layout.queue_shards = ReadBigEndian<uint32_t>(bytes.substr(4));
  layout.policy_shards = ReadBigEndian<uint32_t>(bytes.substr(8));
  if (bytes.size() == 16) layout.cell = ReadBigEndian<uint32_t>(bytes.substr(12));
  if (!ValidateLayout(layout).ok()) return absl::DataLossError("a layout with impossible numbers");
  return layout;
}

size_t PrefixBytes(ColumnFamily cf, absl::string_view key) {
  if (!HasPrefixes(cf)) return 0;
  // The prefix of one hour and minute (common/storage/children_table.h): partition (2 bytes), zone
  // (text, ends with 0 1), class (1), date value (2), hour (1), minute (1).
  constexpr absl::string_view kTextEnd("\0\1", 2);
  const size_t zone_end = key.find(kTextEnd, 2);
  if (zone_end == absl::string_view::npos) return 0;
  const size_t bytes = zone_end + kTextEnd.size() + 5;
  return bytes <= key.size() ? bytes : 0;
}

}  // namespace escapement::kv
