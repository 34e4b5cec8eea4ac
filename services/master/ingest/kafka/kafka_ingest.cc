#include "services/master/ingest/kafka/kafka_ingest.h"

#include <pthread.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/bounded_file.h"
#include "common/base/status_macros.h"
#include "services/master/base/limits.h"

ABSL_FLAG(std::string, kafka_ingest_brokers, "",
          "brokers (host:port,...) from whose topics events are made; empty: none");
ABSL_FLAG(std::vector<std::string>, kafka_ingest_topics, {},
          "topics with the tenants that each may write to: TOPIC or TOPIC=TENANT|TENANT, separated "
          "by commas; the first tenant gets messages that name none; * = every tenant");
ABSL_FLAG(std::string, kafka_ingest_tenant, "default",
          "the one tenant of topics that are given without tenants");
ABSL_FLAG(std::string, kafka_ingest_group, "escapement", "consumer group of all masters");
ABSL_FLAG(std::string, kafka_ingest_error_topic, "",
          "topic that gets the messages which can never make an event, with the reason");
ABSL_FLAG(std::string, kafka_ingest_security_protocol, "plaintext",
          "plaintext, ssl, sasl_plaintext or sasl_ssl");
ABSL_FLAG(std::string, kafka_ingest_sasl_mechanism, "",
          "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; PLAIN needs sasl_ssl");
ABSL_FLAG(std::string, kafka_ingest_sasl_user, "", "SASL user name");
ABSL_FLAG(std::string, kafka_ingest_sasl_password_file, "", "file with the SASL password");
ABSL_FLAG(std::string, kafka_ingest_ca_file, "",
          "PEM file with the authorities of the brokers; empty: those of the system");
ABSL_FLAG(std::string, kafka_ingest_cert_file, "",
          "PEM file with the client certificate and its chain");
ABSL_FLAG(std::string, kafka_ingest_key_file, "", "PEM file with the key of the certificate");
ABSL_FLAG(int, kafka_ingest_max_batch, 1000, "events of one call to the store");

namespace escapement::master {

namespace {

constexpr absl::Duration kReadyStep = absl::Milliseconds(50);

}  // namespace

KafkaIngest::KafkaIngest(KafkaIngestOptions options, Host host)
    : options_(std::move(options)), host_(std::move(host)) {}

KafkaIngest::~KafkaIngest() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (!thread_.joinable()) return;
  loop_->Wake();
  thread_.join();
}

absl::Status KafkaIngest::Start() {
  loop_ = std::make_unique<IngestLoop>(options_, host_.events, host_.gate, host_.runtime,
                                       host_.metrics);
  RETURN_IF_ERROR(loop_->Open());
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), "kafka-ingest");
  return absl::OkStatus();
}

void KafkaIngest::Stop(Closure done) {
  absl::MutexLock lock(&mutex_);
  stopping_ = true;
  orderly_ = true;
  done_ = std::move(done);
  loop_->Wake();
}

bool KafkaIngest::AwaitReady() {
  absl::MutexLock lock(&mutex_);
  while (!stopping_ && !host_.ready())
    mutex_.AwaitWithTimeout(absl::Condition(&stopping_), kReadyStep);
  return !stopping_;
}

void KafkaIngest::Run() {
  if (AwaitReady()) loop_->Subscribe();
  const auto stopping = [this] {
    absl::MutexLock lock(&mutex_);
    return stopping_;
  };
  while (!stopping()) loop_->Step();
  Closure done;
  {
    absl::MutexLock lock(&mutex_);
    if (!orderly_) return;
    done = std::move(done_);
  }
  loop_->Finish();
  done();
}

namespace {

// Batches of the largest size that may be in memory.
constexpr size_t kBatchesInFlight = 8;
constexpr size_t kGroupBytesMax = 249;

struct Protocol {
  bool tls = false;
  bool sasl = false;
};

std::optional<Protocol> ProtocolOf(const std::string& name) {
  if (name == "plaintext") return Protocol{};
  if (name == "ssl") return Protocol{.tls = true};
  if (name == "sasl_plaintext") return Protocol{.sasl = true};
  if (name == "sasl_ssl") return Protocol{.tls = true, .sasl = true};
  return std::nullopt;
}

absl::Status ReadInto(const std::string& path, size_t bytes_max, std::string& text) {
  if (path.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(auto read, ReadBoundedFile(path, bytes_max));
  text = std::move(read);
  return absl::OkStatus();
}

// Everything but the contents of files.
absl::StatusOr<KafkaIngestOptions> OptionsWithoutFiles() {
  KafkaIngestOptions options;
  ASSIGN_OR_RETURN(auto topics, TopicRules::Parse(absl::GetFlag(FLAGS_kafka_ingest_topics),
                                                  absl::GetFlag(FLAGS_kafka_ingest_tenant)));
  options.topics = std::move(topics);
  options.group = absl::GetFlag(FLAGS_kafka_ingest_group);
  options.error_topic = absl::GetFlag(FLAGS_kafka_ingest_error_topic);
  options.batch_max = static_cast<size_t>(absl::GetFlag(FLAGS_kafka_ingest_max_batch));
  options.in_flight_max = options.batch_max * kBatchesInFlight;
  const auto protocol = ProtocolOf(absl::GetFlag(FLAGS_kafka_ingest_security_protocol));
  options.access.brokers = absl::GetFlag(FLAGS_kafka_ingest_brokers);
  if (protocol.has_value() && protocol->tls) options.access.tls.emplace();
  if (protocol.has_value() && protocol->sasl) {
    options.access.sasl_mechanism = absl::GetFlag(FLAGS_kafka_ingest_sasl_mechanism);
    options.access.sasl_username = absl::GetFlag(FLAGS_kafka_ingest_sasl_user);
  }
  return options;
}

void ValidateSecurity(std::vector<std::string>& errors) {
  const auto protocol = ProtocolOf(absl::GetFlag(FLAGS_kafka_ingest_security_protocol));
  if (!protocol.has_value()) {
    errors.push_back(
        "--kafka_ingest_security_protocol: must be plaintext, ssl, sasl_plaintext or sasl_ssl");
    return;
  }
  const auto belongs = [&errors](bool on, const char* flag, const std::string& value,
                                 const char* protocols) {
    if (on || value.empty()) return;
    errors.push_back(
        absl::StrCat("--", flag, ": needs --kafka_ingest_security_protocol=", protocols));
  };
  const std::string cert = absl::GetFlag(FLAGS_kafka_ingest_cert_file);
  const std::string key = absl::GetFlag(FLAGS_kafka_ingest_key_file);
  belongs(protocol->tls, "kafka_ingest_ca_file", absl::GetFlag(FLAGS_kafka_ingest_ca_file),
          "ssl or sasl_ssl");
  belongs(protocol->tls, "kafka_ingest_cert_file", cert, "ssl or sasl_ssl");
  belongs(protocol->sasl, "kafka_ingest_sasl_mechanism",
          absl::GetFlag(FLAGS_kafka_ingest_sasl_mechanism), "sasl_plaintext or sasl_ssl");
  if (cert.empty() != key.empty())
    errors.push_back("--kafka_ingest_cert_file and --kafka_ingest_key_file: set both or none");
  if (!protocol->sasl) return;
  if (absl::GetFlag(FLAGS_kafka_ingest_sasl_mechanism).empty() ||
      absl::GetFlag(FLAGS_kafka_ingest_sasl_user).empty() ||
      absl::GetFlag(FLAGS_kafka_ingest_sasl_password_file).empty()) {
    errors.push_back(
        "--kafka_ingest_security_protocol: SASL needs --kafka_ingest_sasl_mechanism, "
        "--kafka_ingest_sasl_user and --kafka_ingest_sasl_password_file");
  }
}

}  // namespace

void ValidateKafkaIngestFlags(std::vector<std::string>& errors) {
  if (absl::GetFlag(FLAGS_kafka_ingest_brokers).empty()) {
    if (!absl::GetFlag(FLAGS_kafka_ingest_topics).empty())
      errors.push_back("--kafka_ingest_topics: needs --kafka_ingest_brokers");
    return;
  }
  const size_t before = errors.size();
  const int batch_max = absl::GetFlag(FLAGS_kafka_ingest_max_batch);
  if (batch_max < 1 || batch_max > kIngestEventsMax) {
    errors.push_back(
        absl::StrCat("--kafka_ingest_max_batch: must be from 1 to ", kIngestEventsMax));
  }
  const std::string group = absl::GetFlag(FLAGS_kafka_ingest_group);
  if (group.empty() || group.size() > kGroupBytesMax ||
      !std::all_of(group.begin(), group.end(), absl::ascii_isgraph))
    errors.push_back("--kafka_ingest_group: must be 1 to 249 characters without spaces");
  const auto options = OptionsWithoutFiles();
  if (!options.ok()) {
    errors.push_back(absl::StrCat("--kafka_ingest_topics: ", options.status().message()));
    return;
  }
  if (!IsTopicName(options->error_topic)) {
    errors.push_back("--kafka_ingest_error_topic: must name a topic");
  } else if (options->topics.Has(options->error_topic)) {
    errors.push_back("--kafka_ingest_error_topic: must not be one of --kafka_ingest_topics");
  }
  ValidateSecurity(errors);
  if (errors.size() > before) return;
  if (const absl::Status wrong = CheckKafkaAccess(options->access, "the ingestion"); !wrong.ok())
    errors.push_back(absl::StrCat("--kafka_ingest_brokers: ", wrong.message()));
  if (const auto read = KafkaIngestOptionsFromFlags(); !read.ok())
    errors.push_back(absl::StrCat("--kafka_ingest_…_file: ", read.status().message()));
}

std::vector<TlsPaths> KafkaIngestCertificates() {
  TlsPaths paths = {.cert = absl::GetFlag(FLAGS_kafka_ingest_cert_file),
                    .key = absl::GetFlag(FLAGS_kafka_ingest_key_file),
                    .ca = absl::GetFlag(FLAGS_kafka_ingest_ca_file)};
  if (absl::GetFlag(FLAGS_kafka_ingest_brokers).empty() || (paths.cert.empty() && paths.ca.empty()))
    return {};
  return {std::move(paths)};
}

absl::StatusOr<std::optional<KafkaIngestOptions>> KafkaIngestOptionsFromFlags() {
  if (absl::GetFlag(FLAGS_kafka_ingest_brokers).empty()) return std::nullopt;
  ASSIGN_OR_RETURN(auto options, OptionsWithoutFiles());
  KafkaAccess& access = options.access;
  absl::Status read;
  if (access.tls.has_value()) {
    read.Update(ReadInto(absl::GetFlag(FLAGS_kafka_ingest_ca_file), kPemBytesMax,
                         access.tls->ca_certificates));
    read.Update(ReadInto(absl::GetFlag(FLAGS_kafka_ingest_cert_file), kPemBytesMax,
                         access.tls->client_certificate));
    read.Update(
        ReadInto(absl::GetFlag(FLAGS_kafka_ingest_key_file), kPemBytesMax, access.tls->client_key));
  }
  if (!access.sasl_mechanism.empty()) {
    std::string& password = access.sasl_password;
    read.Update(ReadInto(absl::GetFlag(FLAGS_kafka_ingest_sasl_password_file), kPasswordBytesMax,
                         password));
    // Editors end a file with a newline.
    while (!password.empty() && (password.back() == '\n' || password.back() == '\r'))
      password.pop_back();
  }
  if (!read.ok()) return read;
  return options;
}

}  // namespace escapement::master
