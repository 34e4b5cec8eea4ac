// The table of transports has a row for each kind of target, and attempts reach their row.

#include "services/handler/delivery/kinds/transport_table.h"

#include <google/protobuf/text_format.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/records/row_judge.h"
#include "escapement/storage/v1/records.pb.h"
#include "gtest/gtest.h"
#include "tests/fixtures/collecting_sink.h"

namespace escapement::handler {
namespace transport_table_test {

constexpr char kNoTransport[] = "no transport serves this kind of target";

// Sends one attempt to `target` and waits for its result.
DeliveryResult SendTo(const storage::v1::TargetRecord& target, const std::string& closed = "") {
  auto definition = std::make_shared<storage::v1::DefinitionRecord>();
  *definition->mutable_delivery()->mutable_target() = target;
  auto context = std::make_shared<DeliveryContext>();
  context->definition = definition;
  context->payload = "{}";
  context->target_key = TargetKeyOf(target);
  context->closed = closed;
  context->timeout = absl::Milliseconds(50);
  const auto sink = std::make_shared<fixtures::CollectingSink>();
  const std::unique_ptr<DeliveryTransport> transports =
      NewTransports(std::make_shared<const AddressRule>(AddressRule::AllowingLoopback()));
  std::vector<DeliveryAttempt> attempts(1);
  attempts[0].tag = 7;
  attempts[0].context = context;
  attempts[0].event_id = "event";
  transports->Send(std::move(attempts), sink);
  EXPECT_TRUE(sink->Await(1));
  return sink->Only(7);
}

TEST(TransportTableTest, EachKindOfTargetHasATransport) {
  // Addresses where nothing listens.
  const std::map<std::string, std::string> targets = {
      {"http", "http { uri: 'http://127.0.0.1:1' method: 'POST' }"},
      {"grpc", "grpc { uri: '127.0.0.1:1' }"},
      {"sqs",
       "sqs { queue_url: 'http://127.0.0.1:1/1/q' endpoint: 'http://127.0.0.1:1' region: 'r' "
       "credentials: 'a:b' }"},
      {"kafka", "kafka { brokers: '127.0.0.1:1' topic: 't' }"},
      {"slack", "slack { webhook_url: 'http://127.0.0.1:1' text: 'x' }"},
      {"email",
       "email { smtp_uri: 'smtp://127.0.0.1:1' from: 'a@b' to: 'c@d' subject: 's' text: 't' }"},
      {"ping", "ping { uri: 'http://127.0.0.1:1' }"}};
  const auto* kinds = storage::v1::TargetRecord::descriptor()->FindOneofByName("kind");
  ASSERT_EQ(static_cast<size_t>(kinds->field_count()), targets.size());
  for (const auto& [kind, text] : targets) {
    storage::v1::TargetRecord target;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &target)) << text;
    const DeliveryResult result = SendTo(target);
    EXPECT_NE(result.status, DeliveryStatus::kAccepted) << kind;
    EXPECT_NE(result.message, kNoTransport) << kind;
  }
}

TEST(TransportTableTest, ATargetWhoseSecretsAreClosedFailsWithTheReason) {
  storage::v1::TargetRecord target;
  target.mutable_ping()->set_uri("http://127.0.0.1:1");
  const DeliveryResult result = SendTo(target, "its secrets cannot be opened");
  EXPECT_EQ(result.status, DeliveryStatus::kFailed);
  EXPECT_EQ(result.message, "its secrets cannot be opened");
}

TEST(TransportTableTest, AHeartbeatIsAcceptedWithoutAConnection) {
  storage::v1::TargetRecord target;
  target.mutable_ping()->set_uri("heartbeat:");
  EXPECT_EQ(SendTo(target).status, DeliveryStatus::kAccepted);
  target.mutable_ping()->set_uri("http://127.0.0.1:1/heartbeat:");
  EXPECT_NE(SendTo(target).status, DeliveryStatus::kAccepted);
}

TEST(TransportTableTest, TargetWithoutKindIsRejected) {
  const DeliveryResult result = SendTo({});
  EXPECT_EQ(result.status, DeliveryStatus::kRejected);
  EXPECT_EQ(result.message, kNoTransport);
}

}  // namespace transport_table_test
}  // namespace escapement::handler
