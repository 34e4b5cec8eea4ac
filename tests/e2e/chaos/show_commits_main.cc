// Prints the commits of a run's store, one a line, to look into a failed run: show_commits
// --folder=FOLDER_OF_THE_RUN [--containing=UID_OR_OCCURRENCE]

#include <cstdio>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/match.h"
#include "tests/e2e/chaos/base/commit_file.h"
#include "tests/simulation/record/commit_log.h"

ABSL_FLAG(std::string, folder, "", "of a run: holds data and commits");
ABSL_FLAG(std::string, containing, "", "only commits whose line has this in it");

int main(int argc, char** argv) {
  using namespace escapement;
  absl::ParseCommandLine(argc, argv);
  const std::string folder = absl::GetFlag(FLAGS_folder);
  const auto state = chaos::ReadEndState(folder + "/data");
  if (!state.ok()) return std::printf("%s\n", state.status().ToString().c_str()), 1;
  const auto files = chaos::ReadCommitFiles(folder + "/commits", state->seq);
  if (!files.ok()) return std::printf("%s\n", files.status().ToString().c_str()), 1;
  for (const chaos::LoggedCommit& commit : files->commits) {
    const std::string text = simulation::DescribeCommit(commit.record);
    if (!absl::StrContains(text, absl::GetFlag(FLAGS_containing))) continue;
    std::printf("%s %s\n", absl::FormatTime(commit.time, absl::UTCTimeZone()).c_str(),
                text.c_str());
  }
  return 0;
}
