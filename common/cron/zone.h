// An IANA time zone as a list of spans of constant UTC offset, and what it says about a wall-clock
// time.
//
// A span runs from one change of the offset to the next. Only the offset counts: changes of name or
// daylight-saving flag alone make no span. Civil times are also given as "local seconds": seconds
// from 1970-01-01T00:00:00 to the civil time, both read in one zone-less calendar (proleptic
// Gregorian).
//
// A Zone is immutable and cheap to copy; all methods may be called from any thread. Loaded zones
// are kept for the life of the process, so a new tzdata is seen after a restart.

#ifndef COMMON_CRON_ZONE_H_
#define COMMON_CRON_ZONE_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/civil_time.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace escapement::cron {

// The years in which there are occurrences: [kLocalBegin, kLocalEnd) in local seconds.
inline constexpr int kYearMin = 1970;
inline constexpr int kYearMax = 2199;
inline constexpr int64_t kLocalBegin = 0;
inline constexpr int64_t kLocalEnd = 7258118400;  // 2200-01-01T00:00:00

inline int64_t ToLocalSeconds(absl::CivilSecond civil) { return civil - absl::CivilSecond(1970); }
inline absl::CivilSecond FromLocalSeconds(int64_t local) { return absl::CivilSecond(1970) + local; }

struct OffsetSpan {
  // Unix seconds; it ends where the next one begins.
  int64_t begin = std::numeric_limits<int64_t>::min();
  int64_t offset = 0;  // local = Unix + offset, seconds
};

// The offset changes at `instant`: a gap if after > before, an overlap if after < before.
struct OffsetChange {
  absl::Time instant;
  absl::Duration before, after;
};

enum class CivilKind { kUnique, kSkipped, kRepeated };

struct CivilInfo {
  CivilKind kind = CivilKind::kUnique;
  absl::InlinedVector<int64_t, 2> instants;  // Unix seconds, ascending; empty if skipped
  size_t gap = 0;  // if skipped: the index of the span that begins at the end of the gap
  // [begin, end) in local seconds: neighbours for which the answer names the same spans.
  int64_t begin = 0, end = 0;
};

class Zone {
 public:
  // `name` is a Zone or Link name of the IANA database in its exact spelling. INVALID_ARGUMENT for
  // everything else: offsets, POSIX TZ strings, paths, names with a prefix such as "posix/".
  static absl::StatusOr<Zone> Load(absl::string_view name);
  static Zone Utc();
  // Rules that are not this machine's (those of another revision of the database). `spans`: in
  // order, at least one, the first from the minimum of int64. Its time_zone() is UTC.
  static Zone FromSpans(std::string name, std::vector<OffsetSpan> spans);

  const std::string& name() const;
  const absl::TimeZone& time_zone() const;

  // In order; the first begins at the minimum of int64, the others within the years 1969-2200.
  absl::Span<const OffsetSpan> spans() const;
  // Index of the span that holds the instant.
  size_t SpanAt(int64_t unix_seconds) const;
  int64_t SpanEnd(size_t span) const;

  // The local seconds of this span that no other span has: [first, second).
  std::pair<int64_t, int64_t> UniqueRange(size_t span) const;

  CivilInfo Classify(int64_t local_seconds) const;
  CivilInfo Classify(absl::CivilSecond civil) const { return Classify(ToLocalSeconds(civil)); }

  std::optional<OffsetChange> NextChange(absl::Time after) const;   // the first one strictly after
  std::optional<OffsetChange> PrevChange(absl::Time before) const;  // the last one strictly before

 private:
  friend class ZoneOverride;
  struct Spans;
  struct Loaded;
  static Loaded& TheLoaded();
  static std::shared_ptr<const Spans> MakeSpans(std::string name, const absl::TimeZone& tz,
                                                std::vector<OffsetSpan> spans);
  explicit Zone(std::shared_ptr<const Spans> data) : data_(std::move(data)) {}
  std::shared_ptr<const Spans> data_;
};

// For tests: as long as it lives, Load(name) gives these rules to the whole process, whether the
// database has the name or not. Not two of one name at a time.
class ZoneOverride {
 public:
  ZoneOverride(std::string name, std::vector<OffsetSpan> spans);
  ~ZoneOverride();
  ZoneOverride(const ZoneOverride&) = delete;
  ZoneOverride& operator=(const ZoneOverride&) = delete;

 private:
  const std::string name_;
};

// Version of the zone database, such as "2026f"; "unknown" if its files do not say.
const std::string& TzdataVersion();

// All names of the database, as its files list them; empty if they do not.
const std::set<std::string, std::less<>>& TzdataNames();

}  // namespace escapement::cron

#endif  // COMMON_CRON_ZONE_H_
