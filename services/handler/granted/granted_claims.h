// GrantedClaims: which claims of token managers a shard knows of, so that none is adopted twice:
// they are told by a watch and found by scans, in any order.
//
// Threads: one, the handler's executor.

#ifndef SERVICES_HANDLER_GRANTED_GRANTED_CLAIMS_H_
#define SERVICES_HANDLER_GRANTED_GRANTED_CLAIMS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "common/base/check.h"
#include "common/storage/inflight_table.h"

namespace escapement::handler {

class GrantedClaims {
 public:
  // False: it is known.
  bool Add(const ClaimId& claim) { return known_.insert({claim.epoch, claim.number}).second; }

  // It has ended: its rows are gone from `inflight`.
  void Forget(const ClaimId& claim) {
    CHECK(known_.contains({claim.epoch, claim.number})) << "an unknown claim has ended";
    if (keeping_) {
      ended_.push_back({claim.epoch, claim.number});
    } else {
      known_.erase({claim.epoch, claim.number});
    }
  }

  // From now on what has ended stays known, until Release: the watch or a scan may still show it.
  void Keep() { keeping_ = true; }
  void Release() {
    keeping_ = false;
    for (const Name& name : ended_) known_.erase(name);
    ended_.clear();
  }
  bool keeping() const { return keeping_; }

 private:
  using Name = std::pair<uint64_t, uint64_t>;  // epoch, number; the shard is the same for all
  absl::flat_hash_set<Name> known_;            // never iterated
  std::vector<Name> ended_;
  bool keeping_ = false;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_GRANTED_GRANTED_CLAIMS_H_
