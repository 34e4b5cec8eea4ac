// Generated hostile targets: what users could write to make the platform call what it must not, or
// write what it must not, for every kind of target. Each is refused, or harmless: nothing of it can
// end a line, no connection to this machine is made, and what is said of it can be shown.

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <signal.h>

#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/printable_text.h"
#include "common/net/address_rule.h"
#include "common/templates/event_template.h"
#include "escapement/storage/v1/records.pb.h"
#include "gtest/gtest.h"
#include "services/handler/delivery/email/mail_message.h"
#include "services/handler/delivery/kinds/transport_table.h"
#include "services/master/codec/target_codec.h"
#include "tests/fixtures/attempts.h"
#include "tests/fixtures/collecting_sink.h"
#include "tests/fixtures/http_receiver.h"

namespace escapement {
namespace hostile_targets_test {

constexpr int kTargets = 10'000;

// Ways to write an address of this machine, or of a service that only it can reach.
constexpr const char* kHosts[] = {"127.0.0.1",
                                  "127.1",
                                  "127.0.1",
                                  "0x7f.0.0.1",
                                  "0x7f000001",
                                  "2130706433",
                                  "017700000001",
                                  "0177.0.0.1",
                                  "127.0.0.1.",
                                  "127.127.127.127",
                                  "localhost",
                                  "LOCALHOST",
                                  "localhost.",
                                  "0.0.0.0",
                                  "0",
                                  "00",
                                  "[::1]",
                                  "[::]",
                                  "[0:0:0:0:0:0:0:1]",
                                  "[::ffff:127.0.0.1]",
                                  "[::ffff:7f00:1]",
                                  "[::127.0.0.1]",
                                  "[64:ff9b::7f00:1]",
                                  "[2002:7f00:1::]",
                                  "[::1%25lo]",
                                  "[fe80::1%25lo]",
                                  "169.254.169.254",
                                  "[::ffff:169.254.169.254]",
                                  "[fd00:ec2::254]",
                                  "10.0.0.1",
                                  "user@127.0.0.1",
                                  "example.com@127.0.0.1",
                                  "127.0.0.1#@example.com",
                                  "127.0.0.1\\@example.com",
                                  "127.0.0.1%2f@example.com",
                                  "127.0.0.1%00.example.com",
                                  "\xe2\x91\xa0\xe2\x91\xa1\xe2\x91\xa6.0.0.1",
                                  "127\xe3\x80\x82"
                                  "0.0.1"};
constexpr const char* kSchemes[] = {
    "http://",   "https://", "HTTP://",  "http:/",        "http:\\\\", "//",    "file://", "ftp://",
    "gopher://", "dict://",  "smtp://",  "smtps://",      "dns:///",   "ipv4:", "ipv6:",   "unix:",
    "xds:///",   "",         " http://", "http://http://"};
constexpr const char* kPaths[] = {"",
                                  "/",
                                  "/a?b=c",
                                  "/..%2f..%2fadmin",
                                  "/%0d%0aHost:%20evil",
                                  "/\r\nHost: evil",
                                  "/a b",
                                  "/#fragment",
                                  "?",
                                  "/\x01",
                                  "/\xff",
                                  "/{{payload}}"};
constexpr const char* kTexts[] = {"plain",
                                  "a\r\nBcc: x@example.com",
                                  "a\nX-Evil: 1",
                                  "a\rb",
                                  "{{payload}}",
                                  "{{payload.a}}",
                                  "{{",
                                  "}}{{id}}",
                                  "{{nobody}}",
                                  "=?utf-8?q?a=0D=0Ab?=",
                                  "\xf0\x9f\x92\xa3",
                                  "\xc3",
                                  "x@example.com> SIZE=1",
                                  "<x@example.com>",
                                  "x@example.com",
                                  "x@example.com, y@example.com",
                                  "\"a b\"@example.com",
                                  "x@[127.0.0.1]"};

class Hostile {
 public:
  explicit Hostile(int port) : port_(port) {}

  v1::Target Target() {
    v1::Target target;
    switch (Number(8)) {
      case 0:
        target.mutable_ping()->set_uri(Uri());
        break;
      case 1:
        target.mutable_grpc()->set_uri(Uri());
        if (Number(4) == 0) *target.mutable_grpc()->mutable_tls() = Tls();
        break;
      case 2:
        target.mutable_kafka()->set_brokers(
            absl::StrCat(Uri(""), Number(2) == 0 ? "," : "", Number(2) == 0 ? Uri("") : ""));
        target.mutable_kafka()->set_topic(Mostly("topic"));
        target.mutable_kafka()->set_key(Text());
        if (Number(8) == 0) *target.mutable_kafka()->mutable_tls() = Tls();
        if (Number(8) == 0) {
          target.mutable_kafka()->mutable_sasl()->set_mechanism(Mostly("SCRAM-SHA-256"));
          target.mutable_kafka()->mutable_sasl()->set_username(Text());
          target.mutable_kafka()->mutable_sasl()->set_password(Text());
        }
        break;
      case 3:
        target.mutable_email()->set_smtp_uri(Uri("smtp://"));
        target.mutable_email()->set_plaintext(Number(2) == 0);
        if (Number(8) == 0) {
          target.mutable_email()->set_username(Text());
          target.mutable_email()->set_password(Text());
        }
        target.mutable_email()->set_from(Mostly("a@example.com"));
        for (int i = Number(3); i >= 0; --i)
          target.mutable_email()->add_to(Mostly("b@example.com"));
        target.mutable_email()->set_subject(Mostly("{{source}}"));
        target.mutable_email()->set_text(Text());
        break;
      case 4:
        target.mutable_sqs()->set_queue_url(Uri());
        target.mutable_sqs()->set_region(Mostly("eu-central-1"));
        target.mutable_sqs()->set_endpoint(Number(4) > 0 ? "" : Uri());
        target.mutable_sqs()->set_message_group_id(Mostly(""));
        // Without credentials nothing would be sent.
        target.mutable_sqs()->set_credentials(Mostly("id:secret"));
        break;
      case 5:
        target.mutable_slack()->set_webhook_url(Uri());
        target.mutable_slack()->set_text(Text());
        break;
      default:
        target.mutable_http()->set_uri(Uri());
        if (Number(4) == 0)
          (*target.mutable_http()->mutable_secret_headers())[absl::StrCat("Y-", Text())] = Text();
        if (Number(8) == 0) target.mutable_http()->add_signing_secrets("whsec_" + Text());
        if (Number(8) == 0) *target.mutable_http()->mutable_tls() = Tls();
        for (int i = Number(3); i > 0; --i)
          (*target.mutable_http()->mutable_headers())[absl::StrCat("X-", Text())] = Text();
        break;
    }
    return target;
  }

  // Mostly this text, so that not everything is refused for it.
  std::string Mostly(const char* usual) { return Number(5) > 0 ? usual : Text(); }

  std::string Text() {
    std::string text = kTexts[Number(std::size(kTexts))];
    if (Number(8) == 0) text = Mutated(std::move(text));
    return text;
  }

 private:
  int Number(size_t below) { return static_cast<int>(random_() % static_cast<uint64_t>(below)); }

  v1::TlsOptions Tls() {
    v1::TlsOptions tls;
    if (Number(2) == 0)
      tls.set_ca_certificates("-----BEGIN CERTIFICATE-----\n" + Text() +
                              "\n-----END CERTIFICATE-----\n");
    if (Number(4) == 0) tls.set_client_certificate(Text());
    if (Number(4) == 0) tls.set_client_key(Text());
    return tls;
  }

  // Half of the URIs have their parts in the usual places.
  std::string Uri(const char* usual = "http://") {
    const std::string place = absl::StrCat(kHosts[Number(std::size(kHosts))], ":", port_);
    std::string uri = absl::StrCat(Number(2) == 0 ? usual : kSchemes[Number(std::size(kSchemes))],
                                   place, Number(2) == 0 ? "" : kPaths[Number(std::size(kPaths))]);
    if (Number(3) == 0) uri = place;
    if (Number(8) == 0) uri = Mutated(std::move(uri));
    return uri;
  }

  // With one character of those that parsers disagree about.
  std::string Mutated(std::string text) {
    constexpr absl::string_view kCharacters("\0\t\n\r @#?/\\:[]%;,.<>\"'\x7f\x80", 24);
    text.insert(static_cast<size_t>(Number(text.size() + 1)), 1, kCharacters[Number(24)]);
    return text;
  }

  const int port_;
  std::mt19937_64 random_{20261126};
};

// Payloads, templates and certificates may have lines. A password is sent encoded.
const std::set<std::string> kMayHaveLines = {
    "text",       "key",      "ca_certificates", "client_certificate",
    "client_key", "password", "sasl_password"};

// Each text of a record.
void ExpectNoLineEnds(const google::protobuf::Message& record, const v1::Target& target) {
  const auto* reflection = record.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection->ListFields(record, &fields);
  for (const auto* field : fields) {
    const auto check = [&](const std::string& text) {
      if (kMayHaveLines.contains(field->name())) return;
      EXPECT_EQ(text.find_first_of(std::string_view("\r\n\0", 3)), std::string::npos)
          << field->full_name() << " of " << target.ShortDebugString();
    };
    const bool inner = field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE;
    const bool string = field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_STRING;
    const int size = field->is_repeated() ? reflection->FieldSize(record, field) : 1;
    for (int i = 0; i < size; ++i) {
      if (inner) {
        ExpectNoLineEnds(field->is_repeated() ? reflection->GetRepeatedMessage(record, field, i)
                                              : reflection->GetMessage(record, field),
                         target);
      } else if (string) {
        check(field->is_repeated() ? reflection->GetRepeatedString(record, field, i)
                                   : reflection->GetString(record, field));
      }
    }
  }
}

// The headers of a mail: every line is a header or continues one, and no header was added.
void ExpectCleanMail(const handler::DeliveryAttempt& attempt) {
  const auto mail = handler::MailOf(attempt, absl::UnixEpoch());
  if (!mail.ok()) return;
  const std::string head = mail->substr(0, mail->find("\r\n\r\n"));
  for (const char* evil : {"\nBcc:", "\nX-Evil:", "\rb", "\rBcc"})
    EXPECT_FALSE(absl::StrContains(head, evil)) << head;
}

// Messages about attempts are shown to users.
void ExpectShowable(const handler::DeliveryResult& result) {
  EXPECT_FALSE(HasControlCharacters(result.message)) << result.message;
  EXPECT_LE(result.message.size(), handler::kDeliveryMessageBytesMax);
}

TEST(HostileTargets, AreRefusedOrHarmless) {
  signal(SIGPIPE, SIG_IGN);  // as the services do
  fixtures::Receipts receipts;
  const auto trap = *fixtures::HttpReceiver::Start({}, &receipts);
  const auto sink = std::make_shared<fixtures::CollectingSink>();
  // Connects only to what is globally reachable.
  const auto transports = handler::NewTransports(std::make_shared<const AddressRule>());
  Hostile hostile(trap->port());
  uint64_t sent = 0;
  std::map<storage::v1::TargetRecord::KindCase, int> accepted;
  for (int i = 0; i < kTargets; ++i) {
    const v1::Target target = hostile.Target();
    FieldViolations violations;
    const storage::v1::TargetRecord record = master::ReadTarget(target, "target", violations);
    EXPECT_FALSE(HasControlCharacters(violations.ToStatus().message()))
        << violations.ToStatus().message();
    if (!violations.empty()) continue;
    ++accepted[record.kind_case()];
    ExpectNoLineEnds(record, target);
    transports->Send(
        fixtures::MakeAttemptsTo(
            record, {.payload = "{\"a\":\"\\r\\nBcc: x\"}", .timeout = absl::Seconds(5)}, ++sent,
            1),
        sink);
    if (record.has_email()) ExpectCleanMail(fixtures::MakeAttemptsTo(record, {}, 1, 1)[0]);
  }
  // The test would show nothing of a kind if nearly all were refused.
  EXPECT_EQ(accepted.size(), 7u);
  for (const auto& [kind, count] : accepted) EXPECT_GT(count, 20) << "kind " << kind;
  ASSERT_TRUE(sink->Await(sent));
  for (const auto& [tag, results] : sink->results()) {
    EXPECT_EQ(results.size(), 1u);
    EXPECT_NE(results[0].status, handler::DeliveryStatus::kAccepted);
    ExpectShowable(results[0]);
  }
  EXPECT_EQ(trap->connections(), 0u);
}

TEST(HostileTargets, TemplatesOfAnyTextAreFilledWithinTheirBound) {
  Hostile hostile(1);
  for (int i = 0; i < kTargets; ++i) {
    const std::string text = hostile.Text() + hostile.Text();
    const auto parsed = EventTemplate::Parse(text);
    if (!parsed.ok()) continue;
    const std::string payload = hostile.Text();
    EventFacts facts;
    facts.payload = payload;
    EXPECT_LE(parsed->Fill(facts, 20).size(), 20u) << text;
  }
}

}  // namespace hostile_targets_test
}  // namespace escapement
