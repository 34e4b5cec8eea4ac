// One-off events: public messages ↔ rows. Pure.

#ifndef SERVICES_MASTER_EVENTS_EVENT_CODEC_H_
#define SERVICES_MASTER_EVENTS_EVENT_CODEC_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "common/status/errors.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/resources.pb.h"
#include "services/master/codec/delivery_codec.h"

namespace escapement::master {

// Checks Event.due_time; `field` is its path.
std::optional<int64_t> ReadDueTime(const v1::Event& event, absl::string_view field,
                                   FieldViolations& violations);
void CheckDueMicros(int64_t due_micros, absl::string_view field, FieldViolations& violations);
void CheckClientEventId(absl::string_view event_id, absl::string_view field,
                        FieldViolations& violations);

// As shown to users. `definition` may be null (not known any more).
v1::Event ShowWaitingEvent(const std::string& name, const storage::v1::EventRecord& row,
                           v1::EventState state, const storage::v1::DefinitionRecord* definition);
// `position`: which event of the record's range it is, from 0.
v1::Event ShowEndedEvent(const std::string& name, const storage::v1::DoneRecord& done,
                         uint64_t position = 0);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_EVENTS_EVENT_CODEC_H_
