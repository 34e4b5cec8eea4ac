// Any bytes as the body of an NDJSON ingest. The first byte says how the body is cut into pieces.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "services/master/ingest/ndjson_batch.h"
#include "tests/fuzz/require.h"

namespace escapement::fuzz {
namespace {

using Line = master::NdjsonLines::Line;

std::vector<Line> LinesOf(absl::string_view body, size_t piece_bytes) {
  master::NdjsonLines lines;
  std::vector<Line> found;
  const auto take = [&](bool last) {
    while (auto line = lines.Next(last)) found.push_back(*std::move(line));
  };
  for (size_t at = 0; at < body.size(); at += piece_bytes) {
    lines.Add(body.substr(at, piece_bytes));
    take(false);
  }
  take(true);
  return found;
}

bool HasPlainId(const v1::IngestEvent& event) {
  return absl::c_all_of(event.event_id(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
  });
}

void CheckBody(absl::string_view input) {
  if (input.empty()) return;
  const absl::string_view body = input.substr(1);
  const std::vector<Line> lines = LinesOf(body, 1 + static_cast<uint8_t>(input[0]));
  const std::vector<Line> whole = LinesOf(body, body.size() + 1);
  Require(lines.size() == whole.size(), "pieces do not matter", input);
  size_t wanted = 0;
  for (absl::string_view line : absl::StrSplit(body, '\n'))
    wanted += absl::StripAsciiWhitespace(line).empty() ? 0 : 1;
  Require(lines.size() == wanted, "each line that is not blank", input);
  master::NdjsonBatch batch("tenants/t");
  for (size_t i = 0; i < lines.size(); ++i) {
    Require(lines[i].text == whole[i].text && lines[i].number == whole[i].number,
            "pieces do not matter", input);
    Require(i == 0 || lines[i].number > lines[i - 1].number, "numbers go up", input);
    batch.Add(lines[i]);
  }
  Require(batch.lines() == lines.size(), "each line is in the batch", input);
  // As the server: it refuses ids with other characters, and makes ids for events without one.
  v1::IngestResponse refused;
  for (int i = 0; i < batch.request().events_size(); ++i) {
    if (HasPlainId(batch.request().events(i))) continue;
    refused.set_error_code(static_cast<int>(absl::StatusCode::kInvalidArgument));
    refused.mutable_bad_request()->add_field_violations()->set_field(
        absl::StrCat("events[", i, "].event_id"));
  }
  if (refused.error_code() != 0) batch.Take(refused);
  v1::IngestResponse response;
  for (int i = 0; i < batch.request().events_size(); ++i) {
    Require(HasPlainId(batch.request().events(i)), "refused events are not sent again", input);
    if (batch.request().events(i).event_id().empty()) response.add_event_ids("made");
  }
  if (!batch.answered()) batch.Take(response);
  Require(batch.answered(), "the batch is answered", input);
  size_t answers = 0;
  const std::string answer = batch.Answer();
  for (absl::string_view line : absl::StrSplit(answer, '\n', absl::SkipEmpty())) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    Require(json.is_object() && json.value("line", int64_t{0}) == lines[answers].number,
            "an answer names its line", input);
    Require(json.contains("name") != json.contains("error"), "a name or an error", input);
    ++answers;
  }
  Require(answers == lines.size(), "each line has an answer", input);
}

}  // namespace
}  // namespace escapement::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  escapement::fuzz::CheckBody({reinterpret_cast<const char*>(data), size});
  return 0;
}
