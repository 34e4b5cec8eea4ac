// Any bytes as "METHOD path" of a REST request.

#include <cstddef>
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "common/rest/path_template.h"
#include "tests/fixtures/http_receiver.h"
#include "tests/fuzz/require.h"

namespace escapement::fuzz {
namespace {

void CheckPath(absl::string_view input) {
  const size_t blank = input.find(' ');
  const absl::string_view method = input.substr(0, blank);
  const absl::string_view text =
      blank == absl::string_view::npos ? absl::string_view() : input.substr(blank + 1);
  const auto path = rest::RequestPath::Parse(text);
  if (!path.ok()) {
    Require(absl::IsInvalidArgument(path.status()), "a bad path is INVALID_ARGUMENT", input);
    return;
  }
  for (const std::string& segment : path->segments)
    Require(!absl::StrContains(segment, '/'), "a segment has no slash", input);
  const auto found = fixtures::PublicRoutes().Find(method, *path);
  if (found.route == nullptr) return;
  Require(found.route->http_method == method, "the route has the method", input);
  Require(found.bindings.size() == found.route->path.Variables().size(), "each variable is bound",
          input);
  for (const auto& [field, value] : found.bindings) {
    Require(!value.empty() && !absl::StrContains(value, "//"), "no segment is empty", input);
    Require(absl::StartsWith(value, "tenants/"), "all names are below a tenant", input);
  }
}

}  // namespace
}  // namespace escapement::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  escapement::fuzz::CheckPath({reinterpret_cast<const char*>(data), size});
  return 0;
}
