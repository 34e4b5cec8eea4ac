#include "tests/bench/beds/cpu_quota.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"

namespace escapement::bench {
namespace {

constexpr int kPeriodMicros = 4000;

absl::Status Write(const std::string& file, const std::string& text) {
  std::ofstream out(file);
  out << text;
  if (out.flush()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(file, ": ", std::strerror(errno)));
}

// The folder of this process's group, which has the controller "cpu": that of version 1, or the one
// hierarchy of version 2.
std::string OwnFolder(bool& unified) {
  std::ifstream in("/proc/self/cgroup");
  std::string own;
  for (std::string line; std::getline(in, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    for (absl::string_view controller : absl::StrSplit(parts[1], ',')) {
      if (controller != "cpu") continue;
      unified = false;
      return absl::StrCat("/sys/fs/cgroup/cpu", parts[2]);
    }
    if (parts[1].empty()) own = absl::StrCat("/sys/fs/cgroup", parts[2]);
  }
  unified = true;
  return own;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CpuQuota>> CpuQuota::Make(absl::string_view name, double cores) {
  bool unified = false;
  const std::string parent = OwnFolder(unified);
  const std::string folder = absl::StrCat(parent, "/", name, "-", getpid());
  if (unified) RETURN_IF_ERROR(Write(parent + "/cgroup.subtree_control", "+cpu"));
  if (mkdir(folder.c_str(), 0755) != 0)
    return absl::UnavailableError(absl::StrCat(folder, ": ", std::strerror(errno)));
  std::unique_ptr<CpuQuota> quota(new CpuQuota(folder, parent));
  const auto micros = static_cast<int>(cores * kPeriodMicros);
  if (unified) {
    RETURN_IF_ERROR(Write(folder + "/cpu.max", absl::StrCat(micros, " ", kPeriodMicros)));
  } else {
    RETURN_IF_ERROR(Write(folder + "/cpu.cfs_period_us", absl::StrCat(kPeriodMicros)));
    RETURN_IF_ERROR(Write(folder + "/cpu.cfs_quota_us", absl::StrCat(micros)));
  }
  return quota;
}

CpuQuota::~CpuQuota() {
  std::ifstream in(folder_ + "/cgroup.procs");
  // A process that has ended by now cannot be moved, and need not be.
  for (pid_t pid = 0; in >> pid;) Write(parent_ + "/cgroup.procs", absl::StrCat(pid)).IgnoreError();
  rmdir(folder_.c_str());
}

absl::Status CpuQuota::Add(pid_t pid) const {
  return Write(folder_ + "/cgroup.procs", absl::StrCat(pid));
}

}  // namespace escapement::bench
