#include "services/handler/delivery/http/http_transport.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/signing/webhook_signer.h"
#include "escapement/storage/v1/records.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/attempts.h"
#include "tests/fixtures/collecting_sink.h"
#include "tests/fixtures/http_receiver.h"
#include "tests/fixtures/raw_call.h"

namespace escapement::handler {
namespace http_transport_test {

using fixtures::AttemptOptions;
using fixtures::CollectingSink;
using fixtures::HttpReceiver;
using fixtures::MakeAttempts;
using fixtures::MakeAttemptsTo;
using fixtures::OnLoopback;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The tests run with plain requests, and with requests by libcurl (because of a user in the URI).
class HttpTransportTest : public ::testing::TestWithParam<const char*> {
 protected:
  HttpTransportTest() : receiver_(*HttpReceiver::Start({.kept_requests_max = 10}, &receipts_)) {}

  std::string origin() const {
    return absl::StrReplaceAll(receiver_->origin(), {{"//", absl::StrCat("//", GetParam())}});
  }

  // Sends one attempt to a path of the receiver and waits for its result.
  DeliveryResult SendTo(const std::string& path, absl::Duration timeout = absl::Seconds(30)) {
    const uint64_t tag = next_tag_++;
    transport_.Send(MakeAttempts({.uri = origin() + path, .timeout = timeout}, tag, 1), sink_);
    EXPECT_TRUE(sink_->Await(++sent_));
    return sink_->Only(tag);
  }

  // Expects that each of them arrives once.
  void SendTenThousand(HttpTransport& transport) {
    constexpr uint64_t kCount = 10'000;
    for (uint64_t first = 1; first <= kCount; first += 500) {
      transport.Send(
          MakeAttempts({.uri = origin() + "/ok", .payload = std::string(500, 'p')}, first, 500),
          sink_);
    }
    ASSERT_TRUE(sink_->Await(kCount));
    EXPECT_EQ(sink_->count(), kCount);
    for (const auto& [tag, results] : sink_->results()) {
      ASSERT_EQ(results.size(), 1u);
      ASSERT_EQ(results[0].status, DeliveryStatus::kAccepted);
    }
    const fixtures::ReceiptStats stats = receipts_.Stats();
    EXPECT_EQ(stats.received, kCount);
    EXPECT_EQ(stats.distinct, kCount);
  }

  fixtures::Receipts receipts_;
  std::unique_ptr<HttpReceiver> receiver_;
  std::shared_ptr<CollectingSink> sink_ = std::make_shared<CollectingSink>();
  HttpTransport transport_{OnLoopback<HttpTransport>()};
  uint64_t next_tag_ = 1;
  size_t sent_ = 0;
};

TEST_P(HttpTransportTest, RequestHasExactlyTheCloudEventsHeaders) {
  const AttemptOptions options = {.uri = origin() + "/hook?x=1",
                                  .method = "PUT",
                                  .payload = "hello",
                                  .content_type = "text/plain",
                                  .launch_time = absl::FromUnixMicros(1'772'323'200'000'250),
                                  .run_count = 9};
  transport_.Send(MakeAttempts(options, 7, 1), sink_);
  ASSERT_TRUE(sink_->Await(1));
  EXPECT_EQ(sink_->Only(7).status, DeliveryStatus::kAccepted);
  const auto requests = receiver_->KeptRequests();
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(requests[0].second, "hello");
  std::vector<std::string> lines = absl::StrSplit(requests[0].first, "\r\n");
  if (GetParam()[0] != '\0') {
    EXPECT_THAT(lines[2], HasSubstr("Authorization: "));
    lines.erase(lines.begin() + 2);
  }
  EXPECT_THAT(lines, ElementsAre("PUT /hook?x=1 HTTP/1.1",                               //
                                 "Host: 127.0.0.1:" + absl::StrCat(receiver_->port()),   //
                                 "Accept: */*",                                          //
                                 "Content-Type: text/plain",                             //
                                 "X-Team: night shift",                                  //
                                 "User-Agent: Escapement",                               //
                                 "ce-specversion: 1.0",                                  //
                                 "ce-type: escapement.trigger.v1",                       //
                                 "ce-source: /tenants/default/schedules/nightly",        //
                                 "ce-time: 2026-03-01T00:00:00.000250Z",                 //
                                 "Escapement-Launch-Time: 2026-03-01T00:00:00.000250Z",  //
                                 "Escapement-Count: 9",                                  //
                                 "ce-id: event-7",                                       //
                                 "Idempotency-Key: event-7",                             //
                                 "ce-subject: 2026-03-01T00:00:00Z/7",                   //
                                 "Escapement-Attempt: 1",                                //
                                 "Escapement-Index: 7",                                  //
                                 "Content-Length: 5"));
}

TEST_P(HttpTransportTest, EmptyBodyHasNoContentType) {
  const AttemptOptions options = {.uri = origin(), .payload = "", .content_type = "text/plain"};
  transport_.Send(MakeAttempts(options, 1, 1), sink_);
  ASSERT_TRUE(sink_->Await(1));
  const auto requests = receiver_->KeptRequests();
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(requests[0].second, "");
  EXPECT_THAT(requests[0].first, ::testing::Not(HasSubstr("Content-Type")));
  EXPECT_THAT(requests[0].first, HasSubstr("Content-Length: 0"));
}

TEST_P(HttpTransportTest, SignsWithEachSecretAndSendsSecretHeaders) {
  storage::v1::TargetRecord target;
  auto* http = target.mutable_http();
  http->set_uri(origin());
  http->set_method("POST");
  const std::vector<std::string> secrets = {"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
                                            "whsec_AfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"};
  for (const std::string& secret : secrets) http->add_signing_secrets(secret);
  auto* header = http->add_secret_headers();
  header->set_name("Authorization");
  header->set_value("Bearer s3cret");
  const int64_t before = absl::ToUnixSeconds(absl::Now());
  transport_.Send(MakeAttemptsTo(target, {.payload = "{\"a\":1}"}, 7, 1), sink_);
  ASSERT_TRUE(sink_->Await(1));
  const auto requests = receiver_->KeptRequests();
  ASSERT_EQ(requests.size(), 1u);
  const std::string& head = requests[0].first;
  EXPECT_THAT(head, HasSubstr("\r\nAuthorization: Bearer s3cret\r\n"));
  EXPECT_THAT(head, HasSubstr("\r\nwebhook-id: event-7\r\n"));
  const std::string_view mark = "\r\nwebhook-timestamp: ";
  ASSERT_THAT(head, HasSubstr(mark));
  const int64_t time = std::stoll(head.substr(head.find(mark) + mark.size()));
  EXPECT_GE(time, before);
  EXPECT_LE(time, absl::ToUnixSeconds(absl::Now()));
  EXPECT_THAT(head, HasSubstr(absl::StrCat(
                        "\r\nwebhook-signature: ",
                        WebhookSigner::Make(secrets)->Sign("event-7", time, "{\"a\":1}"), "\r\n")));
}

TEST_P(HttpTransportTest, ConnectsOnlyToAllowedAddresses) {
  HttpTransport::Options options;
  options.addresses = std::make_shared<const AddressRule>();
  HttpTransport strict(options);
  strict.Send(MakeAttempts({.uri = origin() + "/ok"}, 1, 1), sink_);
  ASSERT_TRUE(sink_->Await(1));
  EXPECT_EQ(sink_->Only(1).status, DeliveryStatus::kFailed);
  EXPECT_EQ(sink_->Only(1).message, "the address of the target is not allowed");
  EXPECT_EQ(receiver_->connections(), 0u);
}

// The name is checked by what it stands for.
TEST_P(HttpTransportTest, NamesOfLoopbackAreNotAllowedEither) {
  HttpTransport strict{HttpTransport::Options{}};
  const std::string uri = absl::StrReplaceAll(origin(), {{"127.0.0.1", "localhost"}});
  strict.Send(MakeAttempts({.uri = uri}, 1, 1), sink_);
  ASSERT_TRUE(sink_->Await(1));
  EXPECT_EQ(sink_->Only(1).message, "the address of the target is not allowed");
  EXPECT_EQ(receiver_->connections(), 0u);
}

TEST_P(HttpTransportTest, EachStatusGivesTheResultOfTheContract) {
  EXPECT_EQ(SendTo("/status/204").status, DeliveryStatus::kAccepted);
  EXPECT_EQ(SendTo("/status/302").status, DeliveryStatus::kFailed);
  EXPECT_EQ(SendTo("/status/404").status, DeliveryStatus::kFailed);
  EXPECT_EQ(SendTo("/status/410").status, DeliveryStatus::kRejected);
  EXPECT_TRUE(SendTo("/status/410").gone);
  EXPECT_EQ(SendTo("/status/410").status_code, 410);
  EXPECT_FALSE(SendTo("/status/404").gone);
  const DeliveryResult failed = SendTo("/status/500/body/40");
  EXPECT_EQ(failed.status, DeliveryStatus::kFailed);
  EXPECT_EQ(failed.message, "HTTP 500: " + std::string(40, 'x'));
  EXPECT_EQ(failed.status_code, 500);
  EXPECT_EQ(failed.answer, std::string(40, 'x'));
  EXPECT_EQ(receiver_->requests(), 8u) << "a redirect was followed";
}

TEST_P(HttpTransportTest, TheBeginningOfALongAnswerIsKept) {
  const DeliveryResult failed = SendTo("/status/500/body/9000");
  EXPECT_EQ(failed.answer, std::string(kDeliveryAnswerBytesMax, 'x'));
  EXPECT_EQ(failed.message, "HTTP 500: " + std::string(kHttpMessageBodyBytesMax, 'x'));
  const DeliveryResult accepted = SendTo("/status/201/body/9000");
  EXPECT_EQ(accepted.status_code, 201);
  EXPECT_EQ(accepted.answer, std::string(kDeliveryAnswerBytesMax, 'x'));
}

TEST_P(HttpTransportTest, RetryAfterCountsOnlyWith429And503) {
  EXPECT_EQ(SendTo("/status/503/retryafter/7").retry_after, absl::Seconds(7));
  EXPECT_EQ(SendTo("/status/429/retryafter/9").retry_after, absl::Seconds(9));
  EXPECT_EQ(SendTo("/status/429").retry_after, absl::ZeroDuration());
  EXPECT_EQ(SendTo("/status/500/retryafter/9").retry_after, absl::ZeroDuration());
  EXPECT_EQ(SendTo("/status/503/retryafter/999999").retry_after, kRetryAfterMax);
}

TEST_P(HttpTransportTest, HangingReceiverTimesOut) {
  const DeliveryResult result = SendTo("/hang", absl::Milliseconds(30));
  EXPECT_EQ(result.status, DeliveryStatus::kUnknown);
  EXPECT_THAT(result.message, HasSubstr("timed out"));
}

TEST_P(HttpTransportTest, AttemptsBehindHangingOnesTimeOutToo) {
  HttpTransport transport(OnLoopback<HttpTransport>({.in_flight_per_origin_max = 2}));
  transport.Send(MakeAttempts({.uri = origin() + "/hang"}, 1, 2), sink_);
  transport.Send(MakeAttempts({.uri = origin() + "/hang", .timeout = absl::Milliseconds(40)}, 3, 4),
                 sink_);
  ASSERT_TRUE(sink_->Await(4));
  EXPECT_EQ(receiver_->requests(), 2u);
  for (uint64_t tag = 3; tag <= 6; ++tag)
    EXPECT_EQ(sink_->Only(tag).status, DeliveryStatus::kUnsent);
}

TEST_P(HttpTransportTest, FewHangingReceiversDoNotTakeAllConnections) {
  HttpTransport transport(
      OnLoopback<HttpTransport>({.in_flight_unanswered_max = 4, .in_flight_max = 16}));
  std::vector<std::unique_ptr<HttpReceiver>> hanging;
  for (uint64_t i = 0; i < 3; ++i) {
    hanging.push_back(*HttpReceiver::Start({}, &receipts_));
    transport.Send(MakeAttempts({.uri = hanging.back()->origin() + "/hang"}, 100 * i + 1, 50),
                   sink_);
  }
  // They are all answered while the others hang.
  transport.Send(MakeAttempts({.uri = origin() + "/"}, 1001, 50), sink_);
  ASSERT_TRUE(sink_->Await(50));
  for (uint64_t tag = 1001; tag <= 1050; ++tag)
    EXPECT_EQ(sink_->Only(tag).status, DeliveryStatus::kAccepted);
  EXPECT_LE(hanging[0]->requests(), 4u);
}

TEST_P(HttpTransportTest, HangingRequestsDoNotTakeTheConnectionsOfOthers) {
  HttpTransport transport(OnLoopback<HttpTransport>({.in_flight_per_origin_max = 8}));
  std::vector<DeliveryAttempt> attempts;
  for (uint64_t tag = 1; tag <= 200; ++tag) {
    const char* const path = tag % 5 == 0 ? "/hang" : "/delay/100";
    auto one = MakeAttempts({.uri = origin() + path, .timeout = absl::Minutes(2)}, tag, 1);
    attempts.push_back(std::move(one.front()));
  }
  transport.Send(std::move(attempts), sink_);
  ASSERT_TRUE(sink_->Await(160)) << "forty hang";
  for (const auto& [tag, results] : sink_->results())
    EXPECT_EQ(results.front().status, DeliveryStatus::kAccepted) << tag;
}

TEST_P(HttpTransportTest, AttemptWithHalfItsTimeoutGoneIsNotStarted) {
  HttpTransport transport(OnLoopback<HttpTransport>({.in_flight_per_origin_max = 1}));
  transport.Send(
      MakeAttempts({.uri = origin() + "/delay/300", .timeout = absl::Milliseconds(500)}, 1, 3),
      sink_);
  ASSERT_TRUE(sink_->Await(3));
  EXPECT_EQ(sink_->Only(2).status, DeliveryStatus::kUnsent);
  EXPECT_EQ(sink_->Only(3).status, DeliveryStatus::kUnsent);
  EXPECT_EQ(receiver_->requests(), 1u);
}

TEST_P(HttpTransportTest, AResetConnectionIsUnknown) {
  EXPECT_EQ(SendTo("/reset").status, DeliveryStatus::kUnknown);
}

TEST_P(HttpTransportTest, ClosedPortGetsNothingAndFails) {
  const std::string closed = origin();
  receiver_.reset();
  transport_.Send(MakeAttempts({.uri = closed}, 1, 1), sink_);
  ASSERT_TRUE(sink_->Await(1));
  EXPECT_EQ(sink_->Only(1).status, DeliveryStatus::kFailed);
  EXPECT_TRUE(sink_->Only(1).not_sent);
  EXPECT_THAT(sink_->Only(1).message, HasSubstr("connect"));
}

TEST_P(HttpTransportTest, InvalidUriOrHeaderIsRejected) {
  transport_.Send(MakeAttempts({.uri = "httpx://host/"}, 1, 1), sink_);
  transport_.Send(MakeAttempts({.uri = origin(), .content_type = "a\r\nX-Injected: 1"}, 2, 1),
                  sink_);
  ASSERT_TRUE(sink_->Await(2));
  EXPECT_EQ(sink_->Only(1).status, DeliveryStatus::kRejected);
  EXPECT_EQ(sink_->Only(2).status, DeliveryStatus::kRejected);
  EXPECT_EQ(receiver_->requests(), 0u);
}

TEST_P(HttpTransportTest, OneConnectionServesAttemptsInSequence) {
  for (int i = 0; i < 20; ++i) EXPECT_EQ(SendTo("/ok").status, DeliveryStatus::kAccepted);
  EXPECT_EQ(receiver_->connections(), 1u);
}

TEST_P(HttpTransportTest, ClosedKeptConnectionIsReplaced) {
  EXPECT_EQ(SendTo("/ok").status, DeliveryStatus::kAccepted);
  receiver_->ResetConnections();
  EXPECT_EQ(SendTo("/ok").status, DeliveryStatus::kAccepted);
  EXPECT_EQ(receiver_->connections(), 2u);
}

// The name of a host may have another address by then.
TEST_P(HttpTransportTest, OldConnectionCarriesNoFurtherRequest) {
  HttpTransport transport(OnLoopback<HttpTransport>({.connection_age_max = absl::Seconds(1)}));
  for (uint64_t tag = 1; tag <= 2; ++tag) {
    transport.Send(MakeAttempts({.uri = origin() + "/delay/2100"}, tag, 1), sink_);
    ASSERT_TRUE(sink_->Await(tag));
  }
  EXPECT_EQ(receiver_->connections(), 2u);
}

TEST_P(HttpTransportTest, IdleConnectionsAreBounded) {
  HttpTransport transport(OnLoopback<HttpTransport>({.connections_max = 1}));
  const std::unique_ptr<HttpReceiver> other = *HttpReceiver::Start({}, &receipts_);
  const std::vector<std::string> uris = {origin() + "/ok", other->origin() + "/ok",
                                         origin() + "/ok"};
  for (size_t i = 0; i < uris.size(); ++i) {
    transport.Send(MakeAttempts({.uri = uris[i]}, i + 1, 1), sink_);
    ASSERT_TRUE(sink_->Await(i + 1));
  }
  EXPECT_EQ(receiver_->connections(), 2u) << "the first was kept beside the other receiver's";
}

TEST_P(HttpTransportTest, AttemptIsSentAtMostTwiceIfKeptConnectionsBreak) {
  const auto kept = std::make_shared<CollectingSink>();
  transport_.Send(MakeAttempts({.uri = origin() + "/delay/20"}, 1, 8), kept);
  ASSERT_TRUE(kept->Await(8));
  ASSERT_EQ(receiver_->connections(), 8u);
  EXPECT_EQ(SendTo("/reset").status, DeliveryStatus::kUnknown);
  EXPECT_EQ(receiver_->requests(), 8u + 2u);
  EXPECT_EQ(SendTo("/ok").status, DeliveryStatus::kAccepted);
}

TEST_P(HttpTransportTest, ALargeResponseIsCutAndStillCounts) {
  EXPECT_EQ(SendTo("/body/1000000").status, DeliveryStatus::kAccepted);
  EXPECT_EQ(SendTo("/body/1000").status, DeliveryStatus::kAccepted);
}

TEST_P(HttpTransportTest, TenThousandDeliveriesArriveOnceEachOverFewConnections) {
  SendTenThousand(transport_);
  EXPECT_LE(receiver_->connections(), 64u);
}

TEST_P(HttpTransportTest, ThreadsShareTheBoundOfInFlightRequests) {
  HttpTransport transport(OnLoopback<HttpTransport>({.threads = 3}));
  SendTenThousand(transport);
  EXPECT_LE(receiver_->connections(), 64u);
}

TEST_P(HttpTransportTest, BatchThatFitsOneThreadStaysThere) {
  HttpTransport transport(OnLoopback<HttpTransport>({.threads = 4}));
  for (uint64_t tag = 1; tag <= 20; ++tag) {
    transport.Send(MakeAttempts({.uri = origin() + "/ok"}, tag, 1), sink_);
    ASSERT_TRUE(sink_->Await(tag));
  }
  EXPECT_EQ(receiver_->connections(), 1u);
}

TEST_P(HttpTransportTest, BatchTooLargeForOneThreadGoesToAll) {
  HttpTransport transport(OnLoopback<HttpTransport>(
      {.threads = 4, .in_flight_per_origin_max = 4, .in_flight_unanswered_max = 4}));
  // Each thread has one request out, and none is answered: four arrive only if all threads work.
  transport.Send(MakeAttempts({.uri = origin() + "/hang"}, 1, 8), sink_);
  receiver_->AwaitRequests(4);
}

TEST_P(HttpTransportTest, DestructorAnswersOutstandingAttempts) {
  {
    HttpTransport transport(OnLoopback<HttpTransport>({.in_flight_per_origin_max = 1}));
    transport.Send(MakeAttempts({.uri = origin() + "/hang"}, 1, 3), sink_);
    receiver_->AwaitRequests(1);
  }
  EXPECT_EQ(sink_->count(), 3u);
  for (uint64_t tag : {1, 2, 3}) EXPECT_EQ(sink_->Only(tag).status, DeliveryStatus::kUnknown);
}

INSTANTIATE_TEST_SUITE_P(PlainAndWithAUser, HttpTransportTest, ::testing::Values("", "somebody@"));

}  // namespace http_transport_test
}  // namespace escapement::handler
