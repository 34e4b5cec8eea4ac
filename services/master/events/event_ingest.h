// One batch of an ingestion → one commit.
//
// Events with server-made ids share one group without conditions. Each client-chosen id has its own
// group, so an id that exists already is counted and not overwritten (also within one batch).
// Deliveries that are not known to be stored go first, in their own groups
// (event_table.h). Pure, except for the cache.
//
// An event that waits is replaced or cancelled by this commit if it is not due soon. Then no claim
// of it can have been made: the group's condition is that store time is before the first moment of
// a claim (Condition::Kind::kTimeBefore). So neither its row nor the claims are read, only its
// name.

#ifndef SERVICES_MASTER_EVENTS_EVENT_INGEST_H_
#define SERVICES_MASTER_EVENTS_EVENT_INGEST_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/base/uid.h"
#include "common/kv/client/kv_client.h"
#include "common/storage/event_table.h"
#include "escapement/v1/event_service.pb.h"
#include "services/master/events/event_filter.h"
#include "services/master/events/event_throttle.h"

namespace escapement::master {

// Hashes of deliveries that are known to be stored. They may be deleted once their period is long
// over; then no new event has such a hash. Threads: any.
class InternCache {
 public:
  bool Known(const Uid& hash) const;
  void Add(const std::vector<Uid>& hashes);
  // When the store may be another one than before.
  void Clear();

 private:
  mutable absl::Mutex mutex_;
  absl::flat_hash_set<Uid> known_ ABSL_GUARDED_BY(mutex_);
};

// IngestRecord: the effect of one record of a batch.
struct IngestRecord {
  enum class Fate : uint8_t {
    kCreated,     // its id is new; as a CREATE it has no effect if it is not
    kTakes,       // the commit replaces or cancels `present`
    kAlone,       // the event with its id may be claimed, or has ended: not in the commit
    kSuperseded,  // a later UPSERT or CANCEL of the batch has its id
    kNothing,     // a CANCEL of nothing
  };
  Fate fate = Fate::kCreated;
  // The event that has its id, only with kTakes: bytes of its name, and at which sequence they were
  // read; the same, parsed; the key of its row.
  std::string name = {};
  kv::CommitSeq read_at = 0;
  storage::v1::EventNameRecord present = {};
  EventKey key = {};
  Uid uid = {};  // for the event that replaces it
};

// The records of the batch, before the store is asked: each UPSERT or CANCEL is kAlone or
// kSuperseded. Empty: there is none.
std::vector<IngestRecord> RecordsOf(const v1::IngestRequest& request);
// Decides an UPSERT or CANCEL record by the name that has its id (nullopt: none), read at
// `read_at`.
void Meet(const std::optional<std::string>& name, kv::CommitSeq read_at, v1::Event::IngestMode mode,
          absl::Time now, IngestRecord& record);

// The event of a record, with the defaults.
v1::Event EventOf(const v1::Event& defaults, const v1::IngestEvent& event);

struct IngestPlan {
  kv::Commit commit;
  std::vector<Uid> interned;          // stored once the commit is
  size_t first_client_group = 0;      // groups from here on have one client-chosen event each
  std::vector<int> client_positions;  // their positions in the batch
  int server_made_count = 0;
  // The payloads, overrides and distinct deliveries together.
  size_t bytes = 0;
  std::vector<std::string> event_ids;  // server-made, if asked for
};

// `defaults`: those of the request, with the tenant's. The commit begins with `audit`, a group of
// its own, since an event that exists already must not keep the entry from being written.
// INVALID_ARGUMENT with the fields ("events[3].payload") if anything of the batch is wrong.
absl::StatusOr<IngestPlan> PlanIngest(const v1::IngestRequest& request, const v1::Event& defaults,
                                      const std::vector<IngestRecord>& records, bool return_ids,
                                      EventRowBuilder::Options options, const Policies& policies,
                                      const InternCache& cache, const TargetSecrets& secrets,
                                      kv::Group audit);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_EVENTS_EVENT_INGEST_H_
