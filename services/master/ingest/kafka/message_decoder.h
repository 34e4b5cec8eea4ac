// MessageDecoder: a message of Kafka → the event that it asks for.
//
// The value is an Event (escapement/v1/resources.proto), as JSON or as protobuf. Headers say which:
//
//   content-type        application/json (default) or application/protobuf; parameters are ignored
//   escapement-tenant   the id of the tenant; see topic_rules.h
//
// As a line of events:ingest, an event without due_time is due at once. An event without event_id
// gets one that follows from the message and its place in the topic, so a message that is read
// again makes no second event. The id also depends on the content: if a topic is deleted and made
// again, its new messages have other ids.
//
// The decoder does not validate the event: the master's ingestion does.
//
// Pure functions.

#ifndef SERVICES_MASTER_INGEST_KAFKA_MESSAGE_DECODER_H_
#define SERVICES_MASTER_INGEST_KAFKA_MESSAGE_DECODER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "escapement/v1/event_service.pb.h"
#include "services/master/ingest/kafka/topic_rules.h"

namespace escapement::master {

// A longer value is refused.
inline constexpr size_t kKafkaValueBytesMax = 1 << 20;

// A message, as views of memory that somebody else owns.
struct KafkaMessageView {
  absl::string_view topic;
  int32_t partition = 0;
  int64_t offset = 0;
  int64_t timestamp_millis = -1;                        // -1: none
  std::optional<absl::string_view> key = std::nullopt;  // nullopt: null
  std::optional<absl::string_view> value = std::nullopt;
  // A null value counts as an empty one.
  std::vector<std::pair<absl::string_view, absl::string_view>> headers = {};
};

struct DecodedMessage {
  std::string tenant;
  v1::IngestEvent event;  // with an id
};

// INVALID_ARGUMENT or PERMISSION_DENIED: this message can never make an event.
absl::StatusOr<DecodedMessage> DecodeMessage(const KafkaMessageView& message,
                                             const TopicRules& rules);

// The id of the event of a message that gives none.
std::string EventIdOf(const KafkaMessageView& message);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_INGEST_KAFKA_MESSAGE_DECODER_H_
