// Does the cost of emission follow what is due, whatever is stored?
//
//   tools/dev bench index [--sizes=10000,100000,1000000] [--due=600] [--windows=12] [--json]
//
// Makes one store for each size through the master's API, then emits the same windows over all of
// them in turn: the same number of occurrences is due in each. Beside each window: the bare scan of
// the same ranges of the index, in the same run. Data are in a temporary folder, which is removed.
// Exit code: 0, or 1 if something could not be measured.

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/bench/figures.h"
#include "tests/bench/stored_schedules.h"

ABSL_FLAG(std::string, bin, ".", "not used: everything runs in this process");
ABSL_FLAG(std::vector<std::string>, sizes, std::vector<std::string>({"10000", "100000", "1000000"}),
          "stored schedules");
ABSL_FLAG(int64_t, due, 600, "occurrences in each window");
ABSL_FLAG(int, windows, 12, "so many, a minute each");
ABSL_FLAG(bool, json, false, "print JSON instead of a table");

namespace escapement::bench {
namespace {

struct Stored {
  int64_t size = 0;
  std::unique_ptr<StoredSchedules> schedules;
};

absl::Status Create(Stored& stored, Figures& figures) {
  const absl::StatusOr<std::vector<double>> tenths = stored.schedules->Create();
  if (!tenths.ok()) return tenths.status();
  double seconds = 0;
  for (const double tenth : *tenths) seconds += tenth;
  figures.Add(absl::StrCat("creating ", stored.size), "/s",
              static_cast<double>(stored.size) / seconds);
  figures.Add(absl::StrCat("creating ", stored.size, ": last tenth / second tenth"), "×",
              tenths->back() / (*tenths)[1], {.at_most = 1.5});
  return absl::OkStatus();
}

absl::Status Emit(Stored& stored, int window, Figures& figures, double* seconds) {
  const absl::StatusOr<StoredSchedules::Emitted> emitted = stored.schedules->Emit(window);
  if (!emitted.ok()) return emitted.status();
  const double due = static_cast<double>(absl::GetFlag(FLAGS_due));
  if (emitted->occurrences != absl::GetFlag(FLAGS_due)) {
    return absl::InternalError(absl::StrCat("window ", window, " of ", stored.size,
                                            " schedules: ", emitted->occurrences, " occurrences"));
  }
  const std::string name = absl::StrCat(stored.size, " stored: ");
  figures.Add(name + "rows read per row emitted", "", static_cast<double>(emitted->rows_read) / due,
              {.at_most = 1.2});
  figures.Add(name + "a window", "ms", emitted->seconds * 1e3);
  figures.Add(name + "bare scan of its ranges", "ms", emitted->raw_seconds * 1e3);
  *seconds = emitted->seconds;
  return absl::OkStatus();
}

absl::Status Run(const std::string& folder, Figures& figures) {
  std::vector<Stored> all;
  for (const std::string& text : absl::GetFlag(FLAGS_sizes)) {
    Stored stored;
    if (!absl::SimpleAtoi(text, &stored.size)) return absl::InvalidArgumentError(text);
    auto made = StoredSchedules::Make({.folder = absl::StrCat(folder, "/", text),
                                       .schedules = stored.size,
                                       .due_per_window = absl::GetFlag(FLAGS_due),
                                       .windows = absl::GetFlag(FLAGS_windows)});
    if (!made.ok()) return made.status();
    stored.schedules = *std::move(made);
    if (absl::Status status = Create(stored, figures); !status.ok()) return status;
    all.push_back(std::move(stored));
  }
  for (int window = 0; window < absl::GetFlag(FLAGS_windows); ++window) {
    double first = 0;
    for (Stored& stored : all) {
      double seconds = 0;
      if (absl::Status status = Emit(stored, window, figures, &seconds); !status.ok())
        return status;
      // The first window also warms caches.
      if (&stored == &all.front()) {
        first = seconds;
      } else if (window > 0) {
        figures.Add(
            absl::StrCat(stored.size, " stored: a window / with ", all.front().size, " stored"),
            "×", seconds / first, {.at_most = 1.3});
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace escapement::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Emission over few and many stored schedules.");
  absl::ParseCommandLine(argc, argv);
  using namespace escapement::bench;
  std::string folder =
      (std::filesystem::temp_directory_path() / "escapement-index-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    std::cerr << "no temporary folder\n";
    return 1;
  }
  Figures figures;
  const absl::Status status = Run(folder, figures);
  std::filesystem::remove_all(folder);
  std::cout << (absl::GetFlag(FLAGS_json) ? figures.Json() : figures.Table());
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() && figures.complete() ? 0 : 1;
}
