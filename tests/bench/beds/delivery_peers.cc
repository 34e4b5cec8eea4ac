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
  v1::Target target = integration::HttpTo(origin + "/bench");
  target.mutable_http()->mutable_tls()->set_ca_certificates(ca_.pem());
  return target;
}

v1::Target DeliveryPeers::Sqs() const {
  v1::Target target;
  target.mutable_sqs()->set_queue_url(queue_url());
  target.mutable_sqs()->set_region("eu-central-1");
  target.mutable_sqs()->set_credentials(kSqsCredentials);
  return target;
}

v1::Target DeliveryPeers::Kafka() const {
  v1::Target target;
  target.mutable_kafka()->set_brokers(kafka_->bootstraps());
  target.mutable_kafka()->set_topic(kTopic);
  return target;
}

v1::Target DeliveryPeers::Email() const {
  v1::Target target;
  target.mutable_email()->set_smtp_uri(smtp_uri());
  target.mutable_email()->set_plaintext(true);
  target.mutable_email()->set_from("jobs@example.com");
  target.mutable_email()->add_to("ann@example.org");
  return target;
}

}  // namespace escapement::bench
