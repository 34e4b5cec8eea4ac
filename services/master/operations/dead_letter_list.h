// ListDeadLetters, and the count of dead letters: both read the index by time and examine one dead
// letter after the other.
//
// Threads: callbacks run on the context's executor.

#ifndef SERVICES_MASTER_OPERATIONS_DEAD_LETTER_LIST_H_
#define SERVICES_MASTER_OPERATIONS_DEAD_LETTER_LIST_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "escapement/v1/dead_letter_service.pb.h"
#include "services/master/api/done.h"
#include "services/master/base/master_context.h"
#include "services/master/operations/dead_letter_selection.h"

namespace escapement::master {

struct DeadLetterListQuery {
  DeadLetterSelection selection;
  bool newest_first = true;
  std::string begin, end;  // keys of the rest of the list
  size_t page_size = 0;
  absl::Duration retention;
  std::string list;  // for page tokens
};
void ListDeadLettersOf(MasterContext& context, DeadLetterListQuery query,
                       Done<v1::ListDeadLettersResponse> done);

struct DeadLetterCount {
  uint64_t count = 0;
  bool more = false;                // a bound was reached
  std::vector<std::string> sample;  // names of the first ones, at most kPurgeSampleMax
  // The store's time of the count. Every dead letter that was there has this time or an earlier
  // one.
  absl::Time store_time;
};
void CountDeadLetters(MasterContext& context, DeadLetterSelection selection,
                      absl::AnyInvocable<void(absl::StatusOr<DeadLetterCount>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_OPERATIONS_DEAD_LETTER_LIST_H_
