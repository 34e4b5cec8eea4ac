// NdjsonBatch: some lines of an HTTP ingest, the Ingest message made from them, and the line of the
// answer for each. NdjsonLines: cuts the body into lines.
//
// Plain values; one thread at a time.

#ifndef SERVICES_MASTER_INGEST_NDJSON_BATCH_H_
#define SERVICES_MASTER_INGEST_NDJSON_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "escapement/v1/event_service.pb.h"

namespace escapement::master {

inline constexpr size_t kNdjsonLineBytesMax = 1 << 20;

// Cuts pieces of a body into lines.
class NdjsonLines {
 public:
  struct Line {
    int64_t number = 0;       // the first line of the body is 1
    std::string text;         // without its line break; empty with a fault
    absl::Status fault = {};  // why it is none
  };

  void Add(absl::string_view piece) { bytes_.append(piece.data(), piece.size()); }
  // The next complete line that is not blank. At the body's end (`last`) also what has no end.
  std::optional<Line> Next(bool last);
  // The rest of the body cannot be read: one more line, with this fault.
  void Fail(absl::Status why);

 private:
  std::string bytes_;
  size_t begin_ = 0;   // where the next line begins in bytes_
  size_t looked_ = 0;  // no line ends before this
  int64_t number_ = 0;
  bool skipping_ = false;  // the rest of a line that is too long
  absl::Status failed_;
};

class NdjsonBatch {
 public:
  explicit NdjsonBatch(std::string parent);

  // Reads one Event. A line that is none has its error in the answer.
  void Add(const NdjsonLines::Line& line);
  // A good size to send.
  bool full() const;
  size_t lines() const { return lines_.size(); }

  // The events that have no answer yet. Empty if there are none.
  const v1::IngestRequest& request() const { return request_; }
  bool answered() const { return request_.events().empty(); }
  // A line of it replaces or cancels an event.
  bool goes_alone() const { return goes_alone_; }
  void set_number(uint64_t number) { request_.set_batch_number(number); }

  // Takes the answer to request(). If events of it were refused, the others are to be sent again:
  // request() holds them. Server-made ids must have been asked for.
  void Take(const v1::IngestResponse& response);
  // All events without an answer have failed.
  void Fail(const absl::Status& why);

  // A line for each line of the body, each with its '\n'. Call once all are answered.
  std::string Answer() const;

 private:
  struct LineState {
    int64_t number = 0;
    std::string id;           // id of the created event
    const char* effect = "";  // stands in the answer after the name
    absl::Status error;
  };

  void Remove(const std::map<size_t, absl::Status>& refused);

  std::string parent_;
  v1::IngestRequest request_;
  size_t bytes_ = 0;
  bool goes_alone_ = false;
  std::vector<LineState> lines_;
  std::vector<size_t> line_of_event_;  // by position in request_
};

// RefusedEvents: which events of an Ingest batch were refused, by the violations of the refusal.
//
// Pure.

// The first violation of each refused event, by its position in the batch. Fields are named as
// those of an Event: "events[3].overrides.target" becomes "target". Empty: the refusal is of the
// batch as a whole. There may be more refused events than violations: send the other events again.
std::map<size_t, absl::Status> RefusedEvents(
    const std::vector<std::pair<std::string, std::string>>& violations, size_t events);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_INGEST_NDJSON_BATCH_H_
