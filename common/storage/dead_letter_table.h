// The keys of `dead_letters`, read, and the places of the rows that belong to a dead letter's
// event. The writers make the keys by DeadLetterKey (name_tables.h).
//
// Pure.

#ifndef COMMON_STORAGE_DEAD_LETTER_TABLE_H_
#define COMMON_STORAGE_DEAD_LETTER_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/storage/done_table.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement {

struct DeadLetterName {
  std::string tenant;
  absl::Time time;  // when the event failed
  std::string event_id;

  friend bool operator==(const DeadLetterName&, const DeadLetterName&) = default;
};

std::string EncodeDeadLetterKey(const DeadLetterName& name);
std::optional<DeadLetterName> DecodeDeadLetterKey(absl::string_view key);
// The prefix of all dead letters of a tenant.
std::string DeadLetterPrefix(absl::string_view tenant);
// The key before all dead letters of the tenant with this time or a later one. The infinities give
// the begin and the end of the tenant's keys.
std::string DeadLetterKeyFrom(absl::string_view tenant, absl::Time time);

// True if the event is a one-off event.
bool IsOneOff(const storage::v1::DeadLetterRecord& letter);

// The key of the event's Done record. nullopt if the letter is broken. `event_id` is the event's.
std::optional<DoneKey> DoneKeyOf(const storage::v1::DeadLetterRecord& letter,
                                 absl::string_view event_id, uint32_t queue_shards);

}  // namespace escapement

#endif  // COMMON_STORAGE_DEAD_LETTER_TABLE_H_
