#include "services/handler/grpc_transport_message.h"

#include "absl/strings/string_view.h"
#include "common/base/micros.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/trigger_receiver_service.pb.h"

namespace escapement::handler {
namespace {

void AppendVarint(uint64_t value, std::string* bytes) {
  while (value >= 0x80) {
    bytes->push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  bytes->push_back(static_cast<char>(value));
}

// Fields with numbers below 16, so that the tag is one byte.
void AppendNumber(int field, uint64_t value, std::string* bytes) {
  if (value == 0) return;
  bytes->push_back(static_cast<char>(field << 3));
  AppendVarint(value, bytes);
}

void AppendBytes(int field, absl::string_view value, std::string* bytes) {
  if (value.empty()) return;
  bytes->push_back(static_cast<char>((field << 3) | 2));
  AppendVarint(value.size(), bytes);
  bytes->append(value.data(), value.size());
}

void SetTimestamp(absl::Time time, google::protobuf::Timestamp* timestamp) {
  const int64_t micros = ToMicros(time);
  int64_t seconds = micros / 1'000'000;
  if (micros % 1'000'000 < 0) --seconds;
  timestamp->set_seconds(seconds);
  timestamp->set_nanos(static_cast<int32_t>((micros - seconds * 1'000'000) * 1000));
}

std::string CommonBytes(const DeliveryContext& context) {
  v1::Delivery common;
  common.set_source(context.source);
  SetTimestamp(context.nominal_time, common.mutable_nominal_time());
  SetTimestamp(context.launch_time, common.mutable_launch_time());
  common.set_occurrence(context.occurrence);
  common.set_count(static_cast<int64_t>(context.run_count));
  common.set_content_type(context.definition->delivery().content_type());
  std::string bytes = common.SerializeAsString();
  AppendBytes(v1::Delivery::kPayloadFieldNumber, *context.payload, &bytes);
  return bytes;
}

}  // namespace

void DeliveryEncoder::Encode(const DeliveryAttempt& attempt, uint64_t delivery_number,
                             std::string* bytes) {
  if (context_ != attempt.context) {
    common_ = CommonBytes(*attempt.context);
    context_ = attempt.context;
  }
  bytes->clear();
  bytes->reserve(common_.size() + attempt.event_id.size() + attempt.token.size() + 40);
  AppendNumber(v1::Delivery::kDeliveryNumberFieldNumber, delivery_number, bytes);
  AppendBytes(v1::Delivery::kEventIdFieldNumber, attempt.event_id, bytes);
  AppendNumber(v1::Delivery::kIndexFieldNumber, attempt.index, bytes);
  AppendNumber(v1::Delivery::kAttemptFieldNumber, attempt.attempt, bytes);
  AppendBytes(v1::Delivery::kTokenFieldNumber, attempt.token, bytes);
  bytes->append(common_);
}

}  // namespace escapement::handler
