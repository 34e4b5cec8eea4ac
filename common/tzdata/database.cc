#include "common/tzdata/database.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/key_codec.h"
#include "common/base/stable_hash.h"
#include "common/tzdata/revision.h"
#include "common/tzdata/zone_rules.h"

namespace escapement::tzdata {
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

}  // namespace escapement::tzdata
