// LedStore: a process of a replicated store, played in this process. It serves a store that several
// LedStores share, which stands for the replicated state, on a loopback port of its own.
//
// Threads: any.

#ifndef TESTS_CONFORMANCE_RIGS_LED_STORE_H_
#define TESTS_CONFORMANCE_RIGS_LED_STORE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "common/kv/kv_store.h"
#include "common/kv/wire/store_connection.h"

namespace escapement::kv {

class LedStore {
 public:
  // `state` must outlive the store. `listen`: host:port; port 0 = any. `protocol`: what its program
  // speaks; 0: it does not know the number. It does not lead at first, and knows no leader.
  explicit LedStore(KvStore& state, const std::string& listen = "127.0.0.1:0",
                    uint32_t protocol = kStoreProtocol);
  ~LedStore();

  const std::string& address() const;

  // From now on calls reach the state.
  void Lead();
  // From now on each call is answered NotLeader(leader); watches end.
  void Follow(const std::string& leader);
  // Calls are not answered any more, as by a process that the kernel has stopped. Lead and Follow
  // answer them.
  void Freeze();
  // Commits reach the state, but nobody gets their answers.
  void LoseCommitAnswers();
  // Ends the process: its connections break.
  void Kill();

  // Calls that have arrived, including the client's probes and calls that were not answered.
  int arrived() const;
  // Calls of arrived() other than AskClock.
  int calls() const;
  // Waits until so many calls have arrived. Returns false after half a minute.
  bool WaitForArrived(int count) const;

 private:
  struct Server;
  class Gate;
  std::unique_ptr<Gate> gate_;
  std::unique_ptr<Server> server_;
  std::string address_;
};

}  // namespace escapement::kv

#endif  // TESTS_CONFORMANCE_RIGS_LED_STORE_H_
