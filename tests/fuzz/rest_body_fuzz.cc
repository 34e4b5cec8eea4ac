// Any bytes as a REST request: "METHOD path", query, If-Match and Idempotency-Key on the first
// three lines, then the JSON body. A request that is read can be written as another HTTP request,
// which reads as the same message.

#include <google/protobuf/util/message_differencer.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/rest/path_template.h"
#include "common/rest/request_reader.h"
#include "tests/doors/door_cases.h"
#include "tests/fixtures/http_receiver.h"
#include "tests/fuzz/require.h"

namespace escapement::fuzz {
namespace {

using google::protobuf::Message;
using google::protobuf::util::MessageDifferencer;

void CheckRoundTrip(const rest::RestRoute& route, const Message& message, absl::string_view input) {
  const integration::HttpCall call = doors::RestCallOf(route, message);
  const std::vector<std::string> target = absl::StrSplit(call.path, absl::MaxSplits('?', 1));
  const auto path = rest::RequestPath::Parse(target[0]);
  Require(path.ok(), "the path of a message is read", input);
  auto found = fixtures::PublicRoutes().Find(call.method, *path);
  Require(found.route == &route, "the path of a message leads to its method", input);
  const std::string query = target.size() > 1 ? target[1] : "";
  const auto again = rest::ReadRequest(
      route, {.bindings = std::move(found.bindings), .query = query, .body = call.body});
  Require(again.ok(), "a message is read again", input);
  MessageDifferencer differencer;
  // JSON has no -0.0: it becomes the default.
  differencer.set_message_field_comparison(MessageDifferencer::EQUIVALENT);
  std::string differences;
  differencer.ReportDifferencesToString(&differences);
  const std::unique_ptr<Message> read(message.New());
  Require(read->ParseFromString(*again), "a message is read again from its bytes", input);
  const bool same = differencer.Compare(message, *read);
  if (!same) std::fprintf(stderr, "%s", differences.c_str());
  Require(same, "a message is read again as it was", input);
}

void CheckRequest(absl::string_view input) {
  const std::vector<absl::string_view> lines = absl::StrSplit(input, absl::MaxSplits('\n', 3));
  if (lines.size() < 4) return;
  const std::vector<absl::string_view> start = absl::StrSplit(lines[0], absl::MaxSplits(' ', 1));
  if (start.size() < 2) return;
  const auto path = rest::RequestPath::Parse(start[1]);
  if (!path.ok()) return;
  auto found = fixtures::PublicRoutes().Find(start[0], *path);
  if (found.route == nullptr) return;
  const std::vector<absl::string_view> headers = absl::StrSplit(lines[2], absl::MaxSplits('\t', 1));
  const rest::RestRoute& route = *found.route;
  const auto bytes = rest::ReadRequest(
      route, {.bindings = std::move(found.bindings),
              .query = lines[1],
              .body = lines[3],
              .idempotency_key = headers.size() > 1 ? headers[1] : absl::string_view(),
              .if_match = headers[0]});
  if (!bytes.ok()) {
    Require(absl::IsInvalidArgument(bytes.status()), "INVALID_ARGUMENT", input);
    const HttpResponse answer = rest::ErrorAnswer(bytes.status());
    Require(answer.status == 400 && answer.body.size() < (32 << 10), "a bounded answer", input);
    return;
  }
  const std::unique_ptr<Message> message(google::protobuf::MessageFactory::generated_factory()
                                             ->GetPrototype(route.method->input_type())
                                             ->New());
  // Lone surrogates in strings: the method's own reader refuses them.
  if (message->ParseFromString(*bytes)) CheckRoundTrip(route, *message, input);
}

}  // namespace
}  // namespace escapement::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  escapement::fuzz::CheckRequest({reinterpret_cast<const char*>(data), size});
  return 0;
}
