// Layout: the numbers that are fixed when a store is created. Read them with MultiGet({kMeta,
// kLayoutKey}).

#ifndef COMMON_KV_LAYOUT_H_
#define COMMON_KV_LAYOUT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace escapement::kv {

struct Layout {
  uint32_t partitions = 16;    // slices of the children index; 1 to 1,024
  uint32_t queue_shards = 8;   // slices of the event queue; 1 to 1,024
  uint32_t policy_shards = 8;  // slices of waiting events and grants; 1 to 1,024

  friend bool operator==(const Layout&, const Layout&) = default;
};

inline constexpr absl::string_view kLayoutKey = "layout";
inline constexpr uint32_t kLayoutNumberMax = 1024;

// INVALID_ARGUMENT if a number is out of bounds.
absl::Status ValidateLayout(const Layout& layout);

// 12 bytes: three big-endian 32-bit numbers.
std::string EncodeLayout(const Layout& layout);
// DATA_LOSS if the bytes are not a layout.
absl::StatusOr<Layout> DecodeLayout(absl::string_view bytes);

}  // namespace escapement::kv

#endif  // COMMON_KV_LAYOUT_H_
