#include "tests/bench/beds/receiver_process.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "tests/integration/probes.h"

namespace escapement::bench {

absl::StatusOr<std::unique_ptr<ReceiverProcess>> ReceiverProcess::Start(
    const std::string& bin, const std::vector<std::string>& arguments) {
  auto receiver = std::unique_ptr<ReceiverProcess>(new ReceiverProcess());
  auto process = integration::ChildProcess::Start(
      {.program = bin + "/tests/fixtures/receiver", .arguments = arguments});
  if (!process.ok()) return process.status();
  receiver->process_ = *std::move(process);
  const auto port = [&receiver](absl::string_view name) -> absl::StatusOr<std::string> {
    auto line = receiver->process_->AwaitLine(absl::StrCat(name, " "), absl::Seconds(20));
    if (!line.ok()) return line.status();
    return absl::StrCat("127.0.0.1:", line->substr(name.size() + 1));
  };
  auto http = port("http");
  if (!http.ok()) return http.status();
  auto grpc = port("grpc");
  if (!grpc.ok()) return grpc.status();
  receiver->http_address_ = *std::move(http);
  receiver->grpc_address_ = *std::move(grpc);
  return receiver;
}

absl::StatusOr<ReceiverCounts> ReceiverProcess::Counts() const {
  const auto answer = integration::HttpGet(http_address_, "/stats");
  if (!answer.ok()) return answer.status();
  const auto json = nlohmann::json::parse(answer->body, nullptr, false);
  if (json.is_discarded()) return absl::DataLossError("the receiver's /stats is not JSON");
  ReceiverCounts counts;
  counts.received = json.value("received", uint64_t{0});
  counts.distinct = json.value("distinct", uint64_t{0});
  counts.duplicates = json.value("duplicates", uint64_t{0});
  counts.early = json.value("early", uint64_t{0});
  counts.first_wall_micros = json.value("first_wall_us", int64_t{0});
  counts.last_wall_micros = json.value("last_wall_us", int64_t{0});
  const auto& lateness = json.at("lateness_us");
  counts.late_p50 = lateness.value("p50", 0.0);
  counts.late_p99 = lateness.value("p99", 0.0);
  counts.late_p999 = lateness.value("p999", 0.0);
  counts.late_max = lateness.value("max", 0.0);
  return counts;
}

absl::StatusOr<WorkCounts> ReceiverProcess::Work() const {
  const auto answer = integration::HttpGet(http_address_, "/work");
  if (!answer.ok()) return answer.status();
  const auto json = nlohmann::json::parse(answer->body, nullptr, false);
  if (!json.is_object() || !json.contains("completions") || !json.contains("turnover_us"))
    return absl::DataLossError("the receiver's /work is not JSON");
  return WorkCounts{.arrivals = json.value("arrivals", uint64_t{0}),
                    .distinct = json.value("distinct", uint64_t{0}),
                    .ended = json.value("ended", uint64_t{0}),
                    .answered = json["completions"].value("answered", uint64_t{0}),
                    .out_max = json.value("out_max", int64_t{0}),
                    .out_event_seconds = json.value("out_event_seconds", 0.0),
                    .first_wall_micros = json.value("first_wall_us", int64_t{0}),
                    .last_wall_micros = json.value("last_wall_us", int64_t{0}),
                    .turnovers = json["turnover_us"].value("count", uint64_t{0}),
                    .turnover_p50 = json["turnover_us"].value("p50", 0.0),
                    .turnover_p99 = json["turnover_us"].value("p99", 0.0)};
}

absl::StatusOr<std::vector<ArrivalTimes>> ReceiverProcess::Arrivals(
    const std::string& source) const {
  const auto answer =
      integration::HttpGet(http_address_, absl::StrCat("/receipts?prefix=", source));
  if (!answer.ok()) return answer.status();
  std::vector<ArrivalTimes> arrivals;
  for (absl::string_view line : absl::StrSplit(answer->body, '\n', absl::SkipEmpty())) {
    const auto json = nlohmann::json::parse(line.begin(), line.end(), nullptr, false);
    if (!json.is_object()) return absl::DataLossError("the receiver's /receipts are not JSON");
    arrivals.push_back({.launch_micros = json.value("launch_us", int64_t{0}),
                        .wall_micros = json.value("wall_us", int64_t{0})});
  }
  return arrivals;
}

absl::StatusOr<std::vector<int64_t>> ReceiverProcess::Lateness(const std::string& source) const {
  const auto arrivals = Arrivals(source);
  if (!arrivals.ok()) return arrivals.status();
  std::vector<int64_t> lateness;
  for (const ArrivalTimes& arrival : *arrivals)
    lateness.push_back(arrival.wall_micros - arrival.launch_micros);
  return lateness;
}

absl::Status ReceiverProcess::Clear() const {
  return integration::HttpGet(http_address_, "/clear").status();
}

}  // namespace escapement::bench
