// Tests with local-aws-sqs, which keeps messages as SQS does.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/handler/delivery/sqs/sqs_transport.h"
#include "tests/fixtures/collecting_sink.h"
#include "tests/fixtures/sqs/sqs_server.h"
#include "tests/fixtures/sqs_entries.h"

namespace escapement::handler {
namespace local_sqs_test {

using fixtures::CollectingSink;
using fixtures::MakeSqsAttempts;
using fixtures::SqsAttemptOptions;
using fixtures::SqsServer;
using nlohmann::json;
using ::testing::HasSubstr;

const json kFifo = json::object({{"FifoQueue", "true"}});

class LocalSqsTest : public ::testing::Test {
 protected:
  LocalSqsTest() {
    SqsTransport::Options options;
    options.addresses = std::make_shared<AddressRule>(AddressRule::AllowingLoopback());
    transport_ = std::make_unique<SqsTransport>(options);
  }

  SqsAttemptOptions Create(const std::string& queue, const json& attributes = json::object()) {
    const json answer =
        server_->Call("AmazonSQS.CreateQueue", {{"QueueName", queue}, {"Attributes", attributes}});
    return {.queue_url = answer["QueueUrl"].get<std::string>(),
            .credentials = fixtures::kSqsCredentials};
  }

  // Receives and deletes up to 10 messages.
  json Receive(const std::string& queue_url) {
    json messages =
        server_->Call("AmazonSQS.ReceiveMessage", {{"QueueUrl", queue_url},
                                                   {"MaxNumberOfMessages", 10},
                                                   {"MessageAttributeNames", {"All"}},
                                                   {"AttributeNames", {"All"}}})["Messages"];
    json entries = json::array();
    for (size_t i = 0; i < messages.size(); ++i)
      entries.push_back({{"Id", absl::StrCat(i)}, {"ReceiptHandle", messages[i]["ReceiptHandle"]}});
    if (!entries.empty()) {
      server_->Call("AmazonSQS.DeleteMessageBatch",
                    {{"QueueUrl", queue_url}, {"Entries", entries}});
    }
    return messages;
  }

  DeliveryResult SendOne(const SqsAttemptOptions& options) {
    const uint64_t tag = next_tag_++;
    transport_->Send(MakeSqsAttempts(options, tag, 1), sink_);
    EXPECT_TRUE(sink_->Await(++sent_));
    return sink_->Only(tag);
  }

  std::unique_ptr<SqsServer> server_ = SqsServer::StartLocal();
  std::shared_ptr<CollectingSink> sink_ = std::make_shared<CollectingSink>();
  std::unique_ptr<SqsTransport> transport_;
  uint64_t next_tag_ = 1;
  size_t sent_ = 0;
};

TEST_F(LocalSqsTest, BodyAndAttributesArrive) {
  SqsAttemptOptions options = Create("plain");
  options.payload = "{\"text\":\"zwölf \\\"Ω\\\" 😀\"}\r\n\t";
  options.token = "T0KEN";
  EXPECT_EQ(SendOne(options).status, DeliveryStatus::kAccepted);
  const json messages = Receive(options.queue_url);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0]["Body"], options.payload);
  std::map<std::string, std::string> attributes;
  for (const auto& [name, value] : messages[0]["MessageAttributes"].items()) {
    EXPECT_EQ(value["DataType"], "String");
    attributes[name] = value["StringValue"].get<std::string>();
  }
  EXPECT_THAT(attributes, ::testing::ContainerEq(std::map<std::string, std::string>{
                              {"ce_id", "event-1"},
                              {"ce_source", "/tenants/default/schedules/nightly"},
                              {"ce_specversion", "1.0"},
                              {"ce_subject", "2026-03-01T00:00:00Z/1"},
                              {"ce_time", "2026-03-01T00:00:00Z"},
                              {"ce_type", "escapement.trigger.v1"},
                              {"ce_datacontenttype", "application/json"},
                              {"escapement_attempt", "1"},
                              {"escapement_index", "1"},
                              {"escapement_token", "T0KEN"}}));
}

TEST_F(LocalSqsTest, BinaryAndEmptyPayloadsArrive) {
  SqsAttemptOptions options = Create("binary");
  options.payload = std::string("\0\x01\xff", 3);
  EXPECT_EQ(SendOne(options).status, DeliveryStatus::kAccepted);
  json messages = Receive(options.queue_url);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0]["Body"], "AAH/");
  EXPECT_EQ(messages[0]["MessageAttributes"]["ce_datacontentencoding"]["StringValue"], "base64");
  options.payload = "";
  EXPECT_EQ(SendOne(options).status, DeliveryStatus::kAccepted);
  messages = Receive(options.queue_url);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0]["Body"], " ");
  EXPECT_FALSE(messages[0]["MessageAttributes"].contains("ce_datacontenttype"));
}

TEST_F(LocalSqsTest, FifoMessagesComeInOrderAndOnce) {
  SqsAttemptOptions options = Create("ordered.fifo", kFifo);
  constexpr uint64_t kCount = 95;
  for (uint64_t first = 1; first <= kCount; first += 5)
    transport_->Send(MakeSqsAttempts(options, first, 5), sink_);
  ASSERT_TRUE(sink_->Await(kCount));
  transport_->Send(MakeSqsAttempts(options, 1, 10), sink_);  // duplicates are accepted and dropped
  ASSERT_TRUE(sink_->Await(kCount + 10));
  std::vector<std::string> ids;
  for (json messages = Receive(options.queue_url); !messages.empty();
       messages = Receive(options.queue_url)) {
    for (const json& message : messages) {
      ids.push_back(
          message.at("MessageAttributes").at("ce_id").at("StringValue").get<std::string>());
      EXPECT_EQ(message.at("Attributes").at("MessageGroupId"),
                "/tenants/default/schedules/nightly");
      EXPECT_EQ(message.at("Attributes").at("MessageDeduplicationId"), ids.back());
    }
  }
  ASSERT_EQ(ids.size(), kCount);
  for (uint64_t i = 0; i < kCount; ++i) EXPECT_EQ(ids[i], absl::StrCat("event-", i + 1));
}

TEST_F(LocalSqsTest, FifoQueueTakesItsMessageGroup) {
  SqsAttemptOptions options = Create("grouped.fifo", kFifo);
  options.message_group_id = "group-1";
  EXPECT_EQ(SendOne(options).status, DeliveryStatus::kAccepted);
  const json messages = Receive(options.queue_url);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].at("Attributes").at("MessageGroupId"), "group-1");
}

TEST_F(LocalSqsTest, MissingQueueFailsWithTheReason) {
  const SqsAttemptOptions options = {.queue_url = server_->QueueUrl("nowhere"),
                                     .credentials = fixtures::kSqsCredentials};
  const DeliveryResult result = SendOne(options);
  EXPECT_EQ(result.status, DeliveryStatus::kFailed);
  EXPECT_EQ(result.message, "QueueDoesNotExist: The specified queue does not exist.");
}

TEST_F(LocalSqsTest, MessageTooLargeForItsQueueIsRejected) {
  SqsAttemptOptions options = Create("small", json::object({{"MaximumMessageSize", "2048"}}));
  options.payload = std::string(3000, 'p');
  const DeliveryResult result = SendOne(options);
  EXPECT_EQ(result.status, DeliveryStatus::kRejected) << result.message;
  options.payload = "{}";
  EXPECT_EQ(SendOne(options).status, DeliveryStatus::kAccepted);
}

TEST_F(LocalSqsTest, LargestMessagesArrive) {
  SqsAttemptOptions options = Create("large");
  options.payload = std::string(262'144 - 600, 'p');
  transport_->Send(MakeSqsAttempts(options, 1, 3), sink_);
  ASSERT_TRUE(sink_->Await(3));
  for (uint64_t tag : {1, 2, 3})
    EXPECT_EQ(sink_->Only(tag).status, DeliveryStatus::kAccepted) << sink_->Only(tag).message;
}

TEST_F(LocalSqsTest, TenThousandEventsArriveOnce) {
  constexpr uint64_t kCount = 10'000;
  SqsAttemptOptions options = Create("many");
  options.timeout = absl::Minutes(4);  // the last ones wait for long on a busy machine
  for (uint64_t first = 1; first <= kCount; first += 250)
    transport_->Send(MakeSqsAttempts(options, first, 250), sink_);
  ASSERT_TRUE(sink_->Await(kCount));
  EXPECT_EQ(sink_->count(), kCount);
  for (uint64_t tag = 1; tag <= kCount; ++tag)
    ASSERT_EQ(sink_->Only(tag).status, DeliveryStatus::kAccepted);
  const json attributes = server_->Call(
      "AmazonSQS.GetQueueAttributes",
      {{"QueueUrl", options.queue_url}, {"AttributeNames", {"ApproximateNumberOfMessages"}}});
  EXPECT_EQ(attributes["Attributes"]["ApproximateNumberOfMessages"], absl::StrCat(kCount));
}

}  // namespace local_sqs_test
}  // namespace escapement::handler
