#include "tests/bench/figures/machine.h"

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "grpcpp/grpcpp.h"
#include "rocksdb/version.h"
#include "tests/bench/figures/process_stats.h"

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

}  // namespace escapement::bench
