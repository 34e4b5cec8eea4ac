// The part of lease::LeaseKeeper that the emitter's loops use.

#ifndef SERVICES_EMITTER_BASE_PARTITION_LEASES_H_
#define SERVICES_EMITTER_BASE_PARTITION_LEASES_H_

#include <cstdint>
#include <functional>

#include "common/kv/kv_store.h"

namespace escapement::emitter {

struct PartitionLeases {
  std::function<bool(uint32_t partition)> valid;
  std::function<kv::Condition(uint32_t partition)> fence;  // only for a held partition
};

}  // namespace escapement::emitter

#endif  // SERVICES_EMITTER_BASE_PARTITION_LEASES_H_
