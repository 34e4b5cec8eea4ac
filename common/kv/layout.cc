#include "common/kv/layout.h"

#include "absl/strings/str_cat.h"
#include "common/base/big_endian.h"

namespace escapement::kv {

absl::Status ValidateLayout(const Layout& layout) {
  for (uint32_t number : {layout.partitions, layout.queue_shards, layout.policy_shards}) {
    if (number < 1 || number > kLayoutNumberMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("partitions, queue shards and policy shards must be 1 to ", kLayoutNumberMax,
                       ", not ", number));
    }
  }
  return absl::OkStatus();
}

std::string EncodeLayout(const Layout& layout) {
  std::string out;
  AppendBigEndian<uint32_t>(&out, layout.partitions);
  AppendBigEndian<uint32_t>(&out, layout.queue_shards);
  AppendBigEndian<uint32_t>(&out, layout.policy_shards);
  return out;
}

absl::StatusOr<Layout> DecodeLayout(absl::string_view bytes) {
  if (bytes.size() != 12)
    return absl::DataLossError(absl::StrCat("a layout of ", bytes.size(), " bytes"));
  Layout layout;
  layout.partitions = ReadBigEndian<uint32_t>(bytes);
  layout.queue_shards = ReadBigEndian<uint32_t>(bytes.substr(4));
  layout.policy_shards = ReadBigEndian<uint32_t>(bytes.substr(8));
  if (!ValidateLayout(layout).ok()) return absl::DataLossError("a layout with impossible numbers");
  return layout;
}

}  // namespace escapement::kv
