// Any bytes as "list<newline>token": a token is accepted only if it is the one that was given out.

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "services/master/requests/range_reader.h"
#include "tests/fuzz/require.h"

namespace escapement::fuzz {
namespace {

void CheckToken(absl::string_view input) {
  const size_t end = input.find('\n');
  if (end == absl::string_view::npos) return;
  const absl::string_view list = input.substr(0, end);
  const absl::string_view rest = input.substr(end + 1);
  const auto position = master::DecodePageToken(list, rest);
  if (position.ok()) {
    Require(rest.empty() == position->empty(), "only the empty token is the begin", input);
    Require(rest.empty() || master::EncodePageToken(list, *position) == rest,
            "an accepted token was given out", input);
  }
  if (rest.empty()) return;
  // The rest as a position.
  const std::string token = master::EncodePageToken(list, rest);
  const auto decoded = master::DecodePageToken(list, token);
  Require(decoded.ok() && *decoded == rest, "a token is read back", input);
  Require(!master::DecodePageToken(std::string(list) + "x", token).ok(),
          "another list refuses the token", input);
}

}  // namespace
}  // namespace escapement::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  escapement::fuzz::CheckToken({reinterpret_cast<const char*>(data), size});
  return 0;
}
