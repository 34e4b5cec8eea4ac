#include "common/metrics/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "common/base/check.h"

namespace escapement {

namespace {

class RegisteredCounter final : public Counter {
 public:
  explicit RegisteredCounter(prometheus::Counter& child) : child_(child) {}
  void Increment(double by) override { child_.Increment(by); }
  double Value() const override { return child_.Value(); }

 private:
  prometheus::Counter& child_;
};

class RegisteredGauge final : public Gauge {
 public:
  RegisteredGauge(prometheus::Family<prometheus::Gauge>& family, const MetricLabels& labels)
      : family_(family), child_(family.Add(labels)) {}
  ~RegisteredGauge() override { family_.Remove(&child_); }
  void Set(double value) override { child_.Set(value); }
  void Add(double by) override { child_.Increment(by); }
  double Value() const override { return child_.Value(); }

 private:
  prometheus::Family<prometheus::Gauge>& family_;
  prometheus::Gauge& child_;
};

class RegisteredHistogram final : public Histogram {
 public:
  RegisteredHistogram(prometheus::Histogram& child, std::vector<double> bounds)
      : child_(child), bounds_(std::move(bounds)) {}
  void Observe(double value, uint64_t times) override {
    if (times == 1) return child_.Observe(value);
    std::vector<double> increments(bounds_.size() + 1);
    const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
    increments[static_cast<size_t>(bucket)] = static_cast<double>(times);
    child_.ObserveMultiple(increments, value * static_cast<double>(times));
  }

 private:
  prometheus::Histogram& child_;
  const std::vector<double> bounds_;
};

using ChildKey = std::pair<std::string, MetricLabels>;

ChildKey KeyOf(const std::string& name, const MetricLabels& labels) {
  for (const absl::string_view reserved : kTargetLabels)
    CHECK(!labels.contains(std::string(reserved))) << name << " has the label " << reserved;
  return {name, labels};
}

}  // namespace

struct Metrics::State {
  std::shared_ptr<prometheus::Registry> registry =
      std::make_shared<prometheus::Registry>(prometheus::Registry::InsertBehavior::Merge);
  absl::Mutex mutex;
  std::map<ChildKey, std::unique_ptr<Counter>> counters ABSL_GUARDED_BY(mutex);
  std::map<ChildKey, std::unique_ptr<Gauge>> gauges ABSL_GUARDED_BY(mutex);
  std::map<ChildKey, std::unique_ptr<Histogram>> histograms ABSL_GUARDED_BY(mutex);
  std::map<std::string, std::string> help ABSL_GUARDED_BY(mutex);

  // A lock of its own: a collector may look up and set children.
  absl::Mutex collect_mutex;
  std::map<int, std::function<void()>> collectors ABSL_GUARDED_BY(collect_mutex);
  int next_collector ABSL_GUARDED_BY(collect_mutex) = 1;

  // The registry counts a family with another help text as another family of the same name.
  const std::string& FirstHelp(const std::string& name, const std::string& text)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return help.emplace(name, text).first->second;
  }
};

std::vector<double> LatencyBuckets() {
  return {0.0001, 0.00025, 0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.025,
          0.05,   0.1,     0.25,   0.5,   1,     2.5,   5,     10,     30,   60};
}

Metrics::Metrics() : state_(std::make_shared<State>()) {}
Metrics::Metrics(const Metrics& whole, MetricLabels labels)
    : state_(whole.state_), labels_(whole.With(std::move(labels))) {}
Metrics::~Metrics() = default;

MetricLabels Metrics::With(MetricLabels labels) const {
  labels.insert(labels_.begin(), labels_.end());
  return labels;
}

Counter* Metrics::GetCounter(const std::string& name, const std::string& help,
                             const MetricLabels& labels) {
  const MetricLabels all = With(labels);
  absl::MutexLock lock(&state_->mutex);
  auto& slot = state_->counters[KeyOf(name, all)];
  if (slot == nullptr) {
    auto& family = prometheus::BuildCounter()
                       .Name(name)
                       .Help(state_->FirstHelp(name, help))
                       .Register(*state_->registry);
    slot = std::make_unique<RegisteredCounter>(family.Add(all));
  }
  return slot.get();
}

Gauge* Metrics::GetGauge(const std::string& name, const std::string& help,
                         const MetricLabels& labels) {
  const MetricLabels all = With(labels);
  absl::MutexLock lock(&state_->mutex);
  auto& slot = state_->gauges[KeyOf(name, all)];
  if (slot == nullptr) {
    auto& family = prometheus::BuildGauge()
                       .Name(name)
                       .Help(state_->FirstHelp(name, help))
                       .Register(*state_->registry);
    slot = std::make_unique<RegisteredGauge>(family, all);
  }
  return slot.get();
}

void Metrics::RemoveGauge(const std::string& name, const MetricLabels& labels) {
  absl::MutexLock lock(&state_->mutex);
  state_->gauges.erase({name, With(labels)});
}

Histogram* Metrics::GetHistogram(const std::string& name, const std::string& help,
                                 std::vector<double> buckets, const MetricLabels& labels) {
  const MetricLabels all = With(labels);
  absl::MutexLock lock(&state_->mutex);
  auto& slot = state_->histograms[KeyOf(name, all)];
  if (slot == nullptr) {
    auto& family = prometheus::BuildHistogram()
                       .Name(name)
                       .Help(state_->FirstHelp(name, help))
                       .Register(*state_->registry);
    slot = std::make_unique<RegisteredHistogram>(family.Add(all, buckets), buckets);
  }
  return slot.get();
}

std::unique_ptr<Metrics::CollectorHandle> Metrics::AddCollector(std::function<void()> collect) {
  absl::MutexLock lock(&state_->collect_mutex);
  const int id = state_->next_collector++;
  state_->collectors.emplace(id, std::move(collect));
  return std::make_unique<CollectorHandle>(state_, id);
}

std::shared_ptr<prometheus::Registry> Metrics::registry() const { return state_->registry; }

std::string Metrics::Serialize() const {
  absl::MutexLock lock(&state_->collect_mutex);
  for (auto& [id, collect] : state_->collectors) collect();
  return prometheus::TextSerializer().Serialize(state_->registry->Collect());
}

Metrics::CollectorHandle::CollectorHandle(std::shared_ptr<State> state, int id)
    : state_(std::move(state)), id_(id) {}

Metrics::CollectorHandle::~CollectorHandle() {
  absl::MutexLock lock(&state_->collect_mutex);
  state_->collectors.erase(id_);
}

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
