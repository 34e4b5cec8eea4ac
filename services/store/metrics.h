// What the store tells about itself on /metrics.

#ifndef SERVICES_STORE_METRICS_H_
#define SERVICES_STORE_METRICS_H_

#include <memory>

#include "common/kv/rocks/rocks_kv_store.h"
#include "common/metrics/metrics.h"

namespace escapement::store {

class StoreMetrics {
 public:
  // Both outlive it.
  StoreMetrics(Metrics& metrics, kv::RocksKvStore& store);

 private:
  std::unique_ptr<Metrics::CollectorHandle> collector_;
};

}  // namespace escapement::store

#endif  // SERVICES_STORE_METRICS_H_
