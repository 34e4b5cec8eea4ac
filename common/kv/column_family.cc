#include "common/kv/column_family.h"

namespace escapement::kv {

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
