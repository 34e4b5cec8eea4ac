#include "tests/integration/delivery/delivery_peer.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/check.h"
#include "common/tls/testing/test_certificates.h"
#include "tests/fixtures/grpc_receiver.h"
#include "tests/fixtures/http_receiver.h"
#include "tests/fixtures/kafka/kafka_cluster.h"
#include "tests/fixtures/nginx/nginx.h"
#include "tests/fixtures/receipts.h"
#include "tests/fixtures/smtp/smtp_peer.h"
#include "tests/integration/api_client.h"

namespace escapement::integration {
namespace {

constexpr size_t kKeptMax = 1'000'000;

// Its receiver notes the event's facts.
class ReceiptsPeer : public DeliveryPeer {
 public:
  size_t Count() override { return receipts_.Stats().received; }
  std::vector<Arrived> Arrivals() override {
    std::vector<Arrived> arrivals;
    for (const fixtures::Receipt& receipt : receipts_.List())
      arrivals.push_back({receipt.event_id, absl::StrCat(receipt.body_hash)});
    return arrivals;
  }

 protected:
  fixtures::Receipts receipts_;
};

class HttpPeer : public ReceiptsPeer {
 public:
  explicit HttpPeer(absl::string_view path = "/http") : path_(path) {}

  v1::Target target() const override { return HttpTo(receiver_->origin() + path_); }

 protected:
  const std::unique_ptr<fixtures::HttpReceiver> receiver_ =
      *fixtures::HttpReceiver::Start({.kept_requests_max = kKeptMax}, &receipts_);
  const std::string path_;
};

// Nginx is the TLS side.
class HttpsPeer final : public HttpPeer {
 public:
  explicit HttpsPeer(const std::string& folder) : HttpPeer("/https") {
    const testing::IdentityFiles identity =
        testing::WriteIdentity(ca_.Issue(1), folder, "https_peer");
    nginx_ =
        *fixtures::Nginx::Start(folder, {.cert = identity.cert,
                                         .key = identity.key,
                                         .proxied = absl::StrCat("127.0.0.1:", receiver_->port()),
                                         .log = false});
  }
  v1::Target target() const override { return HttpsTo(nginx_->origin() + path_, ca_.pem()); }

 private:
  const testing::TestCa ca_;
  std::unique_ptr<fixtures::Nginx> nginx_;
};

class SqsPeer final : public HttpPeer {
 public:
  v1::Target target() const override { return SqsTo(receiver_->origin() + "/123456789012/queue"); }
};

// Its messages are the events' ids.
class SlackPeer final : public HttpPeer {
 public:
  v1::Target target() const override {
    v1::Target target;
    target.mutable_slack()->set_webhook_url(receiver_->origin() + "/services/T0/B0/x");
    target.mutable_slack()->set_text("{{id}}");
    return target;
  }
  std::vector<Arrived> Arrivals() override {
    std::vector<Arrived> arrivals;
    for (const auto& [head, body] : receiver_->KeptRequests()) arrivals.push_back({body, body});
    return arrivals;
  }
};

class PingPeer final : public HttpPeer {
 public:
  v1::Target target() const override {
    v1::Target target;
    target.mutable_ping()->set_uri(receiver_->origin() + "/ping/");
    return target;
  }
  std::vector<Arrived> Arrivals() override { return {}; }
};

class GrpcPeer final : public ReceiptsPeer {
 public:
  v1::Target target() const override { return GrpcTo(receiver_->target()); }

 private:
  const std::unique_ptr<fixtures::GrpcReceiver> receiver_ =
      *fixtures::GrpcReceiver::Start({}, &receipts_);
};

class KafkaPeer final : public DeliveryPeer {
 public:
  // A partition of the mock brokers keeps 5 MiB.
  KafkaPeer() { cluster_.MakeTopic("topic", 16); }
  v1::Target target() const override { return KafkaTo(cluster_.bootstraps(), "topic"); }
  size_t Count() override { return cluster_.Read("topic").size(); }
  std::vector<Arrived> Arrivals() override {
    std::vector<Arrived> arrivals;
    for (const fixtures::KafkaRecord& record : cluster_.Read("topic"))
      arrivals.push_back({record.Header("ce_id"), record.value.value_or("")});
    return arrivals;
  }

 private:
  fixtures::KafkaCluster cluster_;
};

class EmailPeer final : public DeliveryPeer {
 public:
  v1::Target target() const override {
    return EmailTo(absl::StrCat("smtp://127.0.0.1:", peer_.port()));
  }
  size_t Count() override {
    absl::MutexLock lock(&mutex_);
    return arrivals_.size();
  }
  std::vector<Arrived> Arrivals() override {
    absl::MutexLock lock(&mutex_);
    return arrivals_;
  }

 private:
  void Take(const std::string& mail) {
    const std::string name = "\r\nce-id: ";
    const size_t found = mail.find(name);
    CHECK(found != std::string::npos) << mail;
    const size_t begin = found + name.size();
    // The headers have the date of the attempt; so only the text is compared.
    Arrived arrived = {mail.substr(begin, mail.find('\r', begin) - begin),
                       mail.substr(mail.find("\r\n\r\n"))};
    absl::MutexLock lock(&mutex_);
    arrivals_.push_back(std::move(arrived));
  }

  absl::Mutex mutex_;
  std::vector<Arrived> arrivals_ ABSL_GUARDED_BY(mutex_);
  fixtures::SmtpPeer peer_{&fixtures::SmtpPeer::Accept,
                           [this](const std::string& mail) { Take(mail); }};
};

}  // namespace

std::unique_ptr<DeliveryPeer> NewDeliveryPeer(absl::string_view kind, const std::string& folder) {
  if (kind == "http") return std::make_unique<HttpPeer>();
  if (kind == "https") return std::make_unique<HttpsPeer>(folder);
  if (kind == "grpc") return std::make_unique<GrpcPeer>();
  if (kind == "sqs") return std::make_unique<SqsPeer>();
  if (kind == "kafka") return std::make_unique<KafkaPeer>();
  if (kind == "email") return std::make_unique<EmailPeer>();
  if (kind == "slack") return std::make_unique<SlackPeer>();
  CHECK(kind == "ping") << kind;
  return std::make_unique<PingPeer>();
}

}  // namespace escapement::integration
