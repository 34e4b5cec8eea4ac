// DecodeMessage: a message of Kafka → the event that it asks for. TopicRules: the topics that are
// ingested, and the tenants that each topic may write to.

#ifndef SERVICES_MASTER_INGEST_KAFKA_MESSAGE_DECODER_H_
#define SERVICES_MASTER_INGEST_KAFKA_MESSAGE_DECODER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "escapement/v1/event_service.pb.h"

namespace escapement::master {

// TopicRules: the topics that are ingested, and the tenants that each topic may write to.
//
// A text names them: "TOPIC=TENANT|TENANT...", separated by commas. The first tenant of a topic
// gets the messages that name none. A topic without tenants may write to the default tenant only.
// "*" stands for every tenant and must be written out: "orders=*" needs a tenant in each message,
// "orders=team-a|*" has a tenant for messages that name none.
//
// A plain value.
class TopicRules {
 public:
  // INVALID_ARGUMENT: a malformed topic or tenant, a topic that is named twice, or no topic.
  static absl::StatusOr<TopicRules> Parse(const std::vector<std::string>& topics,
                                          const std::string& default_tenant);

  // The tenant of a message. `named` is the tenant that the message names, "" if it names none.
  // INVALID_ARGUMENT: it names none, and the topic has none for such messages, or the name is
  // malformed. PERMISSION_DENIED: the topic must not write to this tenant.
  absl::StatusOr<std::string> TenantOf(absl::string_view topic, absl::string_view named) const;

  bool Has(absl::string_view topic) const { return rules_.find(topic) != rules_.end(); }
  std::vector<std::string> Topics() const;

 private:
  struct Rule {
    std::vector<std::string> tenants;  // the first one gets messages that name none
    bool any = false;
  };
  std::map<std::string, Rule, std::less<>> rules_;
};

// True if Kafka takes the name for a topic.
bool IsTopicName(absl::string_view name);

// DecodeMessage: a message of Kafka → the event that it asks for.
//
// The value is an Event (escapement/v1/resources.proto), as JSON or as protobuf. Headers say which:
//
//   content-type        application/json (default) or application/protobuf; parameters are ignored
//   escapement-tenant   the id of the tenant; see TopicRules
//   escapement-policy   id or full name of the throttling policy, if the value names none
//                       (several limits are in the value)
//   escapement-mode     CREATE (default), UPSERT or CANCEL, if the value names none
//                       (IngestEvent.mode)
//
// A message with a key and without a value (a tombstone) cancels the event whose id is the key. The
// key is also the id of an UPSERT or CANCEL whose value has none. They are applied in the order
// of their partition, and again after a crash.
//
// As in a line of events:ingest, an event without due_time is due at once. An event without
// event_id gets one that follows from the message and its place in the topic, so a message that is
// read again makes no second event. The id also depends on the content: if a topic is deleted and
// made again, its new messages have other ids.
//
// The decoder does not validate the event: the master's ingestion does.
//
// Pure functions.

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
  // A header's null counts as an empty one.
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
