// The effect of a delivery window on a waiting row (docs/design/throttling.md, "Windows").
//
// Pure.

#ifndef SERVICES_TOKEN_MANAGER_WAITING_WINDOW_PLAN_H_
#define SERVICES_TOKEN_MANAGER_WAITING_WINDOW_PLAN_H_

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/token_manager/turns/fair_queue.h"

namespace escapement::token_manager {

// By which the row's events are spread over its window; count 0 if they are not.
Pacing PacingOf(const storage::v1::EventRecord& row);

// When the row's window begins: the due time in the queue is the later of the row's own and this
// one (a row that was carried over keeps its key). InfinitePast without window.
absl::Time OpensAt(const storage::v1::EventRecord& row);
// InfiniteFuture without window.
absl::Time ClosesAt(const storage::v1::EventRecord& row);

enum class WindowClose : uint8_t {
  kOpen,        // or not begun, or there is none
  kFinishLate,  // the row goes on as it is
  kDrop,        // the rest of the row ends as expired
  kCarryOver,   // it waits in the next window, if there is one (CarryOver); else goes on as it is
};
WindowClose CloseAction(const storage::v1::EventRecord& row, absl::Time now);

// Carries the row, whose key has `first`, over to a later window: that of the schedule's first
// occurrence after the begin of the present window whose window is not closed at `now` (it may not
// have begun). If that window is even, the rest of the row is spread over it. The key stays.
// `definition` is the current one and gives the new window's form; it has no occurrence from
// `finish` on (FinishOf its state). nullopt: there is no such occurrence, or no window any more;
// the row finishes late.
std::optional<storage::v1::EventRecord> CarryOver(const storage::v1::EventRecord& row,
                                                  uint64_t first,
                                                  const storage::v1::DefinitionRecord& definition,
                                                  absl::Time finish, absl::Time now);

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_WAITING_WINDOW_PLAN_H_
