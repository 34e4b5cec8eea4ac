// EventRow: the record of a queue row, as the handler keeps it while it works on the row's events.

#ifndef SERVICES_HANDLER_SENDING_EVENT_ROW_H_
#define SERVICES_HANDLER_SENDING_EVENT_ROW_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "common/base/check.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement::handler {

// EventRow: an EventRecord that is read without a message. To make, write and drop a message for
// each one-off event would cost a fifth of its delivery, and most events need few fields.
//
// The getters have the names and meanings of EventRecord's. The others need the message: record()
// or MakeRecord.
//
// Threads: any, one at a time.
class EventRow {
 public:
  EventRow() = default;  // has the fields of an empty record
  explicit EventRow(storage::v1::EventRecord record);
  EventRow(EventRow&&) = default;
  EventRow& operator=(EventRow&&) = default;

  // Reads a stored record. False if it is malformed. `bytes` must outlive this row.
  bool Read(absl::string_view bytes);

  // Makes the message that record() returns. False if the record is malformed.
  bool KeepRecord();
  // The message. Only after KeepRecord, or if the row was made of a message.
  const storage::v1::EventRecord& record() const { return *CheckNotNull(record_.get()); }
  // A message without the payload.
  storage::v1::EventRecord MakeRecord() const;
  // Writes the stored bytes without the payload, and returns their end. Only of a row that was
  // read.
  char* WriteTo(char* to) const;
  // How many bytes WriteTo writes.
  size_t bytes() const { return bytes_.size() - (payload_end_ - payload_begin_); }
  // The stored bytes that hold the fields up to `count`. Only of a row that was read.
  absl::string_view up_to_count() const { return bytes_.substr(0, count_end_); }

  // Only of a row that was made of a message.
  void SetPayload(std::string payload);
  void ClearPayload() { SetPayload(std::string()); }

  bool one_off() const { return version_ == 0; }
  bool has_record() const { return record_ != nullptr; }
  bool has_tried() const { return has_tried_; }

  absl::string_view tenant() const { return tenant_; }
  uint64_t version() const { return version_; }
  absl::string_view definition_hash() const { return definition_hash_; }
  uint64_t count() const { return count_; }
  uint64_t run_count() const { return run_count_; }
  uint32_t attempts() const { return attempts_; }
  int64_t nominal_time_micros() const { return nominal_time_micros_; }
  int64_t launch_time_micros() const { return launch_time_micros_; }
  absl::string_view payload() const { return payload_; }
  absl::string_view event_id() const { return event_id_; }
  bool client_chosen_id() const { return client_chosen_id_; }
  bool run_kept() const { return run_kept_; }
  int64_t tried_since_micros() const { return tried_since_micros_; }
  uint32_t redrives() const { return redrives_; }
  uint32_t attempts_before_redrive() const { return attempts_before_redrive_; }
  bool counts_in_no_run() const { return counts_in_no_run_; }
  uint32_t lost_claims() const { return lost_claims_; }
  absl::string_view trace_parent() const { return trace_parent_; }
  uint64_t generation() const { return generation_; }
  uint64_t revision() const { return revision_; }
  bool maybe_sent() const { return maybe_sent_; }
  int64_t max_lateness_micros() const { return max_lateness_micros_; }

 private:
  absl::string_view bytes_;   // empty if the row was made of a message
  size_t count_end_ = 0;      // in bytes_
  size_t payload_begin_ = 0;  // in bytes_: the field with its tag
  size_t payload_end_ = 0;
  std::unique_ptr<storage::v1::EventRecord> record_;  // null: it has not been made

  absl::string_view tenant_;
  absl::string_view definition_hash_;
  absl::string_view payload_;
  absl::string_view event_id_;
  absl::string_view trace_parent_;
  uint64_t version_ = 0;
  uint64_t count_ = 0;
  uint64_t run_count_ = 0;
  int64_t nominal_time_micros_ = 0;
  int64_t launch_time_micros_ = 0;
  int64_t tried_since_micros_ = 0;
  int64_t max_lateness_micros_ = 0;
  uint64_t generation_ = 0;
  uint64_t revision_ = 0;
  uint32_t attempts_ = 0;
  uint32_t redrives_ = 0;
  uint32_t attempts_before_redrive_ = 0;
  uint32_t lost_claims_ = 0;
  bool client_chosen_id_ = false;
  bool run_kept_ = false;
  bool counts_in_no_run_ = false;
  bool maybe_sent_ = false;
  bool has_tried_ = false;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_SENDING_EVENT_ROW_H_
