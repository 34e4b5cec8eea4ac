// One-off events: public messages ↔ rows. Pure.

#ifndef SERVICES_MASTER_EVENT_CODEC_H_
#define SERVICES_MASTER_EVENT_CODEC_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/uid.h"
#include "common/kv/kv_store.h"
#include "common/status/errors.h"
#include "common/storage/event_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/resources.pb.h"
#include "services/master/delivery_codec.h"

namespace escapement::master {

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
// event_names row and the condition that there is none.
class EventRowBuilder {
 public:
  struct Options {
    std::string tenant;
    uint32_t queue_shards = 1;
    absl::Time now;  // of the store
    // Random.
    uint64_t uid_high = 0;
    uint64_t uid_low = 0;
  };
  explicit EventRowBuilder(Options options);

  // Adds the event to `group`. The id is valid until the next call.
  const std::string& Add(const NewEvent& event, kv::Group* group);

 private:
  const Options options_;
  const int64_t now_micros_;
  uint64_t added_ = 0;
  storage::v1::EventRecord row_;  // reused: its strings keep their memory
};

// Checks Event.due_time; `field` is its path.
std::optional<int64_t> ReadDueTime(const v1::Event& event, absl::string_view field,
                                   FieldViolations* violations);
void CheckDueMicros(int64_t due_micros, absl::string_view field, FieldViolations* violations);
void CheckClientEventId(absl::string_view event_id, absl::string_view field,
                        FieldViolations* violations);

// The group that stores an interned delivery; not applied if it is stored already, which is as
// good.
kv::Group InternGroup(const InternedDelivery& interned);
std::string InternKey(const Uid& hash);

// As shown to users. `definition` may be null (not known any more).
v1::Event ShowWaitingEvent(const std::string& name, const storage::v1::EventRecord& row,
                           v1::EventState state, const storage::v1::DefinitionRecord* definition);
v1::Event ShowEndedEvent(const std::string& name, const storage::v1::DoneRecord& done);
v1::Outcome ShowOutcome(storage::v1::OutcomeKind outcome);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_EVENT_CODEC_H_
