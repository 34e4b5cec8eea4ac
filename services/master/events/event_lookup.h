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

#include "absl/container/flat_hash_set.h"
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
// The name of an event that is cancelled; its id is client-chosen.
kv::Mutation CancelledName(std::string name_key, storage::v1::EventNameRecord name);
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

// Looks up many events together, without claims, definitions, payloads and the grants of those that
// hold a token. The sightings are in the order of the names.
void LookUpEvents(MasterContext& context, const std::vector<EventName>& names,
                  absl::AnyInvocable<void(absl::StatusOr<std::vector<EventSighting>>)> done);

// Which of these ids belong to events that were cancelled. For client-chosen ids that exist: to
// others it answers false. At most kIngestEventsMax ids.
void FindCancelled(MasterContext& context, const std::string& tenant,
                   const std::vector<std::string>& event_ids,
                   absl::AnyInvocable<void(absl::StatusOr<std::vector<bool>>)> done);

// Which of the rows the claims of a shard hold.
struct ClaimedRows {
  absl::flat_hash_set<std::string> keys;
  kv::CommitSeq seq = 0;  // no claim from before it was missed
};
void FindClaims(MasterContext& context, uint16_t shard, absl::flat_hash_set<std::string> row_keys,
                absl::AnyInvocable<void(absl::StatusOr<ClaimedRows>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_EVENTS_EVENT_LOOKUP_H_
