// Events from Kafka through real masters and a real store, while masters are killed.

#include <csignal>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/tls/testing/test_certificates.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/kafka/kafka_cluster.h"
#include "tests/fixtures/kafka/kafka_login_broker.h"
#include "tests/fixtures/process/child_process.h"
#include "tests/integration/api_client.h"
#include "tests/integration/platform.h"
#include "tests/integration/probes.h"

namespace escapement::integration {
namespace kafka_ingest_kill_test {

using ::escapement::fixtures::KafkaCluster;
using ::escapement::fixtures::KafkaRecord;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kOffsetCommit = 8;  // Kafka's number of the request
constexpr char kEvents[] = "escapement_master_kafka_events_total";
constexpr char kDuplicates[] = "escapement_master_kafka_duplicates_total";
constexpr char kEvent[] = R"({"dueTime":"2090-01-01T00:00:00Z","payload":"YQ==",)"
                          R"("target":{"ping":{"uri":"http://consumer.example.com/"}}})";

class KafkaIngestKillTest : public ::testing::Test {
 protected:
  KafkaIngestKillTest() {
    cluster_.MakeTopic("orders", 2);
    cluster_.MakeTopic("errors", 1);
  }

  void TearDown() override {
    if (HasFailure()) platform_->ShowLogs({"store", "master", "master.2"});
  }

  void Start(const std::vector<std::string>& more_flags = {},
             const std::vector<std::string>& services = {"store", "master"}) {
    std::vector<std::string> flags = {
        absl::StrCat("--kafka_ingest_brokers=", cluster_.bootstraps()),
        "--kafka_ingest_topics=orders", "--kafka_ingest_error_topic=errors"};
    flags.insert(flags.end(), more_flags.begin(), more_flags.end());
    platform_ = std::make_unique<Platform>(
        Platform::Options{.bin = BuiltFolder(),
                          .folder = folder_,
                          .extra_arguments = {{"master", flags}, {"master.2", flags}}});
    const absl::Status status = platform_->Start(services);
    ASSERT_TRUE(status.ok()) << status;
  }

  // Returns -1 if the service cannot be asked.
  double MetricOf(const std::string& service, absl::string_view metric) {
    return integration::MetricOf(platform_->http_address(service), metric);
  }
  // All pending events of the tenant "default".
  std::set<std::string> PendingEvents(const std::string& master = "master") {
    std::set<std::string> names;
    std::string token;
    do {
      const auto answer =
          HttpGet(platform_->http_address(master),
                  absl::StrCat("/v1/tenants/default/events?pageSize=1000&pageToken=", token));
      EXPECT_TRUE(answer.ok()) << answer.status();
      if (!answer.ok()) return names;
      for (absl::string_view text : absl::StrSplit(answer->body, "\"name\":\"")) {
        if (absl::StartsWith(text, "tenants/")) names.emplace(text.substr(0, text.find('"')));
      }
      const size_t next = answer->body.find("\"nextPageToken\":\"");
      token = next == std::string::npos
                  ? ""
                  : answer->body.substr(next + 17, answer->body.find('"', next + 17) - next - 17);
    } while (!token.empty());
    return names;
  }
  void Produce(size_t count) {
    cluster_.Produce("orders", {.partition = -1, .value = kEvent}, count);
  }
  void AwaitCommitted(int64_t each) {
    for (const int partition : {0, 1})
      cluster_.AwaitCommitted("escapement", "orders", partition, each);
  }
  std::string LogOf(const std::string& service) {
    std::ifstream in(platform_->log(service));
    return std::string(std::istreambuf_iterator<char>(in), {});
  }

  const std::string folder_ = NewFolder("kafka_ingest");
  KafkaCluster cluster_{2};
  std::unique_ptr<Platform> platform_;
};

TEST_F(KafkaIngestKillTest, KillBetweenAnswerAndCommitMakesNoSecondEvent) {
  // No commit succeeds: the coordinator says that it is not the coordinator.
  std::string refusals = absl::StrCat("errors ", kOffsetCommit);
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&refusals, " 16");
  cluster_.Do(refusals);
  Produce(400);
  ASSERT_NO_FATAL_FAILURE(Start());
  ASSERT_TRUE(Await([&] { return MetricOf("master", kEvents) == 400; }));
  EXPECT_LE(cluster_.Committed("escapement", "orders", 0), 0);
  platform_->Kill("master");
  cluster_.Do(absl::StrCat("clear ", kOffsetCommit));
  ASSERT_TRUE(platform_->Restart("master").ok());
  ASSERT_TRUE(platform_->AwaitReady("master").ok());
  AwaitCommitted(200);
  EXPECT_EQ(MetricOf("master", kDuplicates), 400);
  EXPECT_EQ(MetricOf("master", kEvents), 0);
  EXPECT_EQ(PendingEvents().size(), 400u);
}

TEST_F(KafkaIngestKillTest, KillsUnderLoadLoseAndRepeatNothing) {
  ASSERT_NO_FATAL_FAILURE(Start({"--kafka_ingest_max_batch=20"}, {"store", "master", "master.2"}));
  for (int round = 1; round <= 3; ++round) {
    Produce(2000);
    ASSERT_TRUE(
        Await([&] { return PendingEvents().size() > static_cast<size_t>(round - 1) * 2000; }));
    platform_->Kill("master.2");
    ASSERT_TRUE(platform_->Restart("master.2").ok());
    AwaitCommitted(round * 1000);
  }
  platform_->Kill("store");
  Produce(2000);
  ASSERT_TRUE(platform_->Restart("store").ok());
  AwaitCommitted(4000);
  EXPECT_EQ(PendingEvents().size(), 8000u);
  EXPECT_EQ(cluster_.Read("errors").size(), 0u);
}

TEST_F(KafkaIngestKillTest, TerminatedMasterHasCommittedWhatItStored) {
  Produce(100);
  ASSERT_NO_FATAL_FAILURE(Start());
  ASSERT_TRUE(Await([&] { return MetricOf("master", kEvents) == 100; }));
  EXPECT_EQ(*platform_->Terminate("master"), 0);
  EXPECT_EQ(cluster_.Committed("escapement", "orders", 0), 50);
  EXPECT_EQ(cluster_.Committed("escapement", "orders", 1), 50);
}

TEST_F(KafkaIngestKillTest, EventsAreValidatedAsTheApiDoes) {
  ASSERT_NO_FATAL_FAILURE(Start({"--kafka_ingest_topics=orders=default|missing"}));
  cluster_.Produce("orders", {.value = R"({"target":{"http":{"uri":"ftp://h/"}}})"});
  cluster_.Produce(
      "orders",
      {.value = R"({"eventId":"no good","target":{"ping":{"uri":"http://h.example/"}}})"});
  cluster_.Produce("orders", {.value = kEvent, .headers = {{"escapement-tenant", "missing"}}});
  cluster_.Produce("orders", {.value = kEvent});
  const std::vector<KafkaRecord> errors = cluster_.AwaitRecords("errors", 3);
  cluster_.AwaitCommitted("escapement", "orders", 0, 4);
  std::set<std::string> whys;
  for (const KafkaRecord& record : errors)
    whys.insert(absl::StrCat(record.Header("escapement-error-code"), " ",
                             record.Header("escapement-error")));
  EXPECT_THAT(whys, ::testing::ElementsAre(HasSubstr("INVALID_ARGUMENT event_id: must be"),
                                           HasSubstr("INVALID_ARGUMENT target.http.uri: "),
                                           HasSubstr("NOT_FOUND tenants/missing")));
  EXPECT_EQ(PendingEvents().size(), 1u);
  const auto audit =
      HttpGet(platform_->http_address("master"), "/v1/tenants/default/auditEntries?pageSize=100");
  ASSERT_TRUE(audit.ok());
  EXPECT_THAT(audit->body, HasSubstr("\"principal\":\"kafka/escapement\""));
}

TEST_F(KafkaIngestKillTest, UnusableCertificateMakesTheMasterNotReady) {
  std::ofstream(folder_ + "/ca.pem") << "no certificate";
  ASSERT_NO_FATAL_FAILURE(Start(
      {"--kafka_ingest_security_protocol=ssl", "--kafka_ingest_ca_file=" + folder_ + "/ca.pem"},
      {"store"}));
  ASSERT_TRUE(platform_->Restart("master").ok());
  ASSERT_TRUE(Await([&] {
    const auto page = HttpGet(platform_->http_address("master"), "/readyz");
    return page.ok() && page->status == 503 &&
           absl::StrContains(page->body, "the ingestion from Kafka could not start");
  }));
  EXPECT_EQ(*platform_->Terminate("master"), 0);
}

TEST_F(KafkaIngestKillTest, PasswordIsInNoLogAndNoPage) {
  // The broker refuses every login, and repeats the password in its refusal.
  const testing::TestCa ca;
  const testing::Identity identity = ca.Issue(1, "DNS:localhost");
  const fixtures::KafkaLoginBroker broker(identity.cert, identity.key, ca.pem());
  const std::string password = "canary-kafka-password";
  std::ofstream(folder_ + "/password") << password << "\n";
  std::ofstream(folder_ + "/ca.pem") << ca.pem();
  ASSERT_NO_FATAL_FAILURE(
      Start({absl::StrCat("--kafka_ingest_brokers=localhost:", broker.port()),
             "--kafka_ingest_security_protocol=sasl_ssl", "--kafka_ingest_sasl_mechanism=PLAIN",
             "--kafka_ingest_sasl_user=robot",
             "--kafka_ingest_sasl_password_file=" + folder_ + "/password",
             "--kafka_ingest_ca_file=" + folder_ + "/ca.pem"}));
  ASSERT_TRUE(Await([&] { return absl::StrContains(LogOf("master"), "no such login"); }));
  EXPECT_THAT(broker.seen().login, HasSubstr(password));
  for (const char* path : {"/metrics", "/readyz"}) {
    const auto page = HttpGet(platform_->http_address("master"), path);
    ASSERT_TRUE(page.ok());
    EXPECT_EQ(page->status, 200) << "the other doors work";
    EXPECT_THAT(page->body, Not(HasSubstr(password)));
  }
  EXPECT_EQ(*platform_->Terminate("master"), 0);
  EXPECT_THAT(LogOf("master"), Not(HasSubstr(password)));
}

}  // namespace kafka_ingest_kill_test
}  // namespace escapement::integration
