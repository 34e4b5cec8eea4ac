#include "services/store/metrics.h"

#include "absl/time/time.h"

namespace escapement::store {

StoreMetrics::StoreMetrics(Metrics& metrics, kv::RocksKvStore& store) {
  Gauge* seq =
      metrics.GetGauge("escapement_store_commit_seq", "Sequence of the last acknowledged commit.");
  Gauge* time = metrics.GetGauge("escapement_store_time_seconds", "Store time.");
  Gauge* disagreement = metrics.GetGauge("escapement_store_clock_disagreement_seconds",
                                         "Wall clock less store time.");
  Gauge* hold = metrics.GetGauge("escapement_store_clock_hold",
                                 "1 while emission waits for the clock's confirmation.");
  Gauge* held_for = metrics.GetGauge("escapement_store_clock_hold_seconds",
                                     "How long emission has waited for the clock.");
  Gauge* accepting =
      metrics.GetGauge("escapement_store_accepting", "0 while the disk is too full for commits.");
  Counter* commits =
      metrics.GetCounter("escapement_store_commits_total", "Commits decided since the start.");
  Counter* syncs =
      metrics.GetCounter("escapement_store_syncs_total", "Syncs of the log since the start.");
  collector_ = metrics.AddCollector([=, &store] {
    const kv::RocksKvStore::Info info = store.info();
    seq->Set(static_cast<double>(info.seq));
    time->Set(absl::ToDoubleSeconds(info.store_time - absl::UnixEpoch()));
    disagreement->Set(absl::ToDoubleSeconds(info.clock_disagreement));
    hold->Set(info.clock_hold ? 1 : 0);
    held_for->Set(absl::ToDoubleSeconds(info.clock_held_for));
    accepting->Set(info.accepting ? 1 : 0);
    commits->Increment(static_cast<double>(info.commits) - commits->Value());
    syncs->Increment(static_cast<double>(info.syncs) - syncs->Value());
  });
}

}  // namespace escapement::store
