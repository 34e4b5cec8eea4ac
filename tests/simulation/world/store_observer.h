// StoreObserver: stands on a service's way to the store and writes down which commits it was told
// are durable, for check_acknowledged, and which ends of claims it was not told of.
//
// Threads: the world's.

#ifndef TESTS_SIMULATION_WORLD_STORE_OBSERVER_H_
#define TESTS_SIMULATION_WORLD_STORE_OBSERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/kv/forwarding_kv_store.h"
#include "tests/simulation/record/history.h"

namespace escapement::simulation {

// What observers of one run write to.
struct StoreObservations {
  std::vector<Acknowledged> acknowledged;
  std::vector<UnknownEnd> unknown_ends;
};

// Which groups applied.
uint64_t HashOfVerdicts(const std::vector<kv::Verdict>& verdicts);

class StoreObserver final : public kv::ForwardingKvStore {
 public:
  // `out` outlives it, and the callbacks of `inner`; `now` tells true time.
  StoreObserver(kv::KvStore& inner, std::string process, std::function<absl::Time()> now,
                StoreObservations* out);
  // Whoever is destroyed is told nothing more.
  ~StoreObserver() override;

  using KvStore::Commit;
  void Commit(std::shared_ptr<const kv::CommitRequest> request,
              Callback<kv::CommitResult> done) override;

 private:
  struct State;
  const std::shared_ptr<State> state_;
};

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_WORLD_STORE_OBSERVER_H_
