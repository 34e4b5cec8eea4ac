// GrantedClaims: the ids of the token managers' claims that a shard knows, so that none is adopted
// twice. A watch and scans report claims in any order.
//
// Threads: one, the handler's executor.

#ifndef SERVICES_HANDLER_SHARD_GRANTED_CLAIMS_H_
#define SERVICES_HANDLER_SHARD_GRANTED_CLAIMS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "common/base/check.h"
#include "common/storage/waiting_table.h"

namespace escapement::handler {

class GrantedClaims {
 public:
  // Returns false if the claim is known already.
  bool Add(const ClaimId& claim) { return known_.insert({claim.epoch, claim.number}).second; }

  // The claim has ended, and its rows in `inflight` are deleted.
  void Forget(const ClaimId& claim) {
    CHECK(known_.contains({claim.epoch, claim.number})) << "an unknown claim has ended";
    if (keeping_) {
      ended_.push_back({claim.epoch, claim.number});
    } else {
      known_.erase({claim.epoch, claim.number});
    }
  }

  // From now on, ended claims stay known until ForgetEnded: a watch or a scan may still show them.
  void KeepEnded() { keeping_ = true; }
  void ForgetEnded() {
    keeping_ = false;
    for (const Name& name : ended_) known_.erase(name);
    ended_.clear();
  }
  bool keeping() const { return keeping_; }

 private:
  using Name = std::pair<uint64_t, uint64_t>;  // epoch, number; all are of one shard
  absl::flat_hash_set<Name> known_;            // never iterated
  std::vector<Name> ended_;
  bool keeping_ = false;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_SHARD_GRANTED_CLAIMS_H_
