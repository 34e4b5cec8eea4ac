#include "services/master/ingest/kafka/kafka_batch.h"

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/status/errors.h"
#include "services/master/api/master_apis.h"

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

RefusalKind KindOfRefusal(const absl::Status& refusal, size_t messages) {
  switch (refusal.code()) {
    case absl::StatusCode::kInvalidArgument:
      return messages > 1 ? RefusalKind::kSplit : RefusalKind::kFinal;
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
      return RefusalKind::kFinal;
    case absl::StatusCode::kResourceExhausted: {
      const std::string quota = ErrorMetadataValue(refusal, "quota");
      // A payload does not get smaller, so waiting does not help.
      if (quota == "max_payload_bytes")
        return messages > 1 ? RefusalKind::kSplit : RefusalKind::kFinal;
      // The quota may have room for some of the events, or may be smaller than the batch.
      if (quota == "max_pending_events" && messages > 1) return RefusalKind::kRetryParts;
      return RefusalKind::kRetry;
    }
    default:
      return RefusalKind::kRetry;
  }
}

KafkaBatch::KafkaBatch(std::string tenant)
    : tenant_(std::move(tenant)), request_(std::make_shared<v1::IngestRequest>()) {
  request_->set_parent(absl::StrCat("tenants/", tenant_));
}

void KafkaBatch::Add(IngestItem item, v1::IngestEvent event) {
  bytes_ += BytesOf(*item.message);
  items_.push_back(std::move(item));
  goes_alone_ |= TakesBack(event);
  *request_->add_events() = std::move(event);
}

void KafkaBatch::RemoveIf(absl::FunctionRef<bool(size_t position, const IngestItem& item)> refused,
                          absl::FunctionRef<void(size_t position, IngestItem item)> take) {
  size_t kept = 0;
  for (size_t i = 0; i < items_.size(); ++i) {
    if (refused(i, items_[i])) {
      bytes_ -= BytesOf(*items_[i].message);
      take(i, std::move(items_[i]));
      continue;
    }
    if (kept != i) {
      items_[kept] = std::move(items_[i]);
      request_->mutable_events()->SwapElements(static_cast<int>(kept), static_cast<int>(i));
    }
    ++kept;
  }
  request_->mutable_events()->DeleteSubrange(static_cast<int>(kept),
                                             static_cast<int>(items_.size() - kept));
  items_.resize(kept);
}

KafkaBatch KafkaBatch::TakeHalf() {
  CHECK_GT(items_.size(), 1u);
  KafkaBatch half(tenant_);
  const size_t kept = items_.size() / 2;
  RemoveIf([&](size_t position, const IngestItem&) { return position >= kept; },
           [&](size_t position, IngestItem item) {
             half.Add(std::move(item),
                      std::move(*request_->mutable_events(static_cast<int>(position))));
           });
  return half;
}

}  // namespace escapement::master
