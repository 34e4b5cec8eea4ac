#include "tests/e2e/consumer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tests/integration/probes.h"

namespace escapement::e2e {
namespace {

using integration::ChildProcess;
using integration::HttpGet;

absl::StatusOr<std::string> Ask(const std::string& address, const std::string& path) {
  ASSIGN_OR_RETURN(auto answer, HttpGet(address, path, absl::Seconds(60)));
  if (answer.status != 200)
    return absl::InternalError(absl::StrCat("GET ", path, " answered ", answer.status));
  return std::move(answer.body);
}

}  // namespace

Consumer::Consumer(std::unique_ptr<ChildProcess> process, std::string http, std::string grpc)
    : process_(std::move(process)), http_(std::move(http)), grpc_(std::move(grpc)) {}

absl::StatusOr<std::unique_ptr<Consumer>> Consumer::Start(
    const std::string& program, const std::string& log, const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(auto process,
                   ChildProcess::Start({.program = program, .arguments = arguments, .log = log}));
  ASSIGN_OR_RETURN(auto http, process->AwaitLine("http ", absl::Seconds(20)));
  ASSIGN_OR_RETURN(auto grpc, process->AwaitLine("grpc ", absl::Seconds(20)));
  return std::unique_ptr<Consumer>(new Consumer(std::move(process),
                                                absl::StrCat("127.0.0.1:", http.substr(5)),
                                                absl::StrCat("127.0.0.1:", grpc.substr(5))));
}

std::string Consumer::http_uri(absl::string_view path) const {
  return absl::StrCat("http://", http_, path);
}
std::string Consumer::grpc_uri() const { return grpc_; }

absl::StatusOr<uint64_t> Consumer::CountEvents(absl::string_view prefix) const {
  ASSIGN_OR_RETURN(auto body, Ask(http_, absl::StrCat("/stats?prefix=", prefix)));
  const auto json = nlohmann::json::parse(body, nullptr, false);
  if (!json.is_object()) return absl::InternalError("the consumer's counters are not JSON");
  return json.value("distinct", uint64_t{0});
}

absl::StatusOr<WorkNote> Consumer::AskWork() const {
  ASSIGN_OR_RETURN(auto body, Ask(http_, "/work"));
  const auto json = nlohmann::json::parse(body, nullptr, false);
  if (!json.is_object() || !json.contains("completions"))
    return absl::InternalError("the worker's counters are not JSON");
  return WorkNote{.distinct = json.value("distinct", uint64_t{0}),
                  .ended = json.value("ended", uint64_t{0}),
                  .answered = json["completions"].value("answered", uint64_t{0}),
                  .out = json.value("out", int64_t{0}),
                  .out_max = json.value("out_max", int64_t{0}),
                  .out_event_seconds = json.value("out_event_seconds", 0.0),
                  .first_wall_micros = json.value("first_wall_us", int64_t{0}),
                  .last_wall_micros = json.value("last_wall_us", int64_t{0})};
}

absl::StatusOr<std::vector<Arrival>> Consumer::ListArrivals(absl::string_view prefix) const {
  std::vector<Arrival> arrivals;
  constexpr size_t kPage = 50'000;
  while (true) {
    ASSIGN_OR_RETURN(auto body, Ask(http_, absl::StrCat("/receipts?prefix=", prefix, "&skip=",
                                                        arrivals.size(), "&limit=", kPage)));
    size_t lines = 0;
    for (absl::string_view line : absl::StrSplit(body, '\n', absl::SkipEmpty())) {
      const auto json = nlohmann::json::parse(line.begin(), line.end(), nullptr, false);
      if (!json.is_object()) return absl::InternalError("the consumer's notes are not JSON");
      arrivals.push_back({json.value("id", ""), json.value("index", int64_t{0}),
                          json.value("launch_us", int64_t{0}), json.value("wall_us", int64_t{0}),
                          json.value("body_hash", "")});
      ++lines;
    }
    if (lines < kPage) return arrivals;
  }
}

}  // namespace escapement::e2e
