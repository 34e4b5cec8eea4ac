// The one-off events that one step of an operation cancels.
//
// Threads: the callback runs on the context's executor.

#ifndef SERVICES_MASTER_OPERATIONS_CANCEL_PAGE_H_
#define SERVICES_MASTER_OPERATIONS_CANCEL_PAGE_H_

#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/master/base/master_context.h"
#include "services/master/events/event_lookup.h"

namespace escapement::master {

struct EventToCancel {
  std::string event_id;
  std::string etag = {};  // the etag that the list showed; empty: the event may have any
  EventSighting sighting = {};
};

// Events that can be cancelled are of one queue shard, or under a policy. The claims of the shard
// are read last, so few claims are made between this read and the commit.
struct CancelPage {
  std::vector<EventToCancel> events;
  std::string cursor;             // the operation's cursor behind them
  std::vector<std::string> left;  // ids that a later step handles; only without a filter
  bool ended = false;             // no events are left
};

// Reads what the next step of the operation, which cancels events, handles.
// DATA_LOSS if a row cannot be read.
void ReadCancelPage(MasterContext& context, const storage::v1::OperationRecord& operation,
                    absl::AnyInvocable<void(absl::StatusOr<CancelPage>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_OPERATIONS_CANCEL_PAGE_H_
