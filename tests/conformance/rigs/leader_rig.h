// LeaderRig: two processes of a replicated store and a client that goes where the leader is.
//
// Threads: the test's.

#ifndef TESTS_CONFORMANCE_RIGS_LEADER_RIG_H_
#define TESTS_CONFORMANCE_RIGS_LEADER_RIG_H_

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/kv/memory/mem_kv_store.h"
#include "common/kv/wire/leader_seeking_kv_store.h"
#include "common/rpc/channel.h"
#include "common/runtime/system_runtime.h"
#include "tests/conformance/rigs/led_store.h"

namespace escapement::kv {

struct LeaderRig {
  // The rig's `connect` for `options` that have none.
  std::unique_ptr<LeaderSeekingKvStore> Client(LeaderSeekingKvStore::Options options) {
    if (options.connect == nullptr) {
      options.connect = [this](const StoreAddress& to) {
        absl::MutexLock lock(&mu);
        connected.insert(to.target);
        return NewChannel(absl::StrCat("dns:///", to.target));
      };
    }
    return std::make_unique<LeaderSeekingKvStore>(runtime, std::move(options));
  }
  std::unique_ptr<LeaderSeekingKvStore> Client(std::vector<std::string> addresses) {
    LeaderSeekingKvStore::Options options;
    options.addresses = std::move(addresses);
    return Client(std::move(options));
  }
  std::unique_ptr<LeaderSeekingKvStore> ClientOfBoth() {
    return Client(std::vector<std::string>{a.address(), b.address()});
  }
  std::set<std::string> Connected() {
    absl::MutexLock lock(&mu);
    return connected;
  }

  SystemRuntime runtime;
  absl::Mutex mu;
  std::set<std::string> connected ABSL_GUARDED_BY(mu);  // all targets that were ever called
  MemKvStore state{runtime, MemKvStore::Options()};
  LedStore a{state}, b{state};
};

}  // namespace escapement::kv

#endif  // TESTS_CONFORMANCE_RIGS_LEADER_RIG_H_
