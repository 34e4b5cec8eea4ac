// KafkaArrivals: a consumer of a topic that notes how late each record is when it gets it.
//
// Threads: one of its own, which polls the broker. Any thread may ask.

#ifndef TESTS_BENCH_BEDS_KAFKA_ARRIVALS_H_
#define TESTS_BENCH_BEDS_KAFKA_ARRIVALS_H_

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

struct rd_kafka_s;  // librdkafka's rd_kafka_t

namespace escapement::bench {

class KafkaArrivals {
 public:
  KafkaArrivals(const std::string& brokers, const std::string& topic, int partitions);
  ~KafkaArrivals();
  KafkaArrivals(const KafkaArrivals&) = delete;
  KafkaArrivals& operator=(const KafkaArrivals&) = delete;

  // Microseconds from the event's launch time until its record came, since the last Clear.
  std::vector<double> Lateness() const;
  void Clear();

 private:
  void Run();

  rd_kafka_s* consumer_ = nullptr;
  std::atomic<bool> stopping_ = false;
  mutable absl::Mutex mutex_;
  std::vector<double> lateness_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace escapement::bench

#endif  // TESTS_BENCH_BEDS_KAFKA_ARRIVALS_H_
