// This machine's time zone database, in the form that is compared with the store's.
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
  // All zones, in the order of their names. Loading them takes some 100 ms, and 15 MB that stay in
  // memory. Only a process that brings a revision into force needs them.
  std::function<std::vector<cron::Zone>()> zones;
};

// The revision is the version in the files (cron::TzdataVersion). If the files have none, all zones
// are loaded and hashed.
Database ThisMachine();

// "unknown-" and 16 hex digits: XXH3 over all offsets of the years 1969 to 2200.
std::string RevisionOf(const std::vector<cron::Zone>& zones);

}  // namespace escapement::tzdata

#endif  // COMMON_TZDATA_DATABASE_H_
