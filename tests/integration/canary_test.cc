// Secrets that callers present are nowhere to be found afterwards: not in logs, metrics, answers or
// the audit, and not in any byte of the data folder.

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/rpc/status_conversion.h"
#include "common/tls/testing/test_certificates.h"
#include "escapement/v1/event_service.pb.h"
#include "escapement/v1/schedule_service.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doors/access_requests.h"
#include "tests/doors/door_cases.h"
#include "tests/fixtures/hostile/hostile_server.h"
#include "tests/fixtures/http_receiver.h"
#include "tests/integration/secured_platform.h"

namespace escapement::integration {
namespace canary_test {

using google::protobuf::MethodDescriptor;
using ::testing::IsEmpty;
using ::testing::StartsWith;

const std::vector<std::string>& Services() {
  static const auto* const services = new std::vector<std::string>{
      "store", "master", "master.2", "token_manager", "emitter", "handler"};
  return *services;
}

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

class CanaryTest : public ::testing::Test {
 protected:
  CanaryTest() : secured_("canary") {}

  // `text` must not be found, neither as it is, nor in base64, nor, for hex digits, as bytes.
  void Plant(const std::string& name, const std::string& text) {
    canaries_[name] = text;
    canaries_[name + " in base64"] = absl::Base64Escape(text).substr(0, text.size());
    if (std::all_of(text.begin(), text.end(), absl::ascii_isxdigit))
      canaries_[name + " as bytes"] = absl::HexStringToBytes(text);
  }

  // A key that the platform makes: its secret is a canary.
  std::string PlantedKey(v1::Access::Role role) {
    const v1::ApiKey key = secured_.NewKey("tenants/default", role);
    const std::string secret = key.secret().substr(key.secret().rfind('_') + 1);
    Plant(absl::StrCat("secret of ", v1::Access::Role_Name(role)), secret);
    key_id_ = key.name().substr(key.name().rfind('/') + 1);
    return SecuredPlatform::Bearer(key);
  }

  void ExpectNoCanary(const std::string& where, const std::string& bytes) {
    for (const auto& [name, text] : canaries_)
      EXPECT_FALSE(absl::StrContains(bytes, text)) << name << " is in " << where;
  }

  // Calls everything on every port with this header.
  void CallEverything(const std::string& header) {
    const SecuredPlatform::Headers headers = {{"authorization", header}};
    for (const MethodDescriptor* method : doors::PublicMethods()) {
      const auto request =
          doors::ReadRequestText(*method, "default", doors::Probes().at(method->name()).request);
      const std::string path =
          absl::StrCat("/", method->service()->full_name(), "/", method->name());
      for (const char* service : {"store", "master", "token_manager"}) {
        if (header.find_first_of("\t\xff") != std::string::npos) continue;  // no gRPC client has it
        const fixtures::RawAnswer answer =
            secured_.Grpc(service, path, request->SerializeAsString(), secured_.nobody(), headers);
        for (const std::string& message : answer.messages) ExpectNoCanary("an answer", message);
        ExpectNoCanary("an error",
                       absl::StrCat(answer.status.error_message(), answer.status.error_details()));
      }
    }
    for (const rest::RestRoute& route : fixtures::PublicRoutes().routes()) {
      const auto request = doors::ReadRequestText(*route.method, "default",
                                                  doors::Probes().at(route.method->name()).request);
      const HttpCall call = doors::RestCallOf(route, *request);
      ExpectNoCanary("an answer of REST", secured_.Https("master.2", call.method, call.path,
                                                         call.body, secured_.nobody(), headers));
      // A request that cannot be read.
      ExpectNoCanary("an error of REST",
                     secured_.Https("master.2", call.method, call.path + "?colour=red", "{]",
                                    secured_.nobody(), headers));
    }
    ExpectNoCanary("an answer of the line door",
                   secured_.Https("master", "POST", "/v1/tenants/default/events:ingest", "{}\n",
                                  secured_.nobody(), headers));
    for (const std::string& service : Services()) {
      for (const char* path : {"/healthz", "/readyz", "/metrics", "/nothing"}) {
        ExpectNoCanary(absl::StrCat(path, " of ", service),
                       secured_.Https(service, "GET", path, "", secured_.nobody(), headers));
      }
    }
  }

  // Lists and gets as the admin, also of the audit.
  void ExpectNothingListed() {
    for (const MethodDescriptor* method : doors::PublicMethods()) {
      if (method->client_streaming() || method->server_streaming()) continue;
      for (const char* tenant : {"default", "-"}) {
        const auto request = doors::ReadRequestText(
            *method, tenant,
            absl::StrReplaceAll(
                doors::Probes().at(method->name()).request,
                {{"schedules/none", "schedules/s"}, {"keys/none", "keys/" + key_id_}}));
        if (const auto* size = method->input_type()->FindFieldByName("page_size"); size != nullptr)
          request->GetReflection()->SetInt32(request.get(), size, 1000);
        if (!absl::StartsWith(method->name(), "Get") && !absl::StartsWith(method->name(), "List"))
          continue;
        const fixtures::RawAnswer answer = secured_.Grpc(
            "master", absl::StrCat("/", method->service()->full_name(), "/", method->name()),
            request->SerializeAsString(), secured_.nobody(), {{"authorization", secured_.admin()}});
        for (const std::string& message : answer.messages) ExpectNoCanary(method->name(), message);
      }
    }
  }

  void ExpectNothingOnDisk(const std::string& when) {
    for (const std::string& service : Services()) {
      const std::string log = ReadFile(secured_.platform().log(service));
      EXPECT_FALSE(log.empty()) << service;
      ExpectNoCanary(absl::StrCat("the log of ", service, when), log);
    }
    bool has_key_id = false;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(secured_.folder() + "/data")) {
      if (!entry.is_regular_file()) continue;
      const std::string bytes = ReadFile(entry.path());
      has_key_id |= absl::StrContains(bytes, key_id_);
      ExpectNoCanary(entry.path().string() + when, bytes);
    }
    // So the search can find what is there.
    EXPECT_TRUE(has_key_id);
  }

  SecuredPlatform secured_;
  std::map<std::string, std::string> canaries_;
  std::string key_id_;
};

TEST_F(CanaryTest, PresentedSecretsAreNowhere) {
  const absl::Status started = secured_.Start(Services());
  ASSERT_TRUE(started.ok()) << started;
  v1::CreateScheduleRequest create;
  create.set_parent("tenants/default");
  create.set_schedule_id("s");
  create.mutable_schedule()->set_cron("0 3 1 1 *");
  create.mutable_schedule()->mutable_target()->mutable_http()->set_uri("http://127.0.0.1:9/");
  ASSERT_TRUE(secured_.Call<v1::Schedule>("ScheduleService/CreateSchedule", create).ok());

  Plant("the bootstrap key's secret", std::string(64, '7'));
  std::vector<std::string> headers = {PlantedKey(v1::Access::VIEWER), PlantedKey(v1::Access::ADMIN),
                                      secured_.admin()};
  const std::string unknown = "c0ffee00c0ffee11c0ffee22c0ffee33c0ffee44c0ffee55c0ffee66c0ffee77";
  Plant("an unknown key's secret", unknown);
  headers.push_back("Bearer esc_00000000deadbeef_" + unknown);
  headers.push_back("Bearer esc_" + key_id_ + "_" + unknown);  // a wrong secret
  headers.push_back("Bearer esc_00000000deadbeef_" + unknown + unknown);
  headers.push_back("Basic " + unknown);
  headers.push_back(unknown);
  const std::string jwt = "eyJhbGciOiJSUzI1NiJ9.eyJjYW5hcnkiOiJzaW5ncyJ9.canary-signature-canary";
  Plant("a JWT", jwt);
  Plant("a part of a JWT", "eyJjYW5hcnkiOiJzaW5ncyJ9");
  headers.push_back("Bearer " + jwt);
  headers.push_back("bearer\t" + jwt);
  headers.push_back("bearer " + jwt + "\xff");
  Plant("text", "tweet-of-the-canary");
  headers.push_back("Bearer tweet-of-the-canary and more");
  headers.push_back("Digest username=\"tweet-of-the-canary\"");
  std::string long_one;
  while (long_one.size() < 20'000) long_one += "tweet-of-the-canary.";
  headers.push_back("Bearer " + long_one);
  for (const std::string& header : headers) CallEverything(header);
  ExpectNothingListed();

  for (const std::string& service : Services()) {
    EXPECT_THAT(secured_.Https(service, "GET", "/metrics", "", secured_.nobody(), {}),
                StartsWith("HTTP/1.1 200"));
    secured_.platform().Kill(service);
  }
  ExpectNothingOnDisk(" after kill -9");
  const absl::Status again = secured_.Start(Services());
  ASSERT_TRUE(again.ok()) << again;
  CallEverything(headers[1]);
  ExpectNothingListed();
  for (auto it = Services().rbegin(); it != Services().rend(); ++it) {
    const auto code = secured_.platform().Terminate(*it);
    ASSERT_TRUE(code.ok()) << *it << code.status();
    EXPECT_EQ(*code, 0) << *it;
  }
  ExpectNothingOnDisk(" after a clean end");
}

// The secrets of targets: they are stored sealed, used for deliveries that fail, and quoted
// nowhere.
TEST_F(CanaryTest, SecretsOfTargetsAreNowhere) {
  const absl::Status started = secured_.Start(Services());
  ASSERT_TRUE(started.ok()) << started;
  PlantedKey(v1::Access::VIEWER);
  Plant("text", "tweet-of-the-canary");
  const std::string signing = "whsec_" + absl::Base64Escape("tweet-of-the-canary-in-a-key");
  Plant("a signing secret", signing);
  const testing::Identity client = testing::TestCa().Issue(77);
  Plant("a client's key", client.key.substr(100, 40));  // within its first lines
  const std::string tls = absl::StrCat("client_certificate: '", absl::CEscape(client.cert),
                                       "' client_key: '", absl::CEscape(client.key), "'");
  // A consumer that fails everything, and repeats the request in its answer.
  const fixtures::EchoServer echo;
  const std::string peer = absl::StrCat("127.0.0.1:", echo.port());
  // Port 9 refuses connections. Every delivery fails with a reason.
  std::vector<std::string> targets;
  for (const std::string& at : {std::string("127.0.0.1:9"), peer}) {
    targets.push_back(
        absl::StrCat("http { uri: 'http://", at, "/' signing_secrets: '", signing,
                     "' secret_headers { key: 'Authorization' value: 'tweet-of-the-canary' } "
                     "secret_headers { key: 'X-Other' value: 'Bearer tweet-of-the-canary' } }"));
    targets.push_back(absl::StrCat("http { uri: 'https://", at, "/' tls { ", tls, " } }"));
    targets.push_back(absl::StrCat("grpc { uri: '", at, "' tls { ", tls, " } }"));
    targets.push_back(absl::StrCat("sqs { queue_url: 'http://", at,
                                   "/1/q' region: 'r' credentials: 'id:tweet-of-the-canary' }"));
    targets.push_back(absl::StrCat("sqs { queue_url: 'http://", at, "/1/r' region: 'r' ",
                                   "credentials: 'id:other-secret:tweet-of-the-canary' }"));
    targets.push_back(
        absl::StrCat("slack { webhook_url: 'http://", at, "/tweet-of-the-canary' text: 'hello' }"));
    targets.push_back(absl::StrCat("email { smtp_uri: 'smtp://", at,
                                   "' from: 'a@b' to: 'c@d' username: 'u' "
                                   "password: 'tweet-of-the-canary' tls { ",
                                   tls, " } }"));
    targets.push_back(absl::StrCat("kafka { brokers: '", at, "' topic: 't' tls { ", tls,
                                   " } sasl { mechanism: 'PLAIN' username: 'u' "
                                   "password: 'tweet-of-the-canary' } }"));
  }
  std::vector<std::string> events;
  for (size_t i = 0; i < targets.size(); ++i) {
    v1::CreateScheduleRequest create;
    create.set_parent("tenants/default");
    create.set_schedule_id(absl::StrCat("s", i == 0 ? "" : absl::StrCat(i)));
    create.mutable_schedule()->set_cron("0 3 1 1 *");
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
        targets[i], create.mutable_schedule()->mutable_target()))
        << targets[i];
    *create.mutable_schedule()->mutable_on_complete() = create.schedule().target();
    const auto schedule = secured_.Call<v1::Schedule>("ScheduleService/CreateSchedule", create);
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    ExpectNoCanary("the answer of CreateSchedule", schedule->SerializeAsString());

    v1::CreateEventRequest event;
    event.set_parent("tenants/default");
    event.mutable_event()->mutable_due_time()->set_seconds(1);
    *event.mutable_event()->mutable_target() = create.schedule().target();
    event.mutable_event()->mutable_retry_policy()->set_max_attempts(1);
    event.mutable_event()->mutable_delivery_timeout()->set_seconds(1);
    event.mutable_event()->set_payload("hello");
    const auto made = secured_.Call<v1::Event>("EventService/CreateEvent", event);
    ASSERT_TRUE(made.ok()) << made.status();
    ExpectNoCanary("the answer of CreateEvent", made->SerializeAsString());
    events.push_back(made->name());

    // An error names the wrong field and quotes nothing.
    v1::UpdateScheduleRequest update;
    *update.mutable_schedule() = create.schedule();
    update.mutable_schedule()->set_name(schedule->name());
    update.mutable_schedule()->set_cron("nonsense");
    const auto refused = secured_.Call<v1::Schedule>("ScheduleService/UpdateSchedule", update);
    ASSERT_FALSE(refused.ok());
    ExpectNoCanary("an error", refused.status().ToString());
  }
  for (const std::string& name : events) {
    v1::GetEventRequest get;
    get.set_name(name);
    v1::Event event;
    while (event.state() != v1::ENDED) {
      const auto shown = secured_.Call<v1::Event>("EventService/GetEvent", get);
      ASSERT_TRUE(shown.ok()) << shown.status();
      event = *shown;
    }
    EXPECT_EQ(event.outcome(), v1::FAILED) << event.reason();
    EXPECT_NE(event.reason(), "");
    ExpectNoCanary("an event", event.SerializeAsString());
  }
  EXPECT_TRUE(echo.Repeated("tweet-of-the-canary")) << "no peer repeated a secret";
  ExpectNothingListed();
  for (const std::string& service : Services()) {
    ExpectNoCanary("metrics of " + service,
                   secured_.Https(service, "GET", "/metrics", "", secured_.nobody(), {}));
    secured_.platform().Kill(service);
  }
  ExpectNothingOnDisk(" after kill -9");
}

}  // namespace canary_test
}  // namespace escapement::integration
