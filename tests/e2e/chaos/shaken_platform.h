// ShakenPlatform: the five services as real processes, two of each except the store. Every process
// reaches the store through a link of its own, and consumers are behind links, too. All of these
// can be made to fail. The store may also be replicated (replicated/shaken_stores.h). Then only the
// stores, their database and the links to both fail.
//
// Threads: the main thread only.

#ifndef TESTS_E2E_CHAOS_SHAKEN_PLATFORM_H_
#define TESTS_E2E_CHAOS_SHAKEN_PLATFORM_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/e2e/chaos/base/chaos_plan.h"
#include "tests/e2e/chaos/base/cutting_proxy.h"
#include "tests/e2e/chaos/replicated/shaken_stores.h"
#include "tests/integration/platform.h"

namespace escapement::chaos {

class ShakenPlatform {
 public:
  struct Options {
    std::string bin;       // holds services/{service}/{service} and the logging store
    std::string folder;    // exists; data, commits and logs go below it
    std::string consumer;  // address of the real receiver
    bool replicated = false;
  };

  explicit ShakenPlatform(Options options);
  ~ShakenPlatform();

  absl::Status Start();

  // "store", "master", "master.2" …
  const std::vector<std::string>& processes() const { return processes_; }
  // "handler.2>store", "consumer.1" …
  const std::vector<std::string>& links() const { return links_; }
  // Where clients reach the process.
  std::string address(const std::string& process) const { return platform_.grpc_address(process); }
  // Addresses at which handlers reach the consumer.
  const std::vector<std::string>& consumers() const { return consumers_; }
  // Addresses at which clients reach the store, separated by commas.
  std::string stores() const;
  // Null unless the store is replicated.
  ShakenStores* replicated() const { return stores_.get(); }

  // UNAVAILABLE, and nothing happens, if the fault is not possible yet (ShakenStores).
  absl::Status Begin(const Fault& fault);
  absl::Status End(const Fault& fault);

  // INTERNAL if a process has ended that nobody ended.
  absl::Status CheckAlive(const std::string& process);
  // Sends SIGTERM to all, to the store last. INTERNAL if a process does not end well.
  absl::Status Stop();

  std::string data() const { return options_.folder + "/data"; }
  std::string commits() const { return options_.folder + "/commits"; }

 private:
  absl::Status StartStore();

  const Options options_;
  std::unique_ptr<CuttingProxy> proxy_;  // outlives the processes that connect to it
  integration::Platform platform_;
  std::unique_ptr<ShakenStores> stores_;
  std::vector<std::string> processes_, links_, consumers_;
};

}  // namespace escapement::chaos

#endif  // TESTS_E2E_CHAOS_SHAKEN_PLATFORM_H_
