// The store's own keys in kMeta. They begin with a zero byte and are hidden from commits and scans.
//
//   00 's' session(8)            → empty                an open session
//   00 's' session(8) slot(1)    → answer               see session_table.h
//   00 'q'                       → seq(8)               the last commit
//   00 'i'                       → incarnation(8)
//   00 'f'                       → version(4)           of this format
//   00 't'                       → clock                see store_clock.h
//
// Integers are big-endian. Visible to all: kLayoutKey (layout.h) and kClockHoldKey.

#ifndef COMMON_KV_META_KEYS_H_
#define COMMON_KV_META_KEYS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/big_endian.h"

namespace escapement::kv {

inline constexpr absl::string_view kSessionPrefix{"\0s", 2};
inline constexpr absl::string_view kSessionPrefixEnd{"\0t", 2};
inline constexpr absl::string_view kSeqKey{"\0q", 2};
inline constexpr absl::string_view kIncarnationKey{"\0i", 2};
inline constexpr absl::string_view kFormatKey{"\0f", 2};
inline constexpr absl::string_view kClockKey{"\0t", 2};

// Format 1 had range tombstones in all families, which scans do not mind any more
// (HasRangeTombstones): deleted rows would be seen again.
inline constexpr uint32_t kFormatVersion = 2;

// First key that is not the store's own.
inline constexpr absl::string_view kMetaVisibleBegin{"\1", 1};

// Present while the machine's wall clock is ahead of store time by more than is followed: emitters
// hold back until it is gone (ConfirmClock). Value: the disagreement, 8 bytes, microseconds.
inline constexpr absl::string_view kClockHoldKey = "clock_hold";

inline absl::Duration DecodeClockHold(absl::string_view value) {
  if (value.size() != 8) return absl::ZeroDuration();
  return absl::Microseconds(static_cast<int64_t>(ReadBigEndian<uint64_t>(value)));
}

inline bool IsReservedMetaKey(absl::string_view key) { return !key.empty() && key[0] == '\0'; }

inline std::string EncodeU64(uint64_t value) {
  std::string out;
  AppendBigEndian<uint64_t>(&out, value);
  return out;
}

}  // namespace escapement::kv

#endif  // COMMON_KV_META_KEYS_H_
