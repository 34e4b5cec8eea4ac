// Prints for each mutant how many seeds it takes to be caught, and by which rule.
//
//   mutants_main                        all of them
//   mutants_main --only=handler --seeds=20 --what

#include <cstdio>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "tests/simulation/mutants/mutants.h"

ABSL_FLAG(std::string, only, "", "only mutants whose name contains this");
ABSL_FLAG(int, seeds, 0, "try so many seeds (0: as many as the mutant may take)");
ABSL_FLAG(bool, what, false, "print what was found first");

namespace escapement::simulation {
namespace {

int Main() {
  int missed = 0;
  for (const Mutant& mutant : AllMutants()) {
    if (!absl::StrContains(mutant.name, absl::GetFlag(FLAGS_only))) continue;
    const absl::Time begin = absl::Now();
    const int seeds = absl::GetFlag(FLAGS_seeds);
    const Catch caught = Hunt(mutant, seeds > 0 ? seeds : mutant.seeds_max);
    std::printf("%s, %.1f s\n", Describe(mutant, caught).c_str(),
                absl::ToDoubleSeconds(absl::Now() - begin));
    if (absl::GetFlag(FLAGS_what) && !caught.what.empty())
      std::printf("  %s\n", caught.what.c_str());
    std::fflush(stdout);
    missed += caught.rule.empty() ? 1 : 0;
  }
  std::printf("%d not caught\n", missed);
  return missed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace escapement::simulation

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return escapement::simulation::Main();
}
