#include "services/master/ingest/kafka/message_decoder.h"

#include <limits>
#include <set>
#include <string>

#include "common/status/errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {
namespace message_decoder_test {

using ::testing::HasSubstr;

constexpr absl::string_view kJson =
    R"({"eventId":"mine","dueTime":"2030-01-01T00:00:00Z","payload":"YQ==",)"
    R"("target":{"http":{"uri":"http://h/"}}})";

class MessageDecoderTest : public ::testing::Test {
 protected:
  static KafkaMessageView Message(absl::string_view value) {
    return {.topic = "orders",
            .partition = 3,
            .offset = 42,
            .timestamp_millis = 1000,
            .key = "key",
            .value = value};
  }
  absl::StatusOr<DecodedMessage> Decode(const KafkaMessageView& message) {
    return DecodeMessage(message, rules_);
  }
  // The first field that an INVALID_ARGUMENT names.
  std::string Refused(const KafkaMessageView& message) {
    const auto decoded = Decode(message);
    if (decoded.ok()) return "(taken)";
    const auto fields = FieldViolationsOf(decoded.status());
    return fields.empty() ? decoded.status().ToString() : fields[0].first;
  }
  const TopicRules rules_ = *TopicRules::Parse({"orders=team-a|team-b"}, "default");
};

TEST_F(MessageDecoderTest, JsonIsTheDefault) {
  const auto decoded = Decode(Message(kJson));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->tenant, "team-a");
  EXPECT_EQ(decoded->event.event_id(), "mine");
  EXPECT_EQ(decoded->event.payload(), "a");
  EXPECT_EQ(decoded->event.due_time_micros(), 1893456000000000);
  EXPECT_EQ(decoded->event.overrides().target().http().uri(), "http://h/");
}

TEST_F(MessageDecoderTest, HeadersChooseFormatAndTenant) {
  v1::Event event;
  event.set_event_id("binary");
  event.set_payload(std::string("\0\xff", 2));
  const std::string bytes = event.SerializeAsString();
  KafkaMessageView message = Message(bytes);
  message.headers = {{"Content-Type", "application/protobuf; x=y"},
                     {"escapement-tenant", "team-b"}};
  const auto decoded = Decode(message);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->tenant, "team-b");
  EXPECT_EQ(decoded->event.event_id(), "binary");
  EXPECT_EQ(decoded->event.payload(), std::string("\0\xff", 2));
  message.headers[1].second = "team-c";
  EXPECT_EQ(Decode(message).status().code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(MessageDecoderTest, HeaderNamesThePolicyOfAValueThatNamesNone) {
  KafkaMessageView message = Message(kJson);
  EXPECT_EQ(Decode(message)->event.overrides().policy(), "");
  for (const absl::string_view named : {"gentle", "tenants/team-a/policies/gentle"}) {
    message.headers = {{"Escapement-Policy", named}};
    const auto decoded = Decode(message);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->event.overrides().policy(), named);
    EXPECT_EQ(decoded->event.overrides().target().http().uri(), "http://h/");
  }
  message.value = R"({"policy":"own","completion":"ON_DELIVERY"})";
  EXPECT_EQ(Decode(message)->event.overrides().policy(), "own");
  EXPECT_EQ(Decode(message)->event.overrides().completion(), v1::ON_DELIVERY);
  message.value = R"({"limits":[{"policy":"own"},{"policy":"other","weight":2}]})";
  EXPECT_EQ(Decode(message)->event.overrides().policy(), "");
  EXPECT_EQ(Decode(message)->event.overrides().limits_size(), 2);
  for (const absl::string_view bad : {"\xff", "Gentle", "tenants/team-a/schedules/s", "a b"}) {
    message.headers = {{"escapement-policy", bad}};
    EXPECT_EQ(Refused(message), "escapement-policy") << bad;
  }
  message.headers = {{"escapement-policy", "a"}, {"escapement-policy", "b"}};
  EXPECT_EQ(Refused(message), "escapement-policy");
}

TEST_F(MessageDecoderTest, TombstoneCancelsTheEventOfItsKey) {
  KafkaMessageView message = Message(kJson);
  message.key = "reminder-7";
  message.value = std::nullopt;
  EXPECT_EQ(Decode(message)->event.mode(), v1::Event::CANCEL);
  EXPECT_EQ(Decode(message)->event.event_id(), "reminder-7");
  message.headers = {{"escapement-mode", "UPSERT"}};
  EXPECT_EQ(Refused(message), "value");
}

TEST_F(MessageDecoderTest, HeaderOrValueSaysTheMode) {
  KafkaMessageView message = Message("{}");
  message.key = "reminder-7";
  EXPECT_EQ(Decode(message)->event.mode(), v1::Event::INGEST_MODE_UNSPECIFIED);
  EXPECT_NE(Decode(message)->event.event_id(), "reminder-7") << "another message may have the key";
  for (const absl::string_view mode : {"UPSERT", "CANCEL"}) {
    message.headers = {{"escapement-mode", mode}};
    EXPECT_EQ(v1::Event::IngestMode_Name(Decode(message)->event.mode()), mode);
    EXPECT_EQ(Decode(message)->event.event_id(), "reminder-7");
  }
  message.value = R"({"mode":"UPSERT","eventId":"own"})";
  EXPECT_EQ(Decode(message)->event.mode(), v1::Event::UPSERT);
  EXPECT_EQ(Decode(message)->event.event_id(), "own");
  EXPECT_EQ(Decode(message)->event.overrides().mode(), v1::Event::INGEST_MODE_UNSPECIFIED);
  message.headers = {{"escapement-mode", "upsert"}};
  EXPECT_EQ(Refused(message), "escapement-mode");
}

TEST_F(MessageDecoderTest, MessagesThatAreNoEventsAreRefusedByField) {
  KafkaMessageView message = Message(kJson);
  message.key = std::nullopt;
  message.value = std::nullopt;
  EXPECT_EQ(Refused(message), "value");
  for (const absl::string_view bad :
       {"", "{", "[]", "null", "3", R"({"colour":"red"})", R"({"dueTime":"never"})", "\xff\xfe",
        R"({"eventId":"\ud800"})"}) {
    EXPECT_EQ(Refused(Message(bad)), "value") << bad;
  }
  const std::string large(kKafkaValueBytesMax + 1, ' ');
  EXPECT_EQ(Refused(Message(large)), "value");
  message = Message("\x0a\xff");
  message.headers = {{"content-type", "application/protobuf"}};
  EXPECT_EQ(Refused(message), "value");
  message = Message(kJson);
  for (const absl::string_view type : {"text/plain", "application/jsonx", "json"}) {
    message.headers = {{"content-type", type}};
    EXPECT_EQ(Refused(message), "content-type") << type;
  }
  message.headers = {{"escapement-tenant", "team-a"}, {"escapement-tenant", "team-b"}};
  EXPECT_EQ(Refused(message), "escapement-tenant");
  v1::Event event;
  event.mutable_due_time()->set_nanos(-1);
  const std::string bytes = event.SerializeAsString();
  message = Message(bytes);
  message.headers = {{"content-type", "application/protobuf"}};
  EXPECT_EQ(Refused(message), "due_time");
}

TEST_F(MessageDecoderTest, MadeIdIsTheSameForTheSameMessageOnly) {
  const KafkaMessageView first = Message("{}");
  ASSERT_EQ(Decode(first)->event.event_id(), EventIdOf(first));
  EXPECT_THAT(EventIdOf(first), HasSubstr("kafka-3-42-"));
  EXPECT_EQ(EventIdOf(first), EventIdOf(Message("{}")));
  std::set<std::string> ids = {EventIdOf(first)};
  const auto add = [&](auto change) {
    KafkaMessageView other = first;
    change(other);
    EXPECT_TRUE(ids.insert(EventIdOf(other)).second);
  };
  add([](KafkaMessageView& m) { m.topic = "other"; });
  add([](KafkaMessageView& m) { m.partition = 4; });
  add([](KafkaMessageView& m) { m.offset = 43; });
  // A topic that was deleted and made again begins at offset 0 once more.
  add([](KafkaMessageView& m) { m.timestamp_millis = 1001; });
  add([](KafkaMessageView& m) { m.key = "other"; });
  add([](KafkaMessageView& m) { m.key = std::nullopt; });
  add([](KafkaMessageView& m) { m.value = R"({"payload":"YQ=="})"; });
}

TEST_F(MessageDecoderTest, LongestMadeIdIsAClientId) {
  KafkaMessageView message = Message("{}");
  message.partition = std::numeric_limits<int32_t>::max();
  message.offset = std::numeric_limits<int64_t>::max();
  EXPECT_TRUE(IsClientEventId(EventIdOf(message))) << EventIdOf(message);
  EXPECT_TRUE(IsClientEventId(EventIdOf(Message("{}"))));
}

}  // namespace message_decoder_test
}  // namespace escapement::master
