// ReadLimitUse: the limits of an event and how they are used: who holds their tokens, and how many
// events wait before it.
//
// A limit counts events of all policies of its policy shard, because an event may be under several.
// Therefore this reads all grants of the shard, up to kLookupRowsMax, and kUsageRowsMax of its rows
// of waiting events. All of it is read one after the other, not in one snapshot.
//
// Threads: the callback runs on the context's executor.

#ifndef SERVICES_MASTER_EXPLAIN_LIMIT_USE_H_
#define SERVICES_MASTER_EXPLAIN_LIMIT_USE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/uid.h"
#include "common/storage/waiting_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/explanation.pb.h"
#include "services/master/base/master_context.h"
#include "services/master/explain/event_place.h"

namespace escapement::master {

// The tokens that are held, and the events that wait, under one limit or one key of it.
struct TokenUse {
  uint64_t held = 0;   // tokens
  uint64_t ahead = 0;  // events that are due and wait before the event
  // The events that have held their tokens longest, the oldest first; at most kGateHoldersMax.
  std::vector<v1::Gate::Holder> oldest = {};
};

struct LimitUse {
  std::string policy_id;
  std::string policy_key;
  uint64_t weight = 1;                              // tokens that the event needs
  std::optional<storage::v1::PolicyRecord> policy;  // unset: there is none
  int64_t rate_time_micros = 0;                     // PolicyCountsRecord.rate_time_micros
  int64_t key_rate_time_micros = 0;                 // KeyRateRecord.rate_time_micros; 0: no record
  TokenUse all;
  TokenUse of_key;  // only if the policy has per_key
};

struct EventLimits {
  std::vector<LimitUse> limits;  // in the order of the event's
  // Only for a held event. A report upon which no owner of the policy shard has acted yet says that
  // it was delivered, or that its token was given back.
  bool delivered = false;
  bool given_back = false;
};

// `place`: of an event that has not ended; it outlives the reading. Empty if the event is under no
// policy.
void ReadLimitUse(MasterContext& context, const EventPlace& place,
                  absl::AnyInvocable<void(absl::StatusOr<EventLimits>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_EXPLAIN_LIMIT_USE_H_
