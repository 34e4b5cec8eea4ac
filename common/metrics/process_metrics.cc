#include "common/metrics/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

namespace escapement {
namespace {

std::string FirstLine(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Seconds since 1970 at which the machine was booted; 0: unknown.
double BootSeconds() {
  std::ifstream file("/proc/stat");
  std::string name;
  double value = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    if (words >> name >> value && name == "btime") return value;
  }
  return 0;
}

double OpenFiles() {
  std::error_code error;
  std::filesystem::directory_iterator files("/proc/self/fd", error);
  if (error) return 0;
  return static_cast<double>(std::distance(begin(files), end(files)));
}

}  // namespace

bool ParseProcessStat(const std::string& line, double ticks_per_second, double page_bytes,
                      ProcessStat* stat) {
  // The name of the program, in brackets, may hold blanks and brackets.
  const size_t name_end = line.rfind(") ");
  if (name_end == std::string::npos) return false;
  std::istringstream words(line.substr(name_end + 2));
  std::vector<std::string> fields;  // from the third on
  for (std::string word; words >> word;) fields.push_back(word);
  constexpr size_t kUtime = 11, kStime = 12, kStart = 19, kVsize = 20, kRss = 21;
  if (fields.size() <= kRss) return false;
  const auto number = [&fields](size_t field) {
    return std::strtod(fields[field].c_str(), nullptr);
  };
  stat->cpu_seconds = (number(kUtime) + number(kStime)) / ticks_per_second;
  stat->start_after_boot_seconds = number(kStart) / ticks_per_second;
  stat->virtual_bytes = number(kVsize);
  stat->resident_bytes = number(kRss) * page_bytes;
  return true;
}

ProcessMetrics::ProcessMetrics(Metrics& metrics) {
  Counter* cpu = metrics.GetCounter("process_cpu_seconds_total",
                                    "User and system CPU time spent, in seconds.");
  Gauge* start = metrics.GetGauge("process_start_time_seconds",
                                  "Start of the process, in seconds since 1970.");
  Gauge* virtual_bytes =
      metrics.GetGauge("process_virtual_memory_bytes", "Virtual memory of the process.");
  Gauge* resident_bytes =
      metrics.GetGauge("process_resident_memory_bytes", "Resident memory of the process.");
  Gauge* open_files = metrics.GetGauge("process_open_fds", "Open file descriptors.");
  Gauge* files_max = metrics.GetGauge("process_max_fds", "Most open file descriptors allowed.");
  const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  const double page = static_cast<double>(sysconf(_SC_PAGESIZE));
  const double boot = BootSeconds();
  collector_ = metrics.AddCollector([=] {
    ProcessStat now;
    if (ParseProcessStat(FirstLine("/proc/self/stat"), ticks, page, &now)) {
      cpu->Increment(std::max(0.0, now.cpu_seconds - cpu->Value()));
      start->Set(boot + now.start_after_boot_seconds);
      virtual_bytes->Set(now.virtual_bytes);
      resident_bytes->Set(now.resident_bytes);
    }
    open_files->Set(OpenFiles());
    rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) files_max->Set(static_cast<double>(limit.rlim_cur));
  });
}

}  // namespace escapement
