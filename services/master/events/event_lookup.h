// Where a one-off event is: in the queue, claimed, ended, or nowhere.
//
// The row, its name and its Done record are read at one snapshot, so an event that moves during the
// read is seen in one place. Claims are read afterwards, all of them after the snapshot
// `claims_seq`.
//
// Threads: the callback runs on the context's executor.

#ifndef SERVICES_MASTER_EVENTS_EVENT_LOOKUP_H_
#define SERVICES_MASTER_EVENTS_EVENT_LOOKUP_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/kv/kv_store.h"
#include "common/storage/event_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/master/base/master_context.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {

// Claims are made this long before an event is due at the earliest.
inline constexpr absl::Duration kClaimedEarlyMax = absl::Minutes(1);

// Event.etag of an event with a client-chosen id. An id that is used again after its retention has
// the same uid, and another launch time.
std::string EventEtag(const Uid& uid, int64_t launch_time_micros);

// The time for which the event was given, as its name says.
int64_t NominalMicrosOf(const storage::v1::EventNameRecord& name);
// The outcome of a one-off event that is cancelled, from its row in `events`; and its put.
storage::v1::DoneRecord CancelledRecord(const storage::v1::EventRecord& row, absl::Time now);
kv::Mutation PutOutcome(const EventKey& key, const storage::v1::DoneRecord& outcome);

struct EventSighting {
  // One of the two, unless the event is unknown.
  std::optional<storage::v1::EventRecord> row;
  std::optional<storage::v1::DoneRecord> done;
  // The key of the row.
  std::string row_key;
  EventKey key;
  // When it is tried next at the earliest, and its priority unless it waits for a retry.
  absl::Time due_time;
  std::optional<int32_t> priority = std::nullopt;
  // For an event under a policy that waits: the key of its row in `waiting`.
  std::string waiting_key = {};
  kv::CommitSeq waiting_seq = 0;                   // it was there at this sequence
  std::optional<std::string> name = std::nullopt;  // bytes of its EventNameRecord
  bool claimed = false;                            // or it holds a token
  kv::CommitSeq row_seq = 0;                       // the row was there at this sequence
  // No claim from before this one was missed (0: claims were not read).
  kv::CommitSeq claims_seq = 0;
  std::optional<storage::v1::DefinitionRecord> definition;  // the row's definition

  // Event.etag. Empty: the id is not client-chosen, or there is no such event.
  std::string Etag() const;
};

// kIfDue reads the claims only if the event may be claimed by now.
enum class ReadClaims { kIfDue, kAlways };

void LookUpEvent(MasterContext& context, const EventName& name, ReadClaims read_claims,
                 absl::AnyInvocable<void(absl::StatusOr<EventSighting>)> done);

// Which of these ids belong to events that were cancelled. For client-chosen ids that exist: to
// others it answers false. At most kIngestEventsMax ids.
void FindCancelled(MasterContext& context, const std::string& tenant,
                   const std::vector<std::string>& event_ids,
                   absl::AnyInvocable<void(absl::StatusOr<std::vector<bool>>)> done);

// Calls back with true if a claim of `shard` holds the row; `seq` is the snapshot before which no
// claim is missed.
void FindClaim(MasterContext& context, uint16_t shard, std::string row_key,
               absl::AnyInvocable<void(absl::StatusOr<bool> claimed, kv::CommitSeq seq)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_EVENTS_EVENT_LOOKUP_H_
