// Writes the state of a schedule, for tests of code that only reads it.
//
// Pure.

#ifndef COMMON_STORAGE_TESTING_TEST_STATE_H_
#define COMMON_STORAGE_TESTING_TEST_STATE_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "common/base/proto_time.h"
#include "common/base/uid.h"
#include "common/kv/kv_store.h"
#include "common/storage/schedule_table.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement {

// Puts the state of schedule "s" of the tenant "default". `cancelled_run`: the occurrence of a
// cancelled run; empty: none.
inline kv::Mutation StatePut(const Uid& uid, storage::v1::ScheduleStateKind kind, uint64_t version,
                             absl::Time cancelled_before = absl::UnixEpoch(),
                             const std::string& cancelled_run = {}) {
  storage::v1::StateRecord state;
  state.set_kind(kind);
  state.set_version(version);
  state.set_tenant("default");
  state.set_schedule_id("s");
  state.set_cancelled_before_micros(ToMicros(cancelled_before));
  if (!cancelled_run.empty()) state.add_cancelled_runs()->set_occurrence(cancelled_run);
  return {
      .cf = kv::ColumnFamily::kStates, .key = StateKey(uid), .value = state.SerializeAsString()};
}

}  // namespace escapement

#endif  // COMMON_STORAGE_TESTING_TEST_STATE_H_
