#include "services/master/ingest/kafka/ingest_item.h"

namespace escapement::master {
namespace {

// Each message takes this besides its key and value: its structures, and those of its event.
constexpr size_t kOverheadBytes = 512;

std::optional<absl::string_view> TextOf(const void* bytes, size_t size) {
  if (bytes == nullptr) return std::nullopt;
  return absl::string_view(static_cast<const char*>(bytes), size);
}

}  // namespace

KafkaMessageView ViewOf(const rd_kafka_message_t& message) {
  rd_kafka_timestamp_type_t type = RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
  KafkaMessageView view = {.topic = rd_kafka_topic_name(message.rkt),
                           .partition = message.partition,
                           .offset = message.offset,
                           .timestamp_millis = rd_kafka_message_timestamp(&message, &type),
                           .key = TextOf(message.key, message.key_len),
                           .value = TextOf(message.payload, message.len)};
  rd_kafka_headers_t* headers = nullptr;
  if (rd_kafka_message_headers(&message, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR) return view;
  const char* name = nullptr;
  const void* value = nullptr;
  size_t size = 0;
  for (size_t i = 0;
       rd_kafka_header_get_all(headers, i, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR; ++i)
    view.headers.emplace_back(name, TextOf(value, size).value_or(""));
  return view;
}

size_t BytesOf(const rd_kafka_message_t& message) {
  return message.len + message.key_len + kOverheadBytes;
}

}  // namespace escapement::master
