// Is a queue row of a schedule still what the schedule wants?
//
// Pure.

#ifndef COMMON_RECORDS_CURRENCY_H_
#define COMMON_RECORDS_CURRENCY_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement {

enum class Currency : uint8_t {
  kSend,             // under the definition of the state's version
  kPark,             // the schedule is paused
  kDeleted,          // skip with reason "deleted"
  kSuperseded,       // skip with reason "superseded"
  kNeedsDefinition,  // ask again with the definition of the state's version
};

// `state` null: there is none. `current` is the definition of state->version(), null if not known
// yet.
Currency JudgeRow(const storage::v1::EventRecord& row, absl::string_view occurrence,
                  const storage::v1::StateRecord* state,
                  const storage::v1::DefinitionRecord* current);

// Does the definition have an occurrence of this identity at this instant?
bool HasOccurrence(const storage::v1::DefinitionRecord& definition, absl::string_view occurrence,
                   int64_t nominal_micros);

}  // namespace escapement

#endif  // COMMON_RECORDS_CURRENCY_H_
