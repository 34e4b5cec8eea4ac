// CpuQuota: a control group of Linux that bounds how much processor time some processes use.
//
// Threads: one at a time.

#ifndef TESTS_BENCH_BEDS_CPU_QUOTA_H_
#define TESTS_BENCH_BEDS_CPU_QUOTA_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace escapement::bench {

class CpuQuota {
 public:
  // Its processes together use at most `cores` cores (at least 0.25) in each period of 4 ms, so
  // none of them is stopped for longer. UNAVAILABLE: the user cannot make control groups here.
  static absl::StatusOr<std::unique_ptr<CpuQuota>> Make(absl::string_view name, double cores);
  // The processes go back to the group of this process.
  ~CpuQuota();
  CpuQuota(const CpuQuota&) = delete;
  CpuQuota& operator=(const CpuQuota&) = delete;

  // The process, with all its threads, and the children that it makes from now on.
  absl::Status Add(pid_t pid) const;

 private:
  CpuQuota(std::string folder, std::string parent)
      : folder_(std::move(folder)), parent_(std::move(parent)) {}

  const std::string folder_;
  const std::string parent_;
};

}  // namespace escapement::bench

#endif  // TESTS_BENCH_BEDS_CPU_QUOTA_H_
