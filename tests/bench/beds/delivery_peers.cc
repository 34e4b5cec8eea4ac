#include "tests/bench/beds/delivery_peers.h"

#include <filesystem>
#include <utility>

#include "absl/time/time.h"
#include "tests/integration/api_client.h"

namespace escapement::bench {
namespace {

constexpr absl::Duration kStartMax = absl::Seconds(20);
constexpr absl::string_view kSmtpPort = "smtp ";
constexpr int kPartitions = 4;

}  // namespace

absl::StatusOr<std::unique_ptr<DeliveryPeers>> DeliveryPeers::Start(const std::string& bin,
                                                                    const std::string& folder) {
  auto peers = std::unique_ptr<DeliveryPeers>(new DeliveryPeers());
  if (absl::Status status = peers->StartAll(bin, folder); !status.ok()) return status;
  return peers;
}

absl::Status DeliveryPeers::StartAll(const std::string& bin, const std::string& folder) {
  auto receiver = ReceiverProcess::Start(bin);
  if (!receiver.ok()) return receiver.status();
  receiver_ = *std::move(receiver);

  const testing::IdentityFiles identity = testing::WriteIdentity(ca_.Issue(1), folder, "server");
  fixtures::Nginx::Options options = {.cert = identity.cert,
                                      .key = identity.key,
                                      .http2 = false,
                                      .requests_per_connection = 1'000'000,
                                      .log = false};
  for (auto* nginx : {&nginx_, &nginx2_}) {
    const std::string own = folder + (options.http2 ? "/nginx2" : "/nginx");
    std::filesystem::create_directories(own);
    auto started = fixtures::Nginx::Start(own, options);
    if (!started.ok()) return started.status();
    *nginx = *std::move(started);
    options.http2 = true;
  }

  kafka_ = std::make_unique<fixtures::KafkaCluster>(1, bin);
  kafka_->MakeTopic(kTopic, kPartitions);

  auto smtp = integration::ChildProcess::Start(
      {.program = bin + "/tests/fixtures/smtp/smtp_peer_main", .input = true});
  if (!smtp.ok()) return smtp.status();
  smtp_ = *std::move(smtp);
  const auto line = smtp_->AwaitLine(kSmtpPort, kStartMax);
  if (!line.ok()) return line.status();
  smtp_port_ = line->substr(kSmtpPort.size());
  return absl::OkStatus();
}

v1::Target DeliveryPeers::Http() const {
  return integration::HttpTo(receiver_->http_origin() + "/bench");
}

v1::Target DeliveryPeers::Grpc() const { return integration::GrpcTo(receiver_->grpc_target()); }

v1::Target DeliveryPeers::Https(const std::string& origin) const {
  return integration::HttpsTo(origin + "/bench", ca_.pem());
}

v1::Target DeliveryPeers::Sqs() const { return integration::SqsTo(queue_url(), kSqsCredentials); }

v1::Target DeliveryPeers::Kafka() const {
  return integration::KafkaTo(kafka_->bootstraps(), kTopic);
}

v1::Target DeliveryPeers::Email() const { return integration::EmailTo(smtp_uri()); }

}  // namespace escapement::bench
