// An IANA time zone as a list of spans of constant UTC offset, and its answers about wall-clock
// times.
//
// A span runs from one change of the offset to the next. A change of only the name or the
// daylight-saving flag begins no span. Civil times are also given as "local seconds". These are the
// seconds from 1970-01-01T00:00:00 to the civil time, both read in one calendar without zones
// (proleptic Gregorian).
//
// A Zone is immutable and cheap to copy; any thread may call its methods. Loaded zones are kept for
// the life of the process, so a new tzdata takes effect after a restart.

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

// The years that can have occurrences: [kLocalBegin, kLocalEnd) in local seconds.
inline constexpr int kYearMin = 1970;
inline constexpr int kYearMax = 2199;
inline constexpr int64_t kLocalBegin = 0;
inline constexpr int64_t kLocalEnd = 7258118400;  // 2200-01-01T00:00:00

inline int64_t ToLocalSeconds(absl::CivilSecond civil) { return civil - absl::CivilSecond(1970); }
inline absl::CivilSecond FromLocalSeconds(int64_t local) { return absl::CivilSecond(1970) + local; }

struct OffsetSpan {
  // Unix seconds; the span ends where the next one begins.
  int64_t begin = std::numeric_limits<int64_t>::min();
  int64_t offset = 0;  // local = Unix + offset, seconds
};

// The offset changes at `instant`: a gap if after > before, a fold if after < before.
struct OffsetChange {
  absl::Time instant;
  absl::Duration before, after;
};

enum class CivilKind { kUnique, kSkipped, kRepeated };

struct CivilInfo {
  CivilKind kind = CivilKind::kUnique;
  absl::InlinedVector<int64_t, 2> instants;  // Unix seconds, ascending; empty if skipped
  size_t gap = 0;  // if skipped: the index of the span that begins at the end of the gap
  // [begin, end) in local seconds: civil times around this one with the same spans in the answer.
  int64_t begin = 0, end = 0;
};

class Zone {
 public:
  // `name` must be a Zone or Link name of the IANA database in its exact spelling. INVALID_ARGUMENT
  // for all other texts: offsets, POSIX TZ strings, paths, names with a prefix such as "posix/".
  static absl::StatusOr<Zone> Load(absl::string_view name);
  static Zone Utc();
  // A zone with other rules than this machine's (those of another revision of the database).
  // `spans` must be in order and not empty; the first begins at the minimum of int64. Its
  // time_zone() is UTC.
  static Zone FromSpans(std::string name, std::vector<OffsetSpan> spans);

  const std::string& name() const;
  const absl::TimeZone& time_zone() const;

  // In order. The first begins at the minimum of int64, the others in the years 1969-2200.
  absl::Span<const OffsetSpan> spans() const;
  // Index of the span that contains the instant.
  size_t SpanAt(int64_t unix_seconds) const;
  int64_t SpanEnd(size_t span) const;

  // The local seconds that only this span has: [first, second).
  std::pair<int64_t, int64_t> UniqueRange(size_t span) const;

  CivilInfo Classify(int64_t local_seconds) const;
  CivilInfo Classify(absl::CivilSecond civil) const { return Classify(ToLocalSeconds(civil)); }

  std::optional<OffsetChange> NextChange(absl::Time after) const;   // the first one strictly after
                                                                    // it
  std::optional<OffsetChange> PrevChange(absl::Time before) const;  // the last one strictly before
                                                                    // it

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

// For tests. As long as it lives, Load(name) returns these rules in the whole process, even if the
// database does not have the name. There must not be two for one name at a time.
class ZoneOverride {
 public:
  ZoneOverride(std::string name, std::vector<OffsetSpan> spans);
  ~ZoneOverride();
  ZoneOverride(const ZoneOverride&) = delete;
  ZoneOverride& operator=(const ZoneOverride&) = delete;

 private:
  const std::string name_;
};

// Version of the zone database, such as "2026f"; "unknown" if its files have none.
const std::string& TzdataVersion();

// All names that the database's files list; empty if they list none.
const std::set<std::string, std::less<>>& TzdataNames();

}  // namespace escapement::cron

#endif  // COMMON_CRON_ZONE_H_
