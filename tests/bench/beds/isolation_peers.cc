#include "tests/bench/beds/isolation_peers.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "tests/fixtures/raw_call.h"
#include "tests/integration/api_client.h"

namespace escapement::bench {
namespace {

using fixtures::HostileServer;
using PeerAnswer = HostileServer::Answer;

constexpr char kTopic[] = "topic";
constexpr int kPeerPartitions = 10;
constexpr size_t kKafka = 3;        // in healthy()
constexpr size_t kBadReceiver = 3;  // in receivers_
// The head of an answer of Kafka of 1 MiB, and of one of HTTP.
const std::string kKafkaHead("\0\x10\0\0", 4);
constexpr char kHttpHead[] = "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n";

v1::Target KafkaAt(const std::string& brokers) { return integration::KafkaTo(brokers, kTopic); }

// A port of loopback that nobody listens on, as long as nobody else takes it.
absl::StatusOr<int> UnusedPort() {
  ASSIGN_OR_RETURN(const auto listening, fixtures::ListenOn("127.0.0.1", 0));
  close(listening.fd);
  return listening.port;
}

}  // namespace

absl::StatusOr<std::unique_ptr<IsolationPeers>> IsolationPeers::Start(const std::string& bin,
                                                                      const std::string& folder) {
  auto peers = std::unique_ptr<IsolationPeers>(new IsolationPeers());
  RETURN_IF_ERROR(peers->StartServers(bin, folder));
  peers->AddHealthy();
  peers->AddBad();
  return peers;
}

absl::Status IsolationPeers::StartServers(const std::string& bin, const std::string& folder) {
  for (size_t i = 0; i <= kBadReceiver; ++i) {
    ASSIGN_OR_RETURN(auto receiver, ReceiverProcess::Start(bin));
    receivers_.push_back(std::move(receiver));
  }
  identity_ = testing::WriteIdentity(ca_.Issue(1), folder, "server");
  ASSIGN_OR_RETURN(auto healthy, TlsBefore(*receivers_[1], folder + "/healthy"));
  healthy_nginx_ = std::move(healthy);
  ASSIGN_OR_RETURN(auto bad, TlsBefore(*receivers_[kBadReceiver], folder + "/bad"));
  bad_nginx_ = std::move(bad);

  healthy_kafka_ = std::make_unique<fixtures::KafkaCluster>(1, bin);
  healthy_kafka_->MakeTopic(kTopic, kPeerPartitions);
  kafka_arrivals_ =
      std::make_unique<KafkaArrivals>(healthy_kafka_->bootstraps(), kTopic, kPeerPartitions);
  // A tenth of the records go to the partition whose leader is down.
  bad_kafka_ = std::make_unique<fixtures::KafkaCluster>(2, bin);
  bad_kafka_->MakeTopic(kTopic, kPeerPartitions);
  for (int i = 0; i < kPeerPartitions; ++i)
    bad_kafka_->Do(absl::StrCat("leader ", kTopic, " ", i, " ", i == 0 ? 2 : 1));
  bad_kafka_->Do("down 2");

  ASSIGN_OR_RETURN(auto refusing, UnusedPort());
  refusing_port_ = refusing;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<fixtures::Nginx>> IsolationPeers::TlsBefore(
    const ReceiverProcess& receiver, const std::string& folder) const {
  std::filesystem::create_directories(folder);
  return fixtures::Nginx::Start(
      folder, {.cert = identity_.cert,
               .key = identity_.key,
               .requests_per_connection = 1'000'000,
               .proxied = std::string(absl::StripPrefix(receiver.http_origin(), "http://")),
               .log = false});
}

v1::Target IsolationPeers::Https(const std::string& uri) const {
  return integration::HttpsTo(uri, ca_.pem());
}

void IsolationPeers::AddHealthy() {
  healthy_ = {{"HTTP", integration::HttpTo(receivers_[0]->http_origin() + "/healthy")},
              {"HTTPS", Https(healthy_nginx_->origin() + "/healthy")},
              {"SQS", integration::SqsTo(receivers_[2]->http_origin() + "/1/healthy")},
              {"Kafka", KafkaAt(healthy_kafka_->bootstraps())}};
}

void IsolationPeers::AddBad() {
  const auto serve = [this](PeerAnswer answer, const std::string& begin = "") {
    servers_.push_back(std::make_unique<HostileServer>(answer, begin));
    return absl::StrCat("127.0.0.1:", servers_.back()->port());
  };
  const std::string bad = receivers_[kBadReceiver]->http_origin();
  const std::string refusing = absl::StrCat("127.0.0.1:", refusing_port_);
  bad_ = {
      // A tenth times out.
      integration::HttpTo(bad + "/hangevery/10/"), Https(bad_nginx_->origin() + "/hangevery/10/"),
      integration::SqsTo(bad + "/1/hangevery/10/queue"), KafkaAt(bad_kafka_->bootstraps()),
      // Dead.
      integration::HttpTo(absl::StrCat("http://", refusing, "/")),
      Https(absl::StrCat("https://", refusing, "/")),
      integration::SqsTo(absl::StrCat("http://", refusing, "/1/queue")), KafkaAt(refusing),
      integration::HttpTo(absl::StrCat("http://", serve(PeerAnswer::kSilence), "/")),
      Https(absl::StrCat("https://", serve(PeerAnswer::kSilence), "/")),
      integration::SqsTo(absl::StrCat("http://", serve(PeerAnswer::kSilence), "/1/queue")),
      KafkaAt(serve(PeerAnswer::kSilence)),
      // One byte a second. The origin of HTTPS is one with its other target's.
      integration::HttpTo(absl::StrCat("http://", serve(PeerAnswer::kDrip, kHttpHead), "/")),
      Https(bad_nginx_->origin() + "/drip/"), integration::SqsTo(bad + "/1/drip/queue"),
      KafkaAt(serve(PeerAnswer::kDrip, kKafkaHead))};
}

absl::Status IsolationPeers::Clear() {
  kafka_arrivals_->Clear();
  for (const auto& receiver : receivers_) {
    RETURN_IF_ERROR(receiver->Clear());
  }
  return absl::OkStatus();
}

absl::StatusOr<IsolationPeers::Arrivals> IsolationPeers::ArrivalsAt(size_t i) const {
  if (i != kKafka) {
    ASSIGN_OR_RETURN(const auto counts, receivers_[i]->Counts());
    return Arrivals{.events = counts.distinct, .p99 = counts.late_p99 / 1e3};
  }
  std::vector<double> late = kafka_arrivals_->Lateness();
  if (late.empty()) return Arrivals();
  std::sort(late.begin(), late.end());
  return Arrivals{.events = late.size(), .p99 = late[(late.size() * 99 - 1) / 100] / 1e3};
}

}  // namespace escapement::bench
