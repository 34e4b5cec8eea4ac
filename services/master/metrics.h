// Counters of the master (Prometheus). Children are looked up once, here.

#ifndef SERVICES_MASTER_METRICS_H_
#define SERVICES_MASTER_METRICS_H_

#include <memory>

namespace prometheus {
class Counter;
class Registry;
}  // namespace prometheus

namespace escapement::master {

class Metrics {
 public:
  // Registers with `registry`, which lives on with the metrics.
  explicit Metrics(std::shared_ptr<prometheus::Registry> registry);

  prometheus::Counter& ingest_batches;            // committed
  prometheus::Counter& ingest_batches_refused;
  prometheus::Counter& events_created;            // by ingest, create and batchCreate
  prometheus::Counter& events_existing;           // client-chosen ids that existed already
  prometheus::Counter& events_cancelled;
  prometheus::Counter& schedule_changes;          // committed
  prometheus::Counter& schedule_change_conflicts; // tries that lost a race and were made again
  prometheus::Counter& occurrences_emitted;       // by changes of schedules

 private:
  std::shared_ptr<prometheus::Registry> registry_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_METRICS_H_
