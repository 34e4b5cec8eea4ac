// InUseSweep: deletes the LaunchExpressions of a partition that have no children any more.
//
// Each call checks one expression, in turn. A commit is fenced by the partition's lease and by the
// absence of children. A schedule that uses the expression again writes its key again.
//
// Threads: one executor; all methods and callbacks run there. Made by make_shared; a sweep under
// way when the partition is lost ends without effect.

#ifndef SERVICES_EMITTER_EMISSION_IN_USE_SWEEP_H_
#define SERVICES_EMITTER_EMISSION_IN_USE_SWEEP_H_

#include <cstdint>
#include <memory>
#include <string>

#include "common/kv/client/kv_client.h"
#include "common/runtime/runtime.h"
#include "services/emitter/base/partition_leases.h"

namespace escapement::emitter {

class InUseSweep : public std::enable_shared_from_this<InUseSweep> {
 public:
  // `client` outlives it.
  InUseSweep(kv::KvClient& client, std::shared_ptr<Executor> executor, PartitionLeases leases,
             uint16_t partition);

  void Step();

 private:
  void RemoveIfEmpty(std::string in_use_key);

  kv::KvClient& client_;
  const std::shared_ptr<Executor> executor_;
  const PartitionLeases leases_;
  const uint16_t partition_;
  std::string last_key_;  // the expression checked last; empty: start at the first
};

}  // namespace escapement::emitter

#endif  // SERVICES_EMITTER_EMISSION_IN_USE_SWEEP_H_
