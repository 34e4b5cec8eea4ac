// Runs the demo (demo.h); tools/demo builds what it needs. Exit code 0 only if everything held.

#include <cstdio>

#include "absl/flags/flag.h"
#include "common/process/flag_sources.h"
#include "tests/e2e/demo.h"

ABSL_FLAG(std::string, bin, "", "folder of the built binaries");
ABSL_FLAG(std::string, folder, "", "empty folder for data and logs");
ABSL_FLAG(int64_t, one_off_events, 1000, "one-off events of (b)");
ABSL_FLAG(int64_t, batch_events, 100'000, "events of each of the batches of (c) and (d)");
ABSL_FLAG(int64_t, throttled_events, 10'000, "events of each of the batches of (e) and (f)");
ABSL_FLAG(int, kills, 3, "times that handler and emitter are killed in (d)");

int main(int argc, char** argv) {
  auto applied =
      escapement::ApplyFlags({{argv + 1, argv + argc}, escapement::ProcessEnvironment()});
  if (applied.help) {
    std::printf("%s", escapement::FlagsHelp().c_str());
    return 0;
  }
  if (absl::GetFlag(FLAGS_bin).empty() || absl::GetFlag(FLAGS_folder).empty()) {
    applied.errors.push_back("--bin and --folder are required");
  }
  for (const std::string& error : applied.errors) std::fprintf(stderr, "demo: %s\n", error.c_str());
  if (!applied.errors.empty()) return 2;
  const auto held =
      escapement::e2e::RunDemo({.bin = absl::GetFlag(FLAGS_bin),
                                .folder = absl::GetFlag(FLAGS_folder),
                                .one_off_events = absl::GetFlag(FLAGS_one_off_events),
                                .batch_events = absl::GetFlag(FLAGS_batch_events),
                                .throttled_events = absl::GetFlag(FLAGS_throttled_events),
                                .kills = absl::GetFlag(FLAGS_kills)});
  if (!held.ok()) {
    std::fprintf(stderr, "demo: %s\n", held.status().ToString().c_str());
    return 1;
  }
  return *held ? 0 : 1;
}
