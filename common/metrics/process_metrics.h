// ProcessMetrics: what the kernel says of this process, under the names that all clients of
// Prometheus use: process_cpu_seconds_total, process_resident_memory_bytes and so on
// (https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics).
//
// Threads: one makes and destroys it.

#ifndef COMMON_METRICS_PROCESS_METRICS_H_
#define COMMON_METRICS_PROCESS_METRICS_H_

#include <memory>
#include <string>

#include "common/metrics/metrics.h"

namespace escapement {

// The fields of /proc/self/stat that are used here.
struct ProcessStat {
  double cpu_seconds = 0;  // in user and kernel mode, of all threads
  double start_after_boot_seconds = 0;
  double virtual_bytes = 0;
  double resident_bytes = 0;
};

// Parses a line of /proc/PID/stat (proc(5)). False: it is not one.
bool ParseProcessStat(const std::string& line, double ticks_per_second, double page_bytes,
                      ProcessStat* stat);

class ProcessMetrics {
 public:
  // `metrics` must outlive it.
  explicit ProcessMetrics(Metrics& metrics);

 private:
  std::unique_ptr<Metrics::CollectorHandle> collector_;
};

}  // namespace escapement

#endif  // COMMON_METRICS_PROCESS_METRICS_H_
