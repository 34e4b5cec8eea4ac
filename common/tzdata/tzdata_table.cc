#include "common/tzdata/tzdata_table.h"

#include <cstddef>
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
#include "common/tzdata/zone_rules.h"

namespace escapement::tzdata {

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
