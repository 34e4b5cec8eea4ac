// Makes random calls of the whole public API against a standalone process, for a night. Prints a
// tally and the findings.
//
//   api_fuzz_main --bin=FOLDER --seeds=100 --first_seed=1 --calls=2000

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "tests/api_fuzz/fuzz_run.h"

ABSL_FLAG(std::string, bin, "", "folder with services/standalone/standalone");
ABSL_FLAG(uint64_t, seeds, 10, "how many seeds; each gets a new platform");
ABSL_FLAG(uint64_t, first_seed, 1, "the first of them");
ABSL_FLAG(uint64_t, calls, 2000, "random calls of each seed");

namespace escapement::api_fuzz {
namespace {

// Prints the findings of a seed and returns their number. A platform that does not start or end
// well counts as one.
size_t RunSeed(uint64_t seed, std::map<std::string, int>& tally) {
  std::string folder = (std::filesystem::temp_directory_path() / "api_fuzz.XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 1;
  auto bed = Bed::Start(absl::GetFlag(FLAGS_bin), folder);
  if (!bed.ok()) {
    std::cout << bed.status() << "\n";
    return 1;
  }
  FuzzRun run((*bed)->api(), (*bed)->OptionsFor(seed, absl::GetFlag(FLAGS_calls)));
  size_t found = 0;
  for (const std::string& finding : run.Run()) {
    std::cout << finding << std::endl;
    ++found;
  }
  for (const auto& [ending, count] : run.tally()) tally[ending] += count;
  if (const std::string wrong = (*bed)->End(); !wrong.empty()) {
    std::cout << "seed " << seed << ": " << wrong << ", see " << folder << std::endl;
    return found + 1;
  }
  std::filesystem::remove_all(folder);
  return found;
}

int Main() {
  std::map<std::string, int> tally;
  size_t found = 0;
  const uint64_t first = absl::GetFlag(FLAGS_first_seed);
  const uint64_t seeds = absl::GetFlag(FLAGS_seeds);
  for (uint64_t seed = first; seed < first + seeds; ++seed) found += RunSeed(seed, tally);
  for (const auto& [ending, count] : tally) std::cout << count << "\t" << ending << "\n";
  std::cout << seeds << " seeds, " << found << " findings\n";
  return found == 0 ? 0 : 1;
}

}  // namespace
}  // namespace escapement::api_fuzz

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return escapement::api_fuzz::Main();
}
