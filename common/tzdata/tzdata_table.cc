#include "common/tzdata/tzdata_table.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/hash.h"
#include "common/base/key_codec.h"
#include "common/kv/group_parts.h"

namespace escapement::tzdata {

namespace {

using cron::OffsetSpan;

constexpr size_t kHeadBytes = 20, kChangeBytes = 12;
// No zone has more changes of offset in the stored years.
constexpr size_t kChangesMax = 10'000;

// The span that holds `instant`.
size_t SpanAt(const std::vector<OffsetSpan>& spans, int64_t instant) {
  const auto after =
      std::upper_bound(spans.begin(), spans.end(), instant,
                       [](int64_t t, const OffsetSpan& span) { return t < span.begin; });
  return static_cast<size_t>(after - spans.begin()) - 1;
}

int64_t ReadSeconds(absl::string_view bytes) {
  return static_cast<int64_t>(ReadBigEndian<uint64_t>(bytes));
}

int64_t ReadOffset(absl::string_view bytes) {
  return static_cast<int32_t>(ReadBigEndian<uint32_t>(bytes));
}

}  // namespace

ZoneRules RulesOf(const cron::Zone& zone, absl::Time begin, absl::Time end) {
  const int64_t from = absl::ToUnixSeconds(begin), to = absl::ToUnixSeconds(end);
  ZoneRules rules{.begin = absl::FromUnixSeconds(from), .end = absl::FromUnixSeconds(to)};
  size_t span = zone.SpanAt(from);
  rules.spans.push_back({.offset = zone.spans()[span].offset});
  for (++span; span < zone.spans().size() && zone.spans()[span].begin < to; ++span)
    rules.spans.push_back(zone.spans()[span]);
  return rules;
}

bool SameRules(const ZoneRules& a, const ZoneRules& b, absl::Time end) {
  end = std::min({a.end, b.end, end});
  int64_t at = absl::ToUnixSeconds(std::max(a.begin, b.begin));
  if (absl::FromUnixSeconds(at) >= end) return true;
  size_t i = SpanAt(a.spans, at), j = SpanAt(b.spans, at);
  while (a.spans[i].offset == b.spans[j].offset) {
    // Go on to the next change of either zone.
    const bool more_a = i + 1 < a.spans.size(), more_b = j + 1 < b.spans.size();
    if (!more_a && !more_b) return true;
    at = std::min(more_a ? a.spans[i + 1].begin : b.spans[j + 1].begin,
                  more_b ? b.spans[j + 1].begin : a.spans[i + 1].begin);
    if (absl::FromUnixSeconds(at) >= end) return true;
    if (more_a && a.spans[i + 1].begin == at) ++i;
    if (more_b && b.spans[j + 1].begin == at) ++j;
  }
  return false;
}

std::string EncodeRules(const ZoneRules& rules) {
  std::string out;
  AppendBigEndian(&out, static_cast<uint64_t>(absl::ToUnixSeconds(rules.begin)));
  AppendBigEndian(&out, static_cast<uint64_t>(absl::ToUnixSeconds(rules.end)));
  AppendBigEndian(&out, static_cast<uint32_t>(rules.spans[0].offset));
  for (size_t i = 1; i < rules.spans.size(); ++i) {
    AppendBigEndian(&out, static_cast<uint64_t>(rules.spans[i].begin));
    AppendBigEndian(&out, static_cast<uint32_t>(rules.spans[i].offset));
  }
  return out;
}

std::optional<ZoneRules> DecodeRules(absl::string_view bytes) {
  if (bytes.size() < kHeadBytes || (bytes.size() - kHeadBytes) % kChangeBytes != 0 ||
      bytes.size() > kHeadBytes + kChangeBytes * kChangesMax)
    return std::nullopt;
  ZoneRules rules{.begin = absl::FromUnixSeconds(ReadSeconds(bytes)),
                  .end = absl::FromUnixSeconds(ReadSeconds(bytes.substr(8)))};
  rules.spans.push_back({.offset = ReadOffset(bytes.substr(16))});
  for (bytes.remove_prefix(kHeadBytes); !bytes.empty(); bytes.remove_prefix(kChangeBytes)) {
    const OffsetSpan span{.begin = ReadSeconds(bytes), .offset = ReadOffset(bytes.substr(8))};
    if (span.begin <= rules.spans.back().begin) return std::nullopt;
    rules.spans.push_back(span);
  }
  return rules;
}

namespace {

constexpr uint32_t kZonesMax = 10'000;

}  // namespace

std::string ZoneRulesKey(absl::string_view zone) { return absl::StrCat(kZonePrefix, zone); }

std::string FrontierKey(uint16_t partition) {
  return KeyWriter("tz_frontier/").U16(partition).Take();
}

std::string EncodeSwitch(const Switch& change) {
  KeyWriter out;
  out.U64(0).Text(change.old_revision).Text(change.new_revision);
  out.U32(static_cast<uint32_t>(change.before.size()));
  for (const auto& [zone, rules] : change.before) out.Text(zone).Text(EncodeRules(rules));
  return out.Take();
}

std::optional<Switch> DecodeSwitch(absl::string_view value) {
  KeyReader in(value);
  Switch change;
  change.time = absl::FromUnixMicros(static_cast<int64_t>(in.U64()));
  change.old_revision = in.Text();
  change.new_revision = in.Text();
  const uint32_t zones = in.U32();
  if (!in.ok() || zones > kZonesMax) return std::nullopt;
  for (uint32_t i = 0; i < zones; ++i) {
    std::string zone = in.Text();
    std::optional<ZoneRules> rules = DecodeRules(in.Text());
    if (!in.ok() || !rules) return std::nullopt;
    change.before.emplace(std::move(zone), *std::move(rules));
  }
  if (!in.done()) return std::nullopt;
  return change;
}

std::string EncodeFrontier(const PartitionFrontier& frontier) {
  return KeyWriter()
      .Text(frontier.revision)
      .Time(frontier.emitted_to)
      .Time(frontier.planned_to)
      .Take();
}

std::optional<PartitionFrontier> DecodeFrontier(absl::string_view value) {
  KeyReader in(value);
  PartitionFrontier frontier;
  frontier.revision = in.Text();
  frontier.emitted_to = in.Time();
  frontier.planned_to = in.Time();
  if (!in.done()) return std::nullopt;
  return frontier;
}

kv::Condition RevisionIs(absl::string_view revision) {
  return kv::ValueIs(kv::ColumnFamily::kMeta, std::string(kRevisionKey), std::string(revision));
}

namespace {

std::vector<cron::Zone> LoadAll() {
  std::vector<cron::Zone> zones;
  for (const std::string& name : cron::TzdataNames()) {
    // Some distributions ship the older names in a separate package.
    if (auto zone = cron::Zone::Load(name); zone.ok()) zones.push_back(*std::move(zone));
  }
  return zones;
}

}  // namespace

Database ThisMachine() {
  Database database{.revision = cron::TzdataVersion(), .zones = LoadAll};
  if (database.revision == kUnknownVersion) database.revision = RevisionOf(LoadAll());
  return database;
}

std::string RevisionOf(const std::vector<cron::Zone>& zones) {
  const absl::Time begin = absl::FromUnixSeconds(cron::kLocalBegin) - absl::Hours(24 * 365);
  const absl::Time end = absl::FromUnixSeconds(cron::kLocalEnd);
  KeyWriter all;
  for (const cron::Zone& zone : zones)
    all.Text(zone.name()).Text(EncodeRules(RulesOf(zone, begin, end)));
  return absl::StrCat(kUnknownVersion, "-", absl::Hex(StableHash64(all.Take()), absl::kZeroPad16));
}

namespace {

// Year, number of letters, letters, rest: these compare in the order of revisions.
using Parts = std::tuple<std::string, size_t, std::string, std::string>;

std::optional<Parts> Split(absl::string_view revision) {
  size_t year = 0;
  while (year < revision.size() && absl::ascii_isdigit(revision[year])) ++year;
  size_t letters = year;
  while (letters < revision.size() && absl::ascii_islower(revision[letters])) ++letters;
  if (year != 4 || letters == year) return std::nullopt;
  return Parts(revision.substr(0, year), letters - year, revision.substr(year, letters - year),
               revision.substr(letters));
}

}  // namespace

bool Newer(absl::string_view a, absl::string_view b) {
  const std::optional<Parts> left = Split(a), right = Split(b);
  return left.has_value() && right.has_value() && *left > *right;
}

}  // namespace escapement::tzdata
