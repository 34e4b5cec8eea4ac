// Draws crash images of the store for a night, or opens an image that was kept.
//
//   crash_main --images=20000 --first_seed=1     a tally; 102 images for each seed
//   crash_main --image=FOLDER                    how the store takes a kept image

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/str_cat.h"
#include "tests/crash/crash_campaign.h"
#include "tests/crash/crash_life.h"

ABSL_FLAG(uint64_t, images, 1000, "how many images to draw, at least");
ABSL_FLAG(uint64_t, first_seed, 1, "of the chains of lives");
ABSL_FLAG(std::string, keep_in, "/tmp/escapement-crash-failed", "where failing images go");
ABSL_FLAG(std::string, image, "", "open this kept image instead");

namespace escapement::crash {
namespace {

int OpenKept(const std::string& folder) {
  std::cout << std::ifstream(folder + "/why").rdbuf();
  Scratch scratch;
  WriteContent(ReadContent(folder + "/image"), scratch.path());
  ManualClock clock;
  clock.Advance(absl::Hours(1));
  auto store = kv::RocksKvStore::Open(StoreOptions(scratch.path()), clock);
  if (!store.ok()) {
    std::cout << "it does not open: " << store.status() << "\n";
    return 1;
  }
  const auto state = ReadState(**store);
  std::cout << "it opens with commit " << (*store)->info().seq << "\n";
  if (!state.ok()) {
    std::cout << "it cannot be read: " << state.status() << "\n";
    return 1;
  }
  for (size_t i = 0; i < state->size(); ++i) {
    if (!(*state)[i].empty())
      std::cout << "  " << kv::kColumnFamilyNames[i] << ": " << (*state)[i].size() << " rows\n";
  }
  return 0;
}

int Main() {
  if (const std::string image = absl::GetFlag(FLAGS_image); !image.empty()) return OpenKept(image);
  Tally tally;
  for (uint64_t seed = absl::GetFlag(FLAGS_first_seed); tally.images < absl::GetFlag(FLAGS_images);
       ++seed) {
    CampaignOptions options;
    options.seed = seed;
    options.keep_in = absl::GetFlag(FLAGS_keep_in);
    const Tally of_seed = RunCampaign(options);
    if (!of_seed.failures.empty())
      std::printf("seed %llu FAILED\n%s", static_cast<unsigned long long>(seed),
                  of_seed.Report().c_str());
    tally.Add(of_seed);
    if (of_seed.images == 0) break;  // no life reaches its first image
    if (seed % 10 == 0)
      std::printf("… %llu images\n", static_cast<unsigned long long>(tally.images));
    std::fflush(stdout);
  }
  std::printf("%s", tally.Report().c_str());
  return tally.failures.empty() ? 0 : 1;
}

}  // namespace
}  // namespace escapement::crash

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return escapement::crash::Main();
}
