// The rows of one-off events, for every writer that creates events.
//
// An event is one row in `events`. How it is delivered is stored once for many events
// (interned_delivery.h).
//
// Pure.

#ifndef COMMON_STORAGE_ONE_OFF_ROWS_H_
#define COMMON_STORAGE_ONE_OFF_ROWS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/uid.h"
#include "common/kv/kv_store.h"
#include "common/storage/done_table.h"
#include "common/storage/event_table.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement {

// The id of the one-off event of this row or Done record. It is the stored id or, if none is
// stored, the server-made id that follows from the key. (A row of a retry has another key than the
// one its id was made of, so it stores the id.)
std::string OneOffEventId(absl::string_view event_key, const storage::v1::EventRecord& row);
std::string EndedEventId(const DoneKey& key, const storage::v1::DoneRecord& done);

// One new event, already validated.
struct NewEvent {
  absl::string_view client_id;  // empty: a server-made id
  int64_t nominal_micros = 0;   // if before now: sent at once
  absl::string_view payload;
  const Uid* definition_hash = nullptr;  // interned for the event's launch time
  uint32_t priority = 0;
};

// When a new event is due: at its nominal time, or now if that has passed.
absl::Time LaunchTimeOf(int64_t nominal_micros, absl::Time now);

// Makes the rows of events that are created together. A server-made id needs no condition, because
// its uid is new (128 random bits for the batch, plus a count). A client-chosen id adds its
// event_names row and, as the group's last condition, that this row is absent.
class EventRowBuilder {
 public:
  struct Options {
    std::string tenant;
    uint32_t queue_shards = 1;
    absl::Time now;  // store time
    // Random bits; only for server-made ids.
    uint64_t uid_high = 0;
    uint64_t uid_low = 0;
  };
  explicit EventRowBuilder(Options options);

  // Adds the event to `group`.
  void Add(const NewEvent& event, kv::Group& group);
  // The id of the event that was added last.
  std::string event_id() const { return OneOffEventId(EncodeEventKey(key_), row_); }

 private:
  const Options options_;
  uint64_t added_ = 0;
  EventKey key_;                  // key of the event that was added last
  storage::v1::EventRecord row_;  // reused, so that its strings keep their memory
};

}  // namespace escapement

#endif  // COMMON_STORAGE_ONE_OFF_ROWS_H_
