#include "common/cron/zone.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "common/base/status_macros.h"

namespace escapement::cron {
namespace {

// No offset from UTC is larger than this. So a span further away cannot hold a civil time near an
// instant.
constexpr int64_t kOffsetMax = 26 * 3600;
constexpr int64_t kSpansBegin = -40 * 86400;  // before the first local second in any zone
constexpr int64_t kSpansEnd = kLocalEnd + 40 * 86400;
constexpr size_t kZoneNameBytesMax = 64;

// The version and the names in the compact source of the database (tzdata.zi, shipped beside the
// compiled zones).
struct Database {
  std::string version = "unknown";
  std::set<std::string, std::less<>> names;  // empty if the file is missing
};

Database ReadDatabase() {
  Database database;
  const char* dir = std::getenv("TZDIR");
  std::ifstream file(
      absl::StrCat(dir != nullptr && *dir != '\0' ? dir : "/usr/share/zoneinfo", "/tzdata.zi"));
  for (std::string line; std::getline(file, line);) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    if (words[0] == "#" && words.size() == 3 && words[1] == "version")
      database.version = std::string(words[2]);
    if (words[0] == "Z" && words.size() > 1) database.names.emplace(words[1]);
    if (words[0] == "L" && words.size() > 2) database.names.emplace(words[2]);
  }
  return database;
}

const Database& TheDatabase() {
  static const Database* const database = new Database(ReadDatabase());
  return *database;
}

// For systems whose database does not list its names.
bool LooksLikeAName(absl::string_view name) {
  static constexpr absl::string_view kNoZones[] = {"localtime", "posixrules", "posix", "right"};
  if (!absl::ascii_isalpha(name[0]) || absl::StrContains(name, "..")) return false;
  for (absl::string_view other : kNoZones) {
    if (name == other || (absl::StartsWith(name, other) && name[other.size()] == '/')) return false;
  }
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return absl::ascii_isalnum(c) || absl::StrContains("+-_/", c); });
}

absl::Status CheckName(absl::string_view name) {
  if (name.empty()) return absl::InvalidArgumentError("time zone: is empty");
  const Database& database = TheDatabase();
  const bool known =
      name.size() <= kZoneNameBytesMax &&
      (database.names.empty() ? LooksLikeAName(name) : database.names.contains(name));
  if (known) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("time zone: \"", absl::CHexEscape(name.substr(0, kZoneNameBytesMax)),
                   "\" is not a name of the IANA database (exact spelling, such as Asia/Kolkata; "
                   "no offsets or paths)"));
}

std::vector<OffsetSpan> FindSpans(const absl::TimeZone& tz) {
  absl::Time at = absl::FromUnixSeconds(kSpansBegin);
  OffsetSpan span;
  span.offset = tz.At(at).offset;
  std::vector<OffsetSpan> spans = {span};
  absl::TimeZone::CivilTransition change;
  while (tz.NextTransition(at, &change)) {
    // The civil times on both sides of one instant give the instant and the new offset.
    const int64_t instant = ToLocalSeconds(change.from) - spans.back().offset;
    const int64_t offset = ToLocalSeconds(change.to) - instant;
    if (instant >= kSpansEnd) break;
    if (offset != spans.back().offset) spans.push_back({.begin = instant, .offset = offset});
    at = absl::FromUnixSeconds(instant);
  }
  return spans;
}

}  // namespace

struct Zone::Spans {
  std::string name;
  absl::TimeZone tz;
  std::vector<OffsetSpan> spans;
  std::vector<std::pair<int64_t, int64_t>> unique;  // local seconds that only this span has
};

// There are about 600 zones, so this is bounded.
struct Zone::Loaded {
  absl::Mutex mutex;
  absl::btree_map<std::string, std::shared_ptr<const Spans>> zones ABSL_GUARDED_BY(mutex);
};

Zone::Loaded& Zone::TheLoaded() {
  static auto* const loaded = new Loaded;
  return *loaded;
}

absl::StatusOr<Zone> Zone::Load(absl::string_view name) {
  Loaded& loaded = TheLoaded();
  {
    absl::MutexLock lock(&loaded.mutex);
    if (auto it = loaded.zones.find(name); it != loaded.zones.end()) return Zone(it->second);
  }
  RETURN_IF_ERROR(CheckName(name));
  absl::TimeZone tz;
  if (!absl::LoadTimeZone(name, &tz)) {
    return absl::InvalidArgumentError(absl::StrCat("time zone: \"", name, "\" cannot be loaded"));
  }
  auto data = MakeSpans(std::string(name), tz, FindSpans(tz));
  absl::MutexLock lock(&loaded.mutex);
  return Zone(loaded.zones.emplace(std::string(name), std::move(data)).first->second);
}

Zone Zone::Utc() {
  static const Zone* const utc = new Zone(FromSpans("UTC", {OffsetSpan{}}));
  return *utc;
}

Zone Zone::FromSpans(std::string name, std::vector<OffsetSpan> spans) {
  return Zone(MakeSpans(std::move(name), absl::UTCTimeZone(), std::move(spans)));
}

std::shared_ptr<const Zone::Spans> Zone::MakeSpans(std::string name, const absl::TimeZone& tz,
                                                   std::vector<OffsetSpan> spans) {
  auto data = std::make_shared<Spans>();
  data->name = std::move(name);
  data->tz = tz;
  data->spans = std::move(spans);
  const size_t count = data->spans.size();
  data->unique.assign(count,
                      {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()});
  // Earlier spans end at most at `end` on the local clock, later ones begin at least at `begin`.
  for (size_t i = 1; i < count; ++i) {
    data->unique[i].first =
        std::max(data->unique[i - 1].first, data->spans[i].begin + data->spans[i - 1].offset);
  }
  for (size_t i = count - 1; i > 0; --i) {
    data->unique[i - 1].second =
        std::min(data->unique[i].second, data->spans[i].begin + data->spans[i].offset);
  }
  return data;
}

ZoneOverride::ZoneOverride(std::string name, std::vector<OffsetSpan> spans)
    : name_(std::move(name)) {
  Zone::Loaded& loaded = Zone::TheLoaded();
  absl::MutexLock lock(&loaded.mutex);
  loaded.zones[name_] = Zone::MakeSpans(name_, absl::UTCTimeZone(), std::move(spans));
}

ZoneOverride::~ZoneOverride() {
  Zone::Loaded& loaded = Zone::TheLoaded();
  absl::MutexLock lock(&loaded.mutex);
  loaded.zones.erase(name_);
}

const std::string& Zone::name() const { return data_->name; }
const absl::TimeZone& Zone::time_zone() const { return data_->tz; }
absl::Span<const OffsetSpan> Zone::spans() const { return data_->spans; }
std::pair<int64_t, int64_t> Zone::UniqueRange(size_t span) const { return data_->unique[span]; }

size_t Zone::SpanAt(int64_t unix_seconds) const {
  const auto& spans = data_->spans;
  const auto after =
      std::upper_bound(spans.begin(), spans.end(), unix_seconds,
                       [](int64_t t, const OffsetSpan& span) { return t < span.begin; });
  return after - spans.begin() - 1;
}

int64_t Zone::SpanEnd(size_t span) const {
  return span + 1 < data_->spans.size() ? data_->spans[span + 1].begin
                                        : std::numeric_limits<int64_t>::max();
}

CivilInfo Zone::Classify(int64_t local_seconds) const {
  const auto& spans = data_->spans;
  CivilInfo info;
  info.begin = std::numeric_limits<int64_t>::min();
  info.end = std::numeric_limits<int64_t>::max();
  const auto bound = [&](int64_t edge) {
    if (edge <= local_seconds) {
      info.begin = std::max(info.begin, edge);
    } else {
      info.end = std::min(info.end, edge);
    }
  };
  const size_t last = SpanAt(local_seconds + kOffsetMax);
  for (size_t i = SpanAt(local_seconds - kOffsetMax); i <= last; ++i) {
    const int64_t instant = local_seconds - spans[i].offset;
    if (instant >= spans[i].begin && instant < SpanEnd(i)) info.instants.push_back(instant);
    if (i > 0) bound(spans[i].begin + spans[i].offset);
    if (i + 1 < spans.size()) bound(SpanEnd(i) + spans[i].offset);
    if (i > 0 && info.gap == 0 && local_seconds >= spans[i].begin + spans[i - 1].offset &&
        local_seconds < spans[i].begin + spans[i].offset) {
      info.gap = i;
    }
  }
  info.kind = info.instants.empty()       ? CivilKind::kSkipped
              : info.instants.size() == 1 ? CivilKind::kUnique
                                          : CivilKind::kRepeated;
  return info;
}

std::optional<OffsetChange> Zone::NextChange(absl::Time after) const {
  const auto& spans = data_->spans;
  // Spans begin at whole seconds, so rounding down is exact.
  const size_t next = SpanAt(absl::ToUnixSeconds(after)) + 1;
  if (next >= spans.size()) return std::nullopt;
  return OffsetChange{.instant = absl::FromUnixSeconds(spans[next].begin),
                      .before = absl::Seconds(spans[next - 1].offset),
                      .after = absl::Seconds(spans[next].offset)};
}

std::optional<OffsetChange> Zone::PrevChange(absl::Time before) const {
  const auto& spans = data_->spans;
  const size_t span = SpanAt(absl::ToUnixSeconds(before - absl::Nanoseconds(1)));
  if (span == 0) return std::nullopt;
  return OffsetChange{.instant = absl::FromUnixSeconds(spans[span].begin),
                      .before = absl::Seconds(spans[span - 1].offset),
                      .after = absl::Seconds(spans[span].offset)};
}

const std::string& TzdataVersion() { return TheDatabase().version; }
const std::set<std::string, std::less<>>& TzdataNames() { return TheDatabase().names; }

}  // namespace escapement::cron
