// RowSource: the row of `waiting` that events were taken from, and their limits. FurtherHolds: the
// sums over the further limits (Schedule.limits).

#ifndef SERVICES_TOKEN_MANAGER_HOLDING_FURTHER_HOLDS_H_
#define SERVICES_TOKEN_MANAGER_HOLDING_FURTHER_HOLDS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/uid.h"
#include "common/storage/waiting_table.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement::token_manager {

class PolicyState;

// FurtherHold: what events that wait under other policies hold of one policy, and need of it.
struct FurtherHold {
  Uid policy;
  int64_t held = 0;
  absl::flat_hash_map<std::string, int64_t> held_of = {};  // by key; none is 0
  int64_t rows = 0;                                        // in memory that need a token
  bool counted = true;                                     // FurtherHolds has it
};

// A limit of events beside that of the policy under which they wait.
struct FurtherLimit {
  Uid policy;
  std::string policy_id;
  std::string key;
  uint64_t weight = 1;
  // Where FurtherHolds has counted last.
  mutable std::shared_ptr<FurtherHold> hold = nullptr;
  // Cache of PolicyShardState::FurtherPolicy: valid while the shard has dropped `state_drops`
  // policies.
  mutable PolicyState* state = nullptr;
  mutable uint64_t state_drops = 0;
};
using FurtherLimits = std::vector<FurtherLimit>;

// The row that events were taken from; shared by its grants.
struct RowSource {
  storage::v1::EventRecord event;  // count, throttle.taken: of a row when it was read
  Uid uid;                         // the schedule's, or that of the one-off event
  std::string occurrence;
  Uid group;             // among whose rows it waits: the schedule's uid, or EventRecord.wait_group
  std::string part_key;  // the run part in which the row counts; empty: none
  std::string counts_key;  // the counts of all runs of its schedule; empty: a one-off event
  uint64_t weight = 1;     // tokens of the policy that each event holds
  std::shared_ptr<const FurtherLimits> shared_further = nullptr;  // null: none
  absl::Span<const FurtherLimit> further() const {
    if (shared_further == nullptr) return {};
    return *shared_further;
  }
  mutable std::string event_bytes = {};  // see EventBytesOf
  bool one_off() const { return WaitsAsOneOff(event); }
  // The key of the policy under which the events count.
  const std::string& key() const { return event.throttle().policy_key(); }
  // A free token of the policy is not enough for an event.
  bool several() const { return weight > 1 || shared_further != nullptr; }
};
// The event as grants and claims repeat it: as it was read, or serialized once.
const std::string& EventBytesOf(const RowSource& source);
// `other`: a row of the same policy shard; equal parts are shared with it. `bytes`: the serialized
// event, if the caller has it.
std::shared_ptr<const RowSource> RowSourceOf(storage::v1::EventRecord&& event, const Uid& uid,
                                             std::string occurrence, uint16_t policy_shard,
                                             const RowSource* other = nullptr,
                                             absl::string_view bytes = {});

// FurtherHolds: the tokens of policies that are held by events which wait under another policy, and
// how many rows in memory need such a token.
//
// Pure. Threads: one.
class FurtherHolds {
 public:
  // So many more events with these limits hold tokens; negative: fewer.
  void Hold(const RowSource& source, int64_t events);
  // The same for rows in memory.
  void CountRows(const RowSource& source, int64_t rows);

  // True if an event that waits under another policy holds a token of this one, or needs one.
  bool Concerns(const Uid& policy) const { return policies_.contains(policy); }
  uint64_t HeldOf(const Uid& policy) const;
  uint64_t HeldOf(const Uid& policy, const std::string& key) const;
  // The policies that were concerned, and are not since the last call.
  std::vector<Uid> TakeFreed() { return std::exchange(freed_, {}); }

 private:
  FurtherHold& HoldOf(const FurtherLimit& limit);
  void DropIfFree(FurtherHold& hold);

  absl::flat_hash_map<Uid, std::shared_ptr<FurtherHold>> policies_;
  std::vector<Uid> freed_;
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_HOLDING_FURTHER_HOLDS_H_
