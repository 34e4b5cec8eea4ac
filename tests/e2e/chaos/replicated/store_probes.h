// StoreProbes: clients that call each store of a replicated store directly, all the time, whether
// it leads or not. They do not wait for answers. So calls lie in the sockets of a store that stands
// still, and it reads them when it goes on.
//
// Each call reads the keys that all probes write, or writes its own. Only a store that leads may
// answer; the others refuse. check_answers.h judges the answers.
//
// Threads: any; one of its own calls.

#ifndef TESTS_E2E_CHAOS_REPLICATED_STORE_PROBES_H_
#define TESTS_E2E_CHAOS_REPLICATED_STORE_PROBES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "tests/e2e/chaos/replicated/check_answers.h"

namespace escapement::chaos {

class StoreProbes {
 public:
  struct Options {
    std::vector<std::pair<std::string, std::string>> stores;  // name and address
    absl::Duration every = absl::Milliseconds(25);            // between two reads of each store
    int reads_per_commit = 4;
  };

  explicit StoreProbes(Options options);
  ~StoreProbes();
  StoreProbes(const StoreProbes&) = delete;
  StoreProbes& operator=(const StoreProbes&) = delete;

  // Opens a session for each store. One of them must lead soon: UNAVAILABLE if none answers.
  absl::Status Start();
  // Ends all calls.
  void Stop();

  // The store that answered last. Empty if none has answered for a second: none leads then, or
  // nobody can reach it.
  std::string leader() const ABSL_LOCKS_EXCLUDED(mu_);

  // After Stop.
  std::vector<ProbeAnswer> answers() const ABSL_LOCKS_EXCLUDED(mu_);
  uint64_t refused() const ABSL_LOCKS_EXCLUDED(mu_);  // calls without an answer
  // Refused calls that were older than kSilence: they lay with a store that stood still.
  static constexpr absl::Duration kSilence = absl::Seconds(3);
  uint64_t refused_late() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Probe;
  void Run() ABSL_LOCKS_EXCLUDED(mu_);
  void Read(Probe& probe) ABSL_LOCKS_EXCLUDED(mu_);
  void Commit(Probe& probe) ABSL_LOCKS_EXCLUDED(mu_);
  void Refused(Probe& probe, absl::Time called) ABSL_LOCKS_EXCLUDED(mu_);
  void Keep(Probe& probe, ProbeAnswer answer) ABSL_LOCKS_EXCLUDED(mu_);

  const Options options_;
  mutable absl::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<ProbeAnswer> answers_ ABSL_GUARDED_BY(mu_);
  uint64_t refused_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t refused_late_ ABSL_GUARDED_BY(mu_) = 0;
  std::string last_ ABSL_GUARDED_BY(mu_);  // the store that answered last
  absl::Time last_time_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  std::vector<std::unique_ptr<Probe>> probes_;
  std::thread thread_;
};

}  // namespace escapement::chaos

#endif  // TESTS_E2E_CHAOS_REPLICATED_STORE_PROBES_H_
