#include "tests/bench/beds/delivery_peers.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tests/integration/api_client.h"
#include "tests/integration/probes.h"

namespace escapement::bench {

absl::StatusOr<std::unique_ptr<ReceiverProcess>> ReceiverProcess::Start(
    const std::string& bin, const std::vector<std::string>& arguments) {
  auto receiver = std::unique_ptr<ReceiverProcess>(new ReceiverProcess());
  ASSIGN_OR_RETURN(auto process,
                   integration::ChildProcess::Start(
                       {.program = bin + "/tests/fixtures/receiver", .arguments = arguments}));
  receiver->process_ = std::move(process);
  const auto port = [&receiver](absl::string_view name) -> absl::StatusOr<std::string> {
    ASSIGN_OR_RETURN(auto line,
                     receiver->process_->AwaitLine(absl::StrCat(name, " "), absl::Seconds(20)));
    return absl::StrCat("127.0.0.1:", line.substr(name.size() + 1));
  };
  ASSIGN_OR_RETURN(auto http, port("http"));
  ASSIGN_OR_RETURN(auto grpc, port("grpc"));
  receiver->http_address_ = std::move(http);
  receiver->grpc_address_ = std::move(grpc);
  return receiver;
}

absl::StatusOr<ReceiverCounts> ReceiverProcess::Counts() const {
  ASSIGN_OR_RETURN(const auto answer, integration::HttpGet(http_address_, "/stats"));
  const auto json = nlohmann::json::parse(answer.body, nullptr, false);
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
  ASSIGN_OR_RETURN(const auto answer, integration::HttpGet(http_address_, "/work"));
  const auto json = nlohmann::json::parse(answer.body, nullptr, false);
  if (!json.is_object() || !json.contains("completions") || !json.contains("turnover_us"))
    return absl::DataLossError("the receiver's /work is not JSON");
  return WorkCounts{.arrivals = json.value("arrivals", uint64_t{0}),
                    .distinct = json.value("distinct", uint64_t{0}),
                    .ended = json.value("ended", uint64_t{0}),
                    .answered = json["completions"].value("answered", uint64_t{0}),
                    .out_max = json.value("out_max", int64_t{0}),
                    .out_max_of_key = json.value("out_max_of_key", int64_t{0}),
                    .out_event_seconds = json.value("out_event_seconds", 0.0),
                    .first_wall_micros = json.value("first_wall_us", int64_t{0}),
                    .last_wall_micros = json.value("last_wall_us", int64_t{0}),
                    .turnovers = json["turnover_us"].value("count", uint64_t{0}),
                    .turnover_p50 = json["turnover_us"].value("p50", 0.0),
                    .turnover_p99 = json["turnover_us"].value("p99", 0.0)};
}

absl::StatusOr<std::vector<ArrivalTimes>> ReceiverProcess::Arrivals(
    const std::string& source) const {
  ASSIGN_OR_RETURN(const auto answer,
                   integration::HttpGet(http_address_, absl::StrCat("/receipts?prefix=", source)));
  std::vector<ArrivalTimes> arrivals;
  for (absl::string_view line : absl::StrSplit(answer.body, '\n', absl::SkipEmpty())) {
    const auto json = nlohmann::json::parse(line.begin(), line.end(), nullptr, false);
    if (!json.is_object()) return absl::DataLossError("the receiver's /receipts are not JSON");
    arrivals.push_back({.launch_micros = json.value("launch_us", int64_t{0}),
                        .wall_micros = json.value("wall_us", int64_t{0})});
  }
  return arrivals;
}

absl::StatusOr<std::vector<int64_t>> ReceiverProcess::Lateness(const std::string& source) const {
  ASSIGN_OR_RETURN(const auto arrivals, Arrivals(source));
  std::vector<int64_t> lateness;
  for (const ArrivalTimes& arrival : arrivals)
    lateness.push_back(arrival.wall_micros - arrival.launch_micros);
  return lateness;
}

absl::Status ReceiverProcess::Clear() const {
  return integration::HttpGet(http_address_, "/clear").status();
}

namespace {

constexpr absl::Duration kStartMax = absl::Seconds(20);
constexpr absl::string_view kSmtpPort = "smtp ";
constexpr int kPartitions = 4;

}  // namespace

absl::StatusOr<std::unique_ptr<DeliveryPeers>> DeliveryPeers::Start(const std::string& bin,
                                                                    const std::string& folder) {
  auto peers = std::unique_ptr<DeliveryPeers>(new DeliveryPeers());
  RETURN_IF_ERROR(peers->StartAll(bin, folder));
  return peers;
}

absl::Status DeliveryPeers::StartAll(const std::string& bin, const std::string& folder) {
  ASSIGN_OR_RETURN(auto receiver, ReceiverProcess::Start(bin));
  receiver_ = std::move(receiver);

  const testing::IdentityFiles identity = testing::WriteIdentity(ca_.Issue(1), folder, "server");
  const std::string own = folder + "/nginx";
  std::filesystem::create_directories(own);
  ASSIGN_OR_RETURN(nginx_, fixtures::Nginx::Start(own, {.cert = identity.cert,
                                                        .key = identity.key,
                                                        .requests_per_connection = 1'000'000,
                                                        .log = false}));

  kafka_ = std::make_unique<fixtures::KafkaCluster>(1, bin);
  kafka_->MakeTopic(kTopic, kPartitions);

  ASSIGN_OR_RETURN(auto smtp,
                   integration::ChildProcess::Start(
                       {.program = bin + "/tests/fixtures/smtp/smtp_peer_main", .input = true}));
  smtp_ = std::move(smtp);
  ASSIGN_OR_RETURN(const auto line, smtp_->AwaitLine(kSmtpPort, kStartMax));
  smtp_port_ = line.substr(kSmtpPort.size());
  return absl::OkStatus();
}

v1::Target DeliveryPeers::Http() const {
  return integration::HttpTo(receiver_->http_origin() + "/bench");
}

v1::Target DeliveryPeers::Grpc() const { return integration::GrpcTo(receiver_->grpc_target()); }

v1::Target DeliveryPeers::Https() const {
  return integration::HttpsTo(https_origin() + "/bench", ca_.pem());
}

v1::Target DeliveryPeers::Sqs() const { return integration::SqsTo(queue_url(), kSqsCredentials); }

v1::Target DeliveryPeers::Kafka() const {
  return integration::KafkaTo(kafka_->bootstraps(), kTopic);
}

v1::Target DeliveryPeers::Email() const { return integration::EmailTo(smtp_uri()); }

}  // namespace escapement::bench
