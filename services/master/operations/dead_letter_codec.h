// Dead letters as shown to users. Pure.

#ifndef SERVICES_MASTER_OPERATIONS_DEAD_LETTER_CODEC_H_
#define SERVICES_MASTER_OPERATIONS_DEAD_LETTER_CODEC_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/storage/name_tables.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/dead_letter_service.pb.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {

// One row of `dead_letters`, as it is stored.
struct StoredDeadLetter {
  std::string key;
  std::string bytes;
  DeadLetterName name;
  storage::v1::DeadLetterRecord record;
};

// DATA_LOSS if the row cannot be read.
absl::StatusOr<StoredDeadLetter> ReadDeadLetter(std::string key, std::string bytes);

// The run of an event of a schedule.
RunName RunOf(const StoredDeadLetter& letter);
// The full names as users see them. Empty: it is a one-off event, or has no policy.
std::string EventNameOf(const StoredDeadLetter& letter);
std::string ScheduleNameOf(const StoredDeadLetter& letter);
std::string PolicyNameOf(const StoredDeadLetter& letter);

// `retention`: how long dead letters are kept. Without payload.
v1::DeadLetter ShowDeadLetter(const StoredDeadLetter& letter, absl::Duration retention);

// The event as it waits for its next attempt; `row` is its new row. Without payload.
v1::Event ShowRedriven(const StoredDeadLetter& letter, const storage::v1::EventRecord& row);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_OPERATIONS_DEAD_LETTER_CODEC_H_
