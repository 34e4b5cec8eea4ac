// Events and schedules as the master writes them, for paths that begin with stored rows.

#ifndef TESTS_BUDGET_STORED_ROWS_H_
#define TESTS_BUDGET_STORED_ROWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "common/storage/one_off_rows.h"

namespace escapement::budget {

inline constexpr size_t kPayloadBytes = 500;
inline constexpr uint64_t kBatchEvents = 1000;

// Delivery to a gRPC consumer, with one attempt.
storage::v1::DeliveryRecord DeliveryTo(const std::string& uri);

// The rows of `events` events due at `due`, one group each, in batches of one commit. The very
// first group holds what all events share. `client_ids`: clients have chosen the events' ids.
std::vector<std::vector<kv::Group>> OneOffGroups(uint64_t events, absl::Time due,
                                                 uint32_t queue_shards, const std::string& uri,
                                                 bool client_ids);

// Adds the definition and the state of an enabled schedule in UTC, with a payload. Returns the
// definition.
storage::v1::DefinitionRecord AddSchedule(uint64_t number, const std::string& cron,
                                          kv::Group* group);

}  // namespace escapement::budget

#endif  // TESTS_BUDGET_STORED_ROWS_H_
