// The store's metrics for /metrics.

#ifndef SERVICES_STORE_SERVICE_METRICS_H_
#define SERVICES_STORE_SERVICE_METRICS_H_

#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "common/metrics/metrics.h"
#include "services/store/service/store_server.h"

namespace escapement::store {

class StoreMetrics {
 public:
  // Both arguments must outlive it.
  StoreMetrics(Metrics& metrics, StoreServer& server);

 private:
  std::unique_ptr<Metrics::CollectorHandle> store_;
  std::unique_ptr<Metrics::CollectorHandle> size_;
  std::unique_ptr<Metrics::CollectorHandle> replica_;  // null if the store is not replicated
};

// For Replication::Options::on_append and StoreServer::Options::on_commit. `metrics` must outlive
// them.
std::function<void(absl::Duration)> AppendLatency(Metrics& metrics);
std::function<void(absl::Duration)> CommitLatency(Metrics& metrics);

}  // namespace escapement::store

#endif  // SERVICES_STORE_SERVICE_METRICS_H_
