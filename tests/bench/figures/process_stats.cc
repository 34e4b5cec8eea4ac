#include "tests/bench/figures/process_stats.h"

#include <time.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"

namespace escapement::bench {

uint64_t ProcValue(const std::string& path, absl::string_view name) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    absl::string_view rest = line;
    if (!absl::ConsumePrefix(&rest, name) || !absl::ConsumePrefix(&rest, ":")) continue;
    rest = absl::StripAsciiWhitespace(rest);
    uint64_t value = 0;
    if (absl::SimpleAtoi(rest.substr(0, rest.find(' ')), &value)) return value;
  }
  return 0;
}

uint64_t ResidentBytesOf(pid_t pid) {
  return ProcValue(absl::StrCat("/proc/", pid, "/status"), "VmRSS") * 1024;
}

double CpuSecondsOf(pid_t pid) {
  clockid_t clock = 0;
  timespec used = {};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0) return 0;
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

absl::Status AwaitIdle(absl::FunctionRef<double()> cpu_seconds, double share,
                       absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (true) {
    const double before = cpu_seconds();
    absl::SleepFor(absl::Seconds(1));
    const double used = cpu_seconds() - before;
    if (used < share) return absl::OkStatus();
    if (absl::Now() > deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("still at work: ", used, " s of processor time in the last second"));
    }
  }
}

uint64_t FolderBytes(const std::string& folder) {
  uint64_t bytes = 0;
  std::error_code error;
  for (auto entry = std::filesystem::recursive_directory_iterator(folder, error);
       entry != std::filesystem::recursive_directory_iterator(); entry.increment(error)) {
    // A file may be deleted while its size is read.
    std::error_code gone;
    const uint64_t size = entry->is_regular_file(gone) ? entry->file_size(gone) : 0;
    if (!gone) bytes += size;
  }
  return bytes;
}

}  // namespace escapement::bench
