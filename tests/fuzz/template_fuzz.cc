// Any text as the template of a message, filled in with any bytes as the payload.

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/templates/event_template.h"
#include "tests/fuzz/require.h"

namespace escapement::fuzz {
namespace {

constexpr size_t kBytesMax = 4096;

// The input: a template, a line break, a payload.
void CheckTemplate(absl::string_view input) {
  const absl::string_view text = input.substr(0, input.find('\n'));
  const auto parsed = EventTemplate::Parse(text);
  if (!parsed.ok()) {
    Require(absl::IsInvalidArgument(parsed.status()), "INVALID_ARGUMENT", input);
    return;
  }
  EventFacts facts;
  facts.payload = input.substr(text.size());
  facts.id = "e1";
  const std::string filled = parsed->Fill(facts, kBytesMax);
  Require(filled.size() <= kBytesMax, "the text is bounded", input);
  if (text.find("{{") == absl::string_view::npos)
    Require(filled == text.substr(0, filled.size()), "text without places stays", input);
}

}  // namespace
}  // namespace escapement::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  escapement::fuzz::CheckTemplate({reinterpret_cast<const char*>(data), size});
  return 0;
}
