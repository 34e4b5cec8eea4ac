// Metrics: the counters, gauges and histograms of one process (Counter, Gauge, Histogram).
// ProcessMetrics: what the kernel says of the process.

#ifndef COMMON_METRICS_METRICS_H_
#define COMMON_METRICS_METRICS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace escapement {

class Counter {
 public:
  virtual ~Counter() = default;
  virtual void Increment(double by = 1) = 0;  // by >= 0
  virtual double Value() const = 0;
};

class Gauge {
 public:
  virtual ~Gauge() = default;
  virtual void Set(double value) = 0;
  virtual void Add(double by) = 0;  // may be negative
  virtual double Value() const = 0;
};

class Histogram {
 public:
  virtual ~Histogram() = default;
  // Counts `value` as observed `times` times.
  virtual void Observe(double value, uint64_t times = 1) = 0;
};

using MetricLabels = std::map<std::string, std::string>;

// Labels that a scrape gives each target, by prometheus-operator's ServiceMonitor for example. A
// label of ours with such a name would become `exported_<name>`, and whoever asks for it would read
// the target's.
inline constexpr absl::string_view kTargetLabels[] = {
    "cluster", "container", "endpoint", "instance",   "job",
    "node",    "namespace", "pod",      "prometheus", "service"};

// Bucket bounds in seconds, 0.1 ms to 60 s: for latencies and lateness.
std::vector<double> LatencyBuckets();

// Metrics: the counters, gauges and histograms of one process, in Prometheus' text format.
//
// Each service declares its metrics in one struct, `services/<service>/metrics.{h,cc}`: a reference
// for each, and in the constructor its name, its help text and its labels. The code that counts
// calls `metrics.claims.Increment()`.
//
// Names are `escapement_<service>_<what>_<unit>` (unit: seconds, bytes, total for counters). A
// child, that is a name with its label values, is looked up once when a service is built, and
// updated through its pointer afterwards; never look one up per event, and never put an id into a
// label. No label is one of kTargetLabels.
//
// Threads: everything may be called from any thread, Counter, Gauge and Histogram included; updates
// do not lock.
class Metrics {
 public:
  Metrics();
  // The metrics of `whole`. Each metric made through this object also gets `labels`.
  Metrics(const Metrics& whole, MetricLabels labels);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // The child of `name` with `labels`; the same pointer for the same pair, owned by this object.
  // One name keeps one kind and one help text: the first call's. Ends the process if a label is one
  // of kTargetLabels.
  Counter* GetCounter(const std::string& name, const std::string& help,
                      const MetricLabels& labels = {});
  Gauge* GetGauge(const std::string& name, const std::string& help,
                  const MetricLabels& labels = {});
  // Ends the child, whose pointer must not be used any more. For labels that follow a state.
  void RemoveGauge(const std::string& name, const MetricLabels& labels);
  Histogram* GetHistogram(const std::string& name, const std::string& help,
                          std::vector<double> buckets, const MetricLabels& labels = {});

  // `collect` runs before every Serialize, to set gauges that are cheaper to ask for than to keep.
  // It is forgotten when the returned handle is destroyed (which waits for a running one).
  class CollectorHandle;
  std::unique_ptr<CollectorHandle> AddCollector(std::function<void()> collect);

  // For code that is written against prometheus-cpp.
  std::shared_ptr<prometheus::Registry> registry() const;

  // The text of /metrics (format 0.0.4).
  std::string Serialize() const;

 private:
  struct State;
  MetricLabels With(MetricLabels labels) const;

  std::shared_ptr<State> state_;
  const MetricLabels labels_;
};

class Metrics::CollectorHandle {
 public:
  CollectorHandle(std::shared_ptr<State> state, int id);
  ~CollectorHandle();

 private:
  std::shared_ptr<State> state_;
  int id_;
};

// The fields of /proc/self/stat that are used here.
struct ProcessStat {
  double cpu_seconds = 0;  // in user and kernel mode, of all threads
  double start_after_boot_seconds = 0;
  double virtual_bytes = 0;
  double resident_bytes = 0;
};

// Parses a line of /proc/PID/stat (proc(5)). Returns false if the text is not such a line.
bool ParseProcessStat(const std::string& line, double ticks_per_second, double page_bytes,
                      ProcessStat* stat);

// ProcessMetrics: what the kernel says of this process, under the names that all clients of
// Prometheus use: process_cpu_seconds_total, process_resident_memory_bytes and so on
// (https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics).
//
// Threads: one makes and destroys it.
class ProcessMetrics {
 public:
  // `metrics` must outlive it.
  explicit ProcessMetrics(Metrics& metrics);

 private:
  std::unique_ptr<Metrics::CollectorHandle> collector_;
};

}  // namespace escapement

#endif  // COMMON_METRICS_METRICS_H_
