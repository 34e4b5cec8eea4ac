#include "services/handler/sending/event_row.h"

#include <bit>
#include <cstring>
#include <utility>

namespace escapement::handler {

namespace {

using storage::v1::EventRecord;

// Reads one field of a message in its wire format at a time.
class FieldReader {
 public:
  explicit FieldReader(absl::string_view bytes)
      : begin_(bytes.data()), at_(begin_), end_(begin_ + bytes.size()) {}

  // False at the end, or if the message is malformed.
  bool Next() {
    uint64_t tag = 0;
    if (at_ == end_ || !ReadNumber(&tag)) return false;
    field_ = tag >> 3;
    switch (tag & 7) {
      case 0:
        return ReadNumber(&number_);
      case 1:
        return ReadText(8);
      case 2:
        return ReadNumber(&number_) && ReadText(number_);
      case 5:
        return ReadText(4);
      default:
        return Fail();
    }
  }

  bool ok() const { return ok_; }
  uint64_t field() const { return field_; }
  uint64_t number() const { return number_; }       // the value of an integer
  absl::string_view text() const { return text_; }  // the value of bytes or text
  size_t position() const { return static_cast<size_t>(at_ - begin_); }

 private:
  bool Fail() { return ok_ = false; }
  bool ReadNumber(uint64_t* number) {
    if (at_ != end_ && static_cast<signed char>(*at_) >= 0) {
      *number = static_cast<uint64_t>(*at_++);
      return true;
    }
    if (end_ - at_ >= 8 && ReadUpToEightBytes(number)) return true;
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && at_ != end_; shift += 7) {
      const auto byte = static_cast<unsigned char>(*at_++);
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) {
        *number = value;
        return true;
      }
    }
    return Fail();
  }
  // False if the number is longer. There must be eight bytes.
  bool ReadUpToEightBytes(uint64_t* number) {
    uint64_t value;
    std::memcpy(&value, at_, 8);
    const uint64_t ends = ~value & 0x8080808080808080;
    if (ends == 0) return false;
    at_ += (std::countr_zero(ends) + 1) / 8;
    value &= ends ^ (ends - 1);  // up to the first end
    value &= 0x7f7f7f7f7f7f7f7f;
    value = (value & 0x007f007f007f007f) | (value & 0x7f007f007f007f00) >> 1;
    value = (value & 0x00003fff00003fff) | (value & 0x3fff00003fff0000) >> 2;
    *number = (value & 0x000000000fffffff) | (value & 0x0fffffff00000000) >> 4;
    return true;
  }
  bool ReadText(uint64_t bytes) {
    if (bytes > static_cast<uint64_t>(end_ - at_)) return Fail();
    text_ = {at_, static_cast<size_t>(bytes)};
    at_ += bytes;
    return true;
  }

  const char* const begin_;
  const char* at_;
  const char* const end_;
  bool ok_ = true;
  uint64_t field_ = 0;
  uint64_t number_ = 0;
  absl::string_view text_;
};

}  // namespace

EventRow::EventRow(EventRecord record)
    : record_(std::make_unique<EventRecord>(std::move(record))),
      tenant_(record_->tenant()),
      definition_hash_(record_->definition_hash()),
      payload_(record_->payload()),
      event_id_(record_->event_id()),
      trace_parent_(record_->trace_parent()),
      version_(record_->version()),
      count_(record_->count()),
      run_count_(record_->run_count()),
      nominal_time_micros_(record_->nominal_time_micros()),
      launch_time_micros_(record_->launch_time_micros()),
      tried_since_micros_(record_->tried_since_micros()),
      max_lateness_micros_(record_->max_lateness_micros()),
      generation_(record_->generation()),
      revision_(record_->revision()),
      attempts_(record_->attempts()),
      redrives_(record_->redrives()),
      attempts_before_redrive_(record_->attempts_before_redrive()),
      lost_claims_(record_->lost_claims()),
      client_chosen_id_(record_->client_chosen_id()),
      run_kept_(record_->run_kept()),
      counts_in_no_run_(record_->counts_in_no_run()),
      maybe_sent_(record_->maybe_sent()),
      has_tried_(record_->tried_size() > 0) {}

bool EventRow::Read(absl::string_view bytes) {
  *this = EventRow();
  bytes_ = bytes;
  FieldReader fields(bytes);
  bool up_to_count = true;
  for (size_t begin = 0; fields.Next(); begin = fields.position()) {
    const uint64_t number = fields.number();
    const absl::string_view text = fields.text();
    switch (fields.field()) {
      case EventRecord::kTenantFieldNumber:
        tenant_ = text;
        break;
      case EventRecord::kVersionFieldNumber:
        version_ = number;
        break;
      case EventRecord::kDefinitionHashFieldNumber:
        definition_hash_ = text;
        break;
      case EventRecord::kCountFieldNumber:
        count_ = number;
        break;
      case EventRecord::kRunCountFieldNumber:
        run_count_ = number;
        break;
      case EventRecord::kAttemptsFieldNumber:
        attempts_ = static_cast<uint32_t>(number);
        break;
      case EventRecord::kNominalTimeMicrosFieldNumber:
        nominal_time_micros_ = static_cast<int64_t>(number);
        break;
      case EventRecord::kLaunchTimeMicrosFieldNumber:
        launch_time_micros_ = static_cast<int64_t>(number);
        break;
      case EventRecord::kPayloadFieldNumber:
        payload_ = text;
        break;
      case EventRecord::kEventIdFieldNumber:
        event_id_ = text;
        break;
      case EventRecord::kClientChosenIdFieldNumber:
        client_chosen_id_ = number != 0;
        break;
      case EventRecord::kRunKeptFieldNumber:
        run_kept_ = number != 0;
        break;
      case EventRecord::kTriedSinceMicrosFieldNumber:
        tried_since_micros_ = static_cast<int64_t>(number);
        break;
      case EventRecord::kTriedFieldNumber:
        has_tried_ = true;
        break;
      case EventRecord::kRedrivesFieldNumber:
        redrives_ = static_cast<uint32_t>(number);
        break;
      case EventRecord::kAttemptsBeforeRedriveFieldNumber:
        attempts_before_redrive_ = static_cast<uint32_t>(number);
        break;
      case EventRecord::kCountsInNoRunFieldNumber:
        counts_in_no_run_ = number != 0;
        break;
      case EventRecord::kLostClaimsFieldNumber:
        lost_claims_ = static_cast<uint32_t>(number);
        break;
      case EventRecord::kTraceParentFieldNumber:
        trace_parent_ = text;
        break;
      case EventRecord::kGenerationFieldNumber:
        generation_ = number;
        break;
      case EventRecord::kRevisionFieldNumber:
        revision_ = number;
        break;
      case EventRecord::kMaybeSentFieldNumber:
        maybe_sent_ = number != 0;
        break;
      case EventRecord::kMaxLatenessMicrosFieldNumber:
        max_lateness_micros_ = static_cast<int64_t>(number);
        break;
      default:
        break;
    }
    up_to_count = up_to_count && fields.field() <= EventRecord::kCountFieldNumber;
    if (up_to_count) count_end_ = fields.position();
    if (fields.field() != EventRecord::kPayloadFieldNumber) continue;
    payload_begin_ = begin;
    payload_end_ = fields.position();
  }
  return fields.ok();
}

bool EventRow::KeepRecord() {
  auto record = std::make_unique<EventRecord>();
  if (!record->ParseFromArray(bytes_.data(), static_cast<int>(bytes_.size()))) return false;
  record_ = std::move(record);
  return true;
}

EventRecord EventRow::MakeRecord() const {
  EventRecord record;
  if (record_ != nullptr) {
    record = *record_;
  } else {
    record.ParseFromArray(bytes_.data(), static_cast<int>(bytes_.size()));
  }
  record.clear_payload();
  return record;
}

char* EventRow::WriteTo(char* to) const {
  std::memcpy(to, bytes_.data(), payload_begin_);
  std::memcpy(to + payload_begin_, bytes_.data() + payload_end_, bytes_.size() - payload_end_);
  return to + bytes();
}

void EventRow::SetPayload(std::string payload) {
  CHECK(bytes_.empty() && record_ != nullptr);
  record_->set_payload(std::move(payload));
  payload_ = record_->payload();
}

}  // namespace escapement::handler
