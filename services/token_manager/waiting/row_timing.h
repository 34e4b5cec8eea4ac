// When a waiting row may go, as the queue has to know it.
//
// Pure.

#ifndef SERVICES_TOKEN_MANAGER_WAITING_ROW_TIMING_H_
#define SERVICES_TOKEN_MANAGER_WAITING_ROW_TIMING_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "services/token_manager/turns/queued_slice.h"
#include "services/token_manager/waiting/waiting_row.h"

namespace escapement::token_manager {

// A row that waits for its window longer than this *waits long*.
inline constexpr absl::Duration kWaitsLong = absl::Seconds(60);
bool WaitsLong(const WaitingRow& row);

// The row's events that are not granted. They may be granted `grant_lead` ahead of the due time,
// but not ahead of their window or of their place in it.
QueuedSlice SliceOf(const std::string& key, const WaitingRow& row, absl::Duration grant_lead);
// The same for a row that waits long and is to be judged at its due time.
QueuedSlice JudgedSliceOf(const std::string& key, const WaitingRow& row, absl::Duration grant_lead);

// When the row's window closes, in microseconds, if the row is dropped or carried over then;
// otherwise 0.
int64_t ActsOnCloseMicros(const WaitingRow& row);

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_WAITING_ROW_TIMING_H_
