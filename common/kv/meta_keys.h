// The store's own keys in kMeta. They begin with a zero byte; commits and scans cannot reach them.
//
//   00 's' session(8)            → empty                an open session
//   00 's' session(8) slot(1)    → answer               see engine/session_table.h
//   00 'q'                       → seq(8)               the last commit
//   00 'i'                       → incarnation(8)
//   00 'f'                       → version(4)           of this format
//   00 't'                       → clock                see engine/store_clock.h
//   00 'p'                       → position             in a replica only; see replica/log_place.h
//
// Integers are big-endian. Everybody may read kLayoutKey (layout.h) and kClockHoldKey.

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
inline constexpr absl::string_view kLogPlaceKey{"\0p", 2};

// A store of format 1 may have range tombstones in all families. Scans no longer respect those
// (HasRangeTombstones), so deleted rows would reappear.
inline constexpr uint32_t kFormatVersion = 2;

// The first key that does not belong to the store.
inline constexpr absl::string_view kMetaVisibleBegin{"\1", 1};

// Present while emission is held because the wall clock is ahead of store time by a step that the
// store does not follow yet (engine/store_clock.h). Emitters wait until the key is gone; an
// operator's confirmation ends the hold. Value: the disagreement in microseconds, 8 bytes.
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
