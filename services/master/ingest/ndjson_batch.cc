#include "services/master/ingest/ndjson_batch.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/rest/json_bytes.h"
#include "common/rest/request_reader.h"
#include "common/status/errors.h"
#include "services/master/api/master_apis.h"
#include "services/master/base/errors.h"

namespace escapement::master {

namespace {

constexpr size_t kBatchEvents = 1000;
constexpr size_t kBatchBytes = 1 << 20;

absl::StatusOr<v1::Event> ReadEvent(const std::string& text) {
  absl::StatusOr<v1::Event> event = rest::EventFromJson(text);
  if (!event.ok()) return InvalidField("line", event.status().message());
  return event;
}

absl::Status TooLong() {
  return InvalidField("line", absl::StrCat("must have at most ", kNdjsonLineBytesMax, " bytes"));
}

}  // namespace

void NdjsonLines::Fail(absl::Status why) {
  // The end of what could be read is half a line.
  bytes_.resize(bytes_.rfind('\n') + 1);
  begin_ = std::min(begin_, bytes_.size());
  looked_ = std::min(looked_, bytes_.size());
  failed_ = std::move(why);
}

std::optional<NdjsonLines::Line> NdjsonLines::Next(bool last) {
  while (true) {
    if (last && begin_ == bytes_.size() && !failed_.ok()) {
      Line line{.number = ++number_, .text = {}, .fault = {}};
      std::swap(line.fault, failed_);
      return line;
    }
    size_t end = bytes_.find('\n', looked_);
    const bool whole = end != std::string::npos;
    if (!whole) end = bytes_.size();
    looked_ = end;
    if (!whole && (!last || begin_ == end)) {
      bytes_.erase(0, begin_);
      looked_ -= std::exchange(begin_, 0);
      if (bytes_.size() <= kNdjsonLineBytesMax) return std::nullopt;
      // Forget its bytes, and refuse it once.
      bytes_.clear();
      looked_ = 0;
      if (std::exchange(skipping_, true)) return std::nullopt;
      return Line{.number = ++number_, .text = {}, .fault = TooLong()};
    }
    Line line{.text = bytes_.substr(begin_, end - begin_), .fault = {}};
    begin_ = looked_ = whole ? end + 1 : end;
    if (std::exchange(skipping_, false)) continue;
    line.number = ++number_;
    if (line.text.size() > kNdjsonLineBytesMax) {
      line.text.clear();
      line.fault = TooLong();
      return line;
    }
    if (absl::StripAsciiWhitespace(line.text).empty()) continue;
    return line;
  }
}

NdjsonBatch::NdjsonBatch(std::string parent) : parent_(std::move(parent)) {
  request_.set_parent(parent_);
}

void NdjsonBatch::Add(const NdjsonLines::Line& line) {
  LineState& state = lines_.emplace_back();
  state.number = line.number;
  if (!line.fault.ok()) {
    state.error = line.fault;
    return;
  }
  absl::StatusOr<v1::Event> event = ReadEvent(line.text);
  if (!event.ok()) {
    state.error = event.status();
    return;
  }
  std::optional<v1::IngestEvent> ingested = rest::ToIngestEvent(*std::move(event));
  if (!ingested.has_value()) {
    state.error = InvalidField("due_time", "is not a valid time");
    return;
  }
  state.id = ingested->event_id();
  goes_alone_ |= TakesBack(*ingested);
  if (ingested->mode() == v1::Event::CANCEL) state.effect = ",\"cancelled\":true";
  *request_.add_events() = *std::move(ingested);
  line_of_event_.push_back(lines_.size() - 1);
  bytes_ += line.text.size();
}

bool NdjsonBatch::full() const { return lines_.size() >= kBatchEvents || bytes_ >= kBatchBytes; }

void NdjsonBatch::Take(const v1::IngestResponse& response) {
  if (response.error_code() == 0) {
    const auto line_of = [&](int32_t position) -> LineState& {
      return lines_[line_of_event_[static_cast<size_t>(position)]];
    };
    for (const int32_t position : response.existing_positions())
      line_of(position).effect = ",\"existing\":true";
    for (const int32_t position : response.replaced_positions())
      line_of(position).effect = ",\"replaced\":true";
    for (const int32_t position : response.cancelled_positions()) {
      LineState& line = line_of(position);
      line.error = EventIdCancelled(absl::StrCat(parent_, "/events/", line.id));
    }
    for (const v1::IgnoredEvent& ignored : response.ignored()) {
      line_of(ignored.position()).effect = ",\"superseded\":true";
      line_of(ignored.position()).error = ErrorOf(ignored);
    }
    int made = 0;
    for (const size_t line : line_of_event_) {
      if (lines_[line].id.empty() && made < response.event_ids_size())
        lines_[line].id = response.event_ids(made++);
    }
    request_.clear_events();
    line_of_event_.clear();
    return;
  }
  std::vector<std::pair<std::string, std::string>> violations;
  for (const auto& violation : response.bad_request().field_violations())
    violations.emplace_back(violation.field(), violation.description());
  const std::map<size_t, absl::Status> refused = RefusedEvents(violations, line_of_event_.size());
  if (!refused.empty()) return Remove(refused);
  const auto code = static_cast<absl::StatusCode>(response.error_code());
  Fail(MakeError(code, "BATCH_REFUSED", response.error_message()));
}

void NdjsonBatch::Remove(const std::map<size_t, absl::Status>& refused) {
  v1::IngestRequest others;
  others.set_parent(parent_);
  std::vector<size_t> lines;
  for (size_t i = 0; i < line_of_event_.size(); ++i) {
    if (const auto found = refused.find(i); found != refused.end()) {
      lines_[line_of_event_[i]].error = found->second;
      continue;
    }
    others.add_events()->Swap(request_.mutable_events(static_cast<int>(i)));
    lines.push_back(line_of_event_[i]);
  }
  request_ = std::move(others);
  line_of_event_ = std::move(lines);
}

void NdjsonBatch::Fail(const absl::Status& why) {
  for (const size_t line : line_of_event_) {
    if (lines_[line].error.ok()) lines_[line].error = why;
  }
  request_.clear_events();
  line_of_event_.clear();
}

std::string NdjsonBatch::Answer() const {
  std::string answer;
  for (const LineState& line : lines_) {
    absl::StrAppend(&answer, "{\"line\":", line.number, ",");
    if (line.error.ok()) {
      // An id needs no escapes.
      absl::StrAppend(&answer, "\"name\":\"", parent_, "/events/", line.id, "\"", line.effect,
                      "}\n");
    } else {
      absl::StrAppend(&answer, rest::ErrorAnswer(line.error).body.substr(1));
    }
  }
  return answer;
}

namespace {

// Splits "events[3].payload" into 3 and "payload". nullopt: the violation is not of one event.
std::optional<std::pair<size_t, std::string>> EventOf(absl::string_view field) {
  size_t position = 0;
  if (!absl::ConsumePrefix(&field, "events[")) return std::nullopt;
  const size_t close = field.find(']');
  if (close == absl::string_view::npos || !absl::SimpleAtoi(field.substr(0, close), &position))
    return std::nullopt;
  field.remove_prefix(close + 1);
  absl::ConsumePrefix(&field, ".");
  absl::ConsumePrefix(&field, "overrides.");
  return std::make_pair(position, std::string(field));
}

}  // namespace

std::map<size_t, absl::Status> RefusedEvents(
    const std::vector<std::pair<std::string, std::string>>& violations, size_t events) {
  std::map<size_t, absl::Status> refused;
  for (const auto& [field, description] : violations) {
    const auto named = EventOf(field);
    if (!named.has_value() || named->first >= events) return {};
    refused.emplace(named->first, InvalidField(named->second, description));
  }
  return refused;
}

}  // namespace escapement::master
