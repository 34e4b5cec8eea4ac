#include "services/handler/delivery/grpc/message.h"

#include <cstring>

#include "absl/strings/string_view.h"
#include "common/base/micros.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/trigger_receiver_service.pb.h"
#include "google/protobuf/io/coded_stream.h"

namespace escapement::handler {
namespace {

using google::protobuf::io::CodedOutputStream;

// The functions below write fields with numbers below 16 (so a tag is one byte) to a buffer that
// has room for them, and return the end of the written bytes.

constexpr size_t kNumberBytesMax = 1 + 10;
constexpr size_t kTimeBytesMax = 2 + 2 * kNumberBytesMax;

uint8_t* WriteNumber(int field, uint64_t value, uint8_t* to) {
  if (value == 0) return to;
  *to++ = static_cast<uint8_t>(field << 3);
  return CodedOutputStream::WriteVarint64ToArray(value, to);
}

uint8_t* WriteBytes(int field, absl::string_view value, uint8_t* to) {
  if (value.empty()) return to;
  *to++ = static_cast<uint8_t>((field << 3) | 2);
  to = CodedOutputStream::WriteVarint64ToArray(value.size(), to);
  std::memcpy(to, value.data(), value.size());
  return to + value.size();
}

// A google.protobuf.Timestamp.
uint8_t* WriteTime(int field, absl::Time time, uint8_t* to) {
  const int64_t micros = ToMicros(time);
  int64_t seconds = micros / 1'000'000;
  if (micros % 1'000'000 < 0) --seconds;
  *to++ = static_cast<uint8_t>((field << 3) | 2);
  uint8_t* const size = to++;  // one byte
  to = WriteNumber(google::protobuf::Timestamp::kSecondsFieldNumber, static_cast<uint64_t>(seconds),
                   to);
  to = WriteNumber(google::protobuf::Timestamp::kNanosFieldNumber,
                   static_cast<uint64_t>(micros - seconds * 1'000'000) * 1000, to);
  *size = static_cast<uint8_t>(to - size - 1);
  return to;
}

// The fields that all attempts of the context's events share.
size_t CommonBytesMax(const DeliveryContext& context) {
  return context.source.size() + context.occurrence.size() + context.payload->size() +
         context.definition->delivery().content_type().size() + 5 * kNumberBytesMax +
         2 * kTimeBytesMax;
}

uint8_t* WriteCommon(const DeliveryContext& context, uint8_t* to) {
  to = WriteBytes(v1::Delivery::kSourceFieldNumber, context.source, to);
  to = WriteTime(v1::Delivery::kNominalTimeFieldNumber, context.nominal_time, to);
  to = WriteTime(v1::Delivery::kLaunchTimeFieldNumber, context.launch_time, to);
  to = WriteBytes(v1::Delivery::kOccurrenceFieldNumber, context.occurrence, to);
  to = WriteNumber(v1::Delivery::kCountFieldNumber, context.run_count, to);
  to = WriteBytes(v1::Delivery::kContentTypeFieldNumber,
                  context.definition->delivery().content_type(), to);
  return WriteBytes(v1::Delivery::kPayloadFieldNumber, *context.payload, to);
}

uint8_t* Begin(std::string& bytes) { return reinterpret_cast<uint8_t*>(bytes.data()); }

}  // namespace

void DeliveryEncoder::Encode(const DeliveryAttempt& attempt, uint64_t delivery_number,
                             std::string* bytes) {
  const DeliveryContext& context = *attempt.context;
  const bool shared = context.run_count > 1;
  if (shared && context_ != attempt.context) {
    common_.resize(CommonBytesMax(context));
    common_.resize(static_cast<size_t>(WriteCommon(context, Begin(common_)) - Begin(common_)));
    context_ = attempt.context;
  }
  bytes->resize(attempt.event_id.size() + attempt.token.size() + 5 * kNumberBytesMax +
                (shared ? common_.size() : CommonBytesMax(context)));
  uint8_t* to = Begin(*bytes);
  to = WriteNumber(v1::Delivery::kDeliveryNumberFieldNumber, delivery_number, to);
  to = WriteBytes(v1::Delivery::kEventIdFieldNumber, attempt.event_id, to);
  to = WriteNumber(v1::Delivery::kIndexFieldNumber, attempt.index, to);
  to = WriteNumber(v1::Delivery::kAttemptFieldNumber, attempt.attempt, to);
  to = WriteBytes(v1::Delivery::kTokenFieldNumber, attempt.token, to);
  if (shared) {
    std::memcpy(to, common_.data(), common_.size());
    to += common_.size();
  } else {
    to = WriteCommon(context, to);
  }
  bytes->resize(static_cast<size_t>(to - Begin(*bytes)));
}

}  // namespace escapement::handler
