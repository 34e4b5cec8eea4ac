#include "common/tzdata/tzdata_table.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/kv/group_parts.h"

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

}  // namespace escapement::tzdata
