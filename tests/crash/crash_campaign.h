// CrashCampaign: seeds, lives, images. A seed is a chain of lives. The first life begins with an
// empty disk, each further one with an image of the life before. Images of every life are drawn and
// judged. If a life began with an image, half of its images are of the recovery itself.

#ifndef TESTS_CRASH_CRASH_CAMPAIGN_H_
#define TESTS_CRASH_CRASH_CAMPAIGN_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/crash/crash_image.h"
#include "tests/crash/recording_file_system.h"

namespace escapement::crash {

struct CampaignOptions {
  uint64_t seed = 1;
  int lives = 3;
  int images_of_each = 34;
  int bursts = 60;
  DiskFaults faults;    // may be null
  std::string keep_in;  // folder for failing images; "": they are not kept
};

struct Tally {
  uint64_t lives = 0;
  uint64_t operations = 0;
  uint64_t commits = 0;
  uint64_t images = 0;
  uint64_t of_recoveries = 0;
  uint64_t with_open_data = 0;   // images where a file had unsynced data
  uint64_t with_open_names = 0;  // images where a name was not synced
  std::array<std::array<uint64_t, kTailRules>, kNameRules> by_rule = {};
  // How many commits after the last answer were recovered: 0, 1, 2-5, 6-12, more.
  std::array<uint64_t, 5> beyond = {};
  uint64_t refused = 0;
  uint64_t refused_garbage = 0;  // see CrashImage::garbage_in_manifest; no fault of the store
  uint64_t wrong = 0;
  std::vector<std::string> failures;  // each with the place where its image is kept

  void Add(const Tally& other);
  std::string Report() const;
};

Tally RunCampaign(const CampaignOptions& options);

}  // namespace escapement::crash

#endif  // TESTS_CRASH_CRASH_CAMPAIGN_H_
