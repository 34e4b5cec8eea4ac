// ForgetfulKvStore: a front of the store that can forget its sessions. Clients of sessions that
// were open at that moment are refused (ABORTED), drop their leases and open new sessions.
//
// Threads: the world's.

#ifndef TESTS_SIMULATION_WORLD_FORGETFUL_KV_STORE_H_
#define TESTS_SIMULATION_WORLD_FORGETFUL_KV_STORE_H_

#include <cstdint>
#include <memory>
#include <set>
#include <utility>

#include "common/kv/forwarding_kv_store.h"

namespace escapement::simulation {

class ForgetfulKvStore final : public kv::ForwardingKvStore {
 public:
  // State that survives a restart of the store.
  struct Memory {
    std::set<uint64_t> sessions;   // not forgotten
    std::set<uint64_t> forgotten;  // these are refused
    void Forget() { forgotten.merge(sessions); }
    // A planted fault: the store ignores clients' reports of their machines' wall clocks.
    bool forgets_hosts = false;
  };

  // Both outlive it.
  ForgetfulKvStore(kv::KvStore& inner, Memory& memory)
      : ForwardingKvStore(inner), memory_(memory) {}

  void OpenSession(uint64_t incarnation, kv::CommitSeq seen,
                   Callback<kv::SessionInfo> done) override {
    inner_.OpenSession(incarnation, seen,
                       [this, done = std::move(done)](absl::StatusOr<kv::SessionInfo> info) {
                         if (info.ok()) memory_.sessions.insert(info->session);
                         done(std::move(info));
                       });
  }
  using KvStore::Commit;
  void Commit(std::shared_ptr<const kv::CommitRequest> request,
              Callback<kv::CommitResult> done) override {
    if (memory_.forgotten.contains(request->session))
      return done(absl::AbortedError("the session is not known"));
    inner_.Commit(std::move(request), std::move(done));
  }
  void AskClock(kv::ClockCall call, Callback<kv::ClockState> done) override {
    if (memory_.forgets_hosts) call.host.reset();
    inner_.AskClock(std::move(call), std::move(done));
  }

 private:
  Memory& memory_;
};

}  // namespace escapement::simulation

#endif  // TESTS_SIMULATION_WORLD_FORGETFUL_KV_STORE_H_
