// This machine's time zone database, as it is compared with the store's.
//
// Threads: any.

#ifndef COMMON_TZDATA_DATABASE_H_
#define COMMON_TZDATA_DATABASE_H_

#include <functional>
#include <string>
#include <vector>

#include "common/cron/zone.h"

namespace escapement::tzdata {

struct Database {
  std::string revision;
  // All zones, in the order of their names. Loading them takes some 100 ms and 15 MB that stay:
  // only whoever brings a revision into force asks for it.
  std::function<std::vector<cron::Zone>()> zones;
};

// Its revision is the version of the files (cron::TzdataVersion); if they do not say one, the zones
// are loaded and hashed.
Database ThisMachine();

// "unknown-" and 16 hex digits: XXH3 over all offsets of the years 1969 to 2200.
std::string RevisionOf(const std::vector<cron::Zone>& zones);

}  // namespace escapement::tzdata

#endif  // COMMON_TZDATA_DATABASE_H_
