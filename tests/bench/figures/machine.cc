#include "tests/bench/figures/machine.h"

#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "grpcpp/grpcpp.h"
#include "rocksdb/version.h"

namespace escapement::bench {

namespace {

std::string CpuModel() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (!absl::StartsWith(line, "model name")) continue;
    return std::string(absl::StripAsciiWhitespace(line.substr(line.find(':') + 1)));
  }
  return "unknown";
}

// Seconds in which processors were not idle, summed over all of them, since the machine's start.
double BusySeconds() {
  std::ifstream in("/proc/stat");
  std::string cpu;
  double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, interrupts = 0, soft = 0,
         stolen = 0;
  in >> cpu >> user >> nice >> system >> idle >> waiting >> interrupts >> soft >> stolen;
  return (user + nice + system + interrupts + soft + stolen) /
         static_cast<double>(sysconf(_SC_CLK_TCK));
}

double SecondsOf(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

double OwnSeconds() {
  double seconds = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage = {};
    getrusage(who, &usage);
    seconds += SecondsOf(usage.ru_utime) + SecondsOf(usage.ru_stime);
  }
  return seconds;
}

}  // namespace

Machine ThisMachine() {
  utsname kernel = {};
  uname(&kernel);
  return {.cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)),
          .model = CpuModel(),
          .memory_gib = static_cast<double>(ProcValue("/proc/meminfo", "MemTotal")) / (1 << 20),
          .kernel = kernel.release,
          .rocksdb = absl::StrCat(ROCKSDB_MAJOR, ".", ROCKSDB_MINOR, ".", ROCKSDB_PATCH),
          .grpc = grpc::Version()};
}

Quietness::Quietness() : begin_(absl::Now()), busy_(BusySeconds()), own_(OwnSeconds()) {}

double Quietness::OthersShare() const {
  const double all =
      absl::ToDoubleSeconds(elapsed()) * static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
  return std::max(0.0, (BusySeconds() - busy_) - (OwnSeconds() - own_)) / all;
}

absl::Duration Quietness::elapsed() const { return absl::Now() - begin_; }

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

uint64_t ProportionalBytesOf(pid_t pid) {
  return ProcValue(absl::StrCat("/proc/", pid, "/smaps_rollup"), "Pss") * 1024;
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
