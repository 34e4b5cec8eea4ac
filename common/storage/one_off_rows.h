// The rows of one-off events: what whoever creates them writes.
//
// An event is one row in `events`. How it is delivered is interned: a definition under the hash of
// its own bytes and version 0, which all events that are delivered alike share.
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

// Serialized so that equal messages have equal bytes.
std::string SerializeDeterministically(const google::protobuf::MessageLite& message);

// The definition of one-off events, by content: the same delivery always has the same hash and
// bytes.
struct InternedDelivery {
  Uid hash;
  std::string definition;  // the serialized DefinitionRecord
};
InternedDelivery Intern(const storage::v1::DeliveryRecord& delivery);

// The group that stores it; not applied if it is stored already, which is as good. It stands before
// the groups of the events.
kv::Group InternGroup(const InternedDelivery& interned);
std::string InternKey(const Uid& hash);  // in `definitions`

// The id of the one-off event that has this row, or had this Done record: what is stored, or, where
// nothing is, the server-made one that follows from the key. (A retry's row has another key than
// the id was made of, so it stores it.)
std::string OneOffEventId(absl::string_view event_key, const storage::v1::EventRecord& row);
std::string EndedEventId(const DoneKey& key, const storage::v1::DoneRecord& done);

// What one new event is, checked.
struct NewEvent {
  absl::string_view client_id;  // empty: the server makes one
  int64_t nominal_micros = 0;   // earlier than now: at once
  absl::string_view payload;
  const Uid* definition_hash = nullptr;
  uint32_t priority = 0;
};

// Makes the rows of events that are created together. Server-made ids need no condition, since
// their uid is new (128 random bits for the batch, plus a count); a client-chosen id adds its
// event_names row and, as the last one, the condition that there is none.
class EventRowBuilder {
 public:
  struct Options {
    std::string tenant;
    uint32_t queue_shards = 1;
    absl::Time now;  // of the store
    // Random; only for server-made ids.
    uint64_t uid_high = 0;
    uint64_t uid_low = 0;
  };
  explicit EventRowBuilder(Options options);

  // Adds the event to `group`.
  void Add(const NewEvent& event, kv::Group* group);
  // Of the event that was added last.
  std::string event_id() const { return OneOffEventId(EncodeEventKey(key_), row_); }

 private:
  const Options options_;
  const int64_t now_micros_;
  uint64_t added_ = 0;
  EventKey key_;                  // of the last one
  storage::v1::EventRecord row_;  // reused: its strings keep their memory
};

}  // namespace escapement

#endif  // COMMON_STORAGE_ONE_OFF_ROWS_H_
