// StoreObserver: stands between a service and the store. It notes which commits were answered as
// durable, for check_acknowledged, which state each read showed, for check_reads, and which ends of
// claims got no answer.
//
// Threads: the world's.

#ifndef TESTS_SIMULATION_RECORD_STORE_OBSERVER_H_
#define TESTS_SIMULATION_RECORD_STORE_OBSERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/kv/forwarding_kv_store.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {

// All observers of one run write here.
struct StoreObservations {
  std::vector<Acknowledged> acknowledged;
  std::vector<ReadSeen> reads;
  std::vector<UnknownEnd> unknown_ends;
};

// A hash over which groups applied.
uint64_t HashOfVerdicts(const std::vector<kv::Verdict>& verdicts);

class StoreObserver final : public kv::ForwardingKvStore {
 public:
  // `inner` and `out` outlive it, and `out` also outlives the callbacks of `inner`. `now` returns
  // true time.
  StoreObserver(kv::KvStore& inner, std::string process, std::function<absl::Time()> now,
                StoreObservations* out);
  // Counts every open commit as unanswered.
  ~StoreObserver() override;

  using KvStore::Commit;
  void Commit(std::shared_ptr<const kv::CommitRequest> request,
              Callback<kv::CommitResult> done) override;
  void MultiGet(std::vector<kv::Key> keys, Callback<kv::GetResult> done) override;
  void Scan(kv::ScanRequest request, Callback<kv::ScanResult> done) override;

 private:
  template <typename T>
  Callback<T> Noted(Callback<T> done);
  struct State;
  const std::shared_ptr<State> state_;
};

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_RECORD_STORE_OBSERVER_H_
