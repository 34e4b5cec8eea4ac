// ShakenStores: the replicated store of a run of chaos: three store processes over a PostgreSQL
// with a synchronous standby. Each store reaches PostgreSQL through a link of its own, and all
// services reach a store through its other link, which is the address that it advertises. Probes
// call the stores directly.
//
// Threads: the main thread only.

#ifndef TESTS_E2E_CHAOS_REPLICATED_SHAKEN_STORES_H_
#define TESTS_E2E_CHAOS_REPLICATED_SHAKEN_STORES_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/e2e/chaos/base/chaos_plan.h"
#include "tests/e2e/chaos/base/cutting_proxy.h"
#include "tests/e2e/chaos/replicated/shaken_postgres.h"
#include "tests/e2e/chaos/replicated/store_probes.h"
#include "tests/integration/platform.h"

namespace escapement::chaos {

class ShakenStores {
 public:
  // The arguments outlive it. `folder` is the platform's.
  ShakenStores(CuttingProxy& proxy, integration::Platform& platform, std::string folder);
  ~ShakenStores();

  absl::Status Start();

  // "store", "store.2" …
  const std::vector<std::string>& names() const { return names_; }
  // Where services reach the stores: addresses, separated by commas.
  std::string addresses() const;
  std::string data(const std::string& store) const;

  // Faults of PlanReplicaChaos. UNAVAILABLE, and nothing happens, while no store has the role that
  // is to be hit, or a fault of the same group goes on. Then try again a little later.
  absl::Status Begin(const Fault& fault);
  absl::Status End(const Fault& fault);

  // Waits until PostgreSQL and its standby are well.
  absl::Status Calm();
  // Ends the calls of the probes. Before the stores are stopped.
  void StopProbes() { probes_->Stop(); }
  const StoreProbes& probes() const { return *probes_; }
  std::string postgres_url() const { return postgres_->url(); }

 private:
  absl::StatusOr<std::string> VictimOf(const Fault& fault) const;
  bool IsVictim(const std::string& store) const;
  // A store that is neither this one nor a victim. Empty if there is none.
  std::string FollowerOf(const std::string& leader) const;
  absl::Status BeginStore(const Fault& fault, const std::string& store);
  absl::Status EndStore(const Fault& fault, const std::string& store);
  // All links to the database but those of `left_behind`. "": all.
  absl::Status RedirectToPrimary(const std::string& left_behind);

  CuttingProxy& proxy_;
  integration::Platform& platform_;
  const std::string folder_;
  std::unique_ptr<ShakenPostgres> postgres_;
  std::unique_ptr<StoreProbes> probes_;
  std::vector<std::string> names_;
  std::map<std::string, std::string> addresses_;  // by store
  std::map<std::string, std::string> victims_;    // victims of the faults under way, by group
};

}  // namespace escapement::chaos

#endif  // TESTS_E2E_CHAOS_REPLICATED_SHAKEN_STORES_H_
