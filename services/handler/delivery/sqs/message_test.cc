#include "services/handler/delivery/sqs/message.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/printable_text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/sqs_entries.h"

namespace escapement::handler {
namespace message_test {

using fixtures::MakeSqsAttempts;
using fixtures::SqsAttemptOptions;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

constexpr char kUrl[] = "https://sqs.eu-central-1.amazonaws.com/1/q";

struct Written {
  json entry;
  size_t bytes = 0;

  std::string Attribute(const char* name) const {
    return entry["MessageAttributes"][name]["StringValue"].get<std::string>();
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& [name, value] : entry["MessageAttributes"].items()) names.push_back(name);
    return names;
  }
};

Written Write(SqsAttemptOptions options) {
  if (options.queue_url.empty()) options.queue_url = kUrl;
  SqsMessageWriter writer;
  std::string text;
  const auto bytes = writer.Append(MakeSqsAttempts(options, 7, 1).front(), 3, &text);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return {.entry = json::parse(text, nullptr, false), .bytes = bytes.value_or(0)};
}

TEST(SqsTextTest, TakesTheCharactersOfSqs) {
  for (const absl::string_view good :
       {"", "plain", "\t\r\n ~\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf",
        "\xee\x80\x80", "\xef\xbf\xbd", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(IsXmlText(good)) << absl::CHexEscape(good);
  }
  for (const absl::string_view bad :
       {absl::string_view("\0", 1), absl::string_view("\x0b"), absl::string_view("\x1f"),
        absl::string_view("\x80"), absl::string_view("\xc0\x80"), absl::string_view("\xc1\xbf"),
        absl::string_view("\xc2"), absl::string_view("\xc2\x41"), absl::string_view("\xe0\x9f\xbf"),
        absl::string_view("\xed\xa0\x80"), absl::string_view("\xef\xbf\xbe"),
        absl::string_view("\xef\xbf\xbf"), absl::string_view("\xf0\x8f\xbf\xbf"),
        absl::string_view("\xf4\x90\x80\x80"), absl::string_view("\xf5\x80\x80\x80"),
        absl::string_view("\xf0\x90\x80"), absl::string_view("text \xff")}) {
    EXPECT_FALSE(IsXmlText(bad)) << absl::CHexEscape(bad);
  }
}

TEST(SqsTextTest, JsonStringsReadBack) {
  for (const std::string text : {"", "a", "\"\\\t\r\n/", "é \xf0\x9f\x98\x80 \x7f", "\\\\\"\""}) {
    std::string written;
    AppendJsonString(text, &written);
    EXPECT_EQ(json::parse(written).get<std::string>(), text);
  }
}

TEST(SqsTextTest, IdsThatSqsDoesNotTakeAreHashed) {
  EXPECT_EQ(SqsIdOf("/tenants/default/schedules/nightly"), "/tenants/default/schedules/nightly");
  EXPECT_EQ(SqsIdOf(std::string(128, '~')), std::string(128, '~'));
  for (const std::string& text : {std::string(129, 'a'), std::string("a b"), std::string("é")})
    EXPECT_THAT(SqsIdOf(text), ::testing::MatchesRegex("[0-9a-f]{64}"));
  EXPECT_EQ(SqsIdOf(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(SqsMessageTest, HasBodyAndTenAttributes) {
  const Written written = Write({.payload = "{\"a\":1}"});
  EXPECT_EQ(written.entry["Id"], "3");
  EXPECT_EQ(written.entry["MessageBody"], "{\"a\":1}");
  EXPECT_FALSE(written.entry.contains("MessageGroupId"));
  EXPECT_THAT(written.Names(),
              UnorderedElementsAre("ce_specversion", "ce_source", "ce_type", "ce_time", "ce_id",
                                   "ce_datacontenttype", "ce_subject", "escapement_attempt",
                                   "escapement_index", "escapement_count"));
  EXPECT_EQ(written.Attribute("ce_id"), "event-7");
  EXPECT_EQ(written.Attribute("ce_source"), "/tenants/default/schedules/nightly");
  EXPECT_EQ(written.Attribute("ce_subject"), "2026-03-01T00:00:00Z/7");
  EXPECT_EQ(written.Attribute("ce_time"), "2026-03-01T00:00:00Z");
  EXPECT_EQ(written.entry["MessageAttributes"]["ce_id"]["DataType"], "String");
}

TEST(SqsMessageTest, TokenAndEncodingTakeThePlaceOfOthers) {
  const Written written = Write({.payload = std::string("\0\xff", 2), .token = "T0KEN"});
  EXPECT_EQ(written.entry["MessageBody"], "AP8=");
  EXPECT_THAT(written.Names(),
              UnorderedElementsAre("ce_specversion", "ce_source", "ce_type", "ce_time", "ce_id",
                                   "ce_datacontenttype", "ce_datacontentencoding", "ce_subject",
                                   "escapement_token", "escapement_attempt"));
  EXPECT_EQ(written.Attribute("escapement_token"), "T0KEN");
  EXPECT_EQ(written.Attribute("ce_datacontentencoding"), "base64");
}

TEST(SqsMessageTest, OneOffEventWithoutPayloadHasTheSpareOnes) {
  const std::string trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const Written written = Write({.payload = "", .occurrence = "", .trace_parent = trace});
  EXPECT_EQ(written.entry["MessageBody"], " ");
  EXPECT_THAT(written.Names(),
              UnorderedElementsAre("ce_specversion", "ce_source", "ce_type", "ce_time", "ce_id",
                                   "escapement_attempt", "escapement_index", "escapement_count",
                                   "escapement_launchtime", "traceparent"));
  EXPECT_EQ(written.Attribute("traceparent"), trace);
  // With a payload there is one attribute too many.
  EXPECT_THAT(Write({.occurrence = "", .trace_parent = trace}).Names(),
              ::testing::Not(::testing::Contains("traceparent")));
}

TEST(SqsMessageTest, BytesAreThoseThatSqsCounts) {
  for (const char* payload : {"", "\"\\\n", "é"}) {
    const Written written = Write({.payload = payload, .token = "T"});
    size_t bytes = written.entry["MessageBody"].get<std::string>().size();
    for (const auto& [name, value] : written.entry["MessageAttributes"].items())
      bytes += name.size() + 6 + value["StringValue"].get<std::string>().size();
    EXPECT_EQ(written.bytes, bytes);
  }
}

TEST(SqsMessageTest, FifoMessagesHaveAGroupAndTheEventsId) {
  const std::string url = absl::StrCat(kUrl, ".fifo");
  Written written = Write({.queue_url = url});
  EXPECT_EQ(written.entry["MessageGroupId"], "/tenants/default/schedules/nightly");
  EXPECT_EQ(written.entry["MessageDeduplicationId"], "event-7");
  written = Write({.queue_url = url, .message_group_id = "g\"1"});
  EXPECT_EQ(written.entry["MessageGroupId"], "g\"1");
  written = Write({.queue_url = url, .source = std::string(200, 's')});
  EXPECT_EQ(written.entry["MessageGroupId"].get<std::string>().size(), 64u);
}

TEST(SqsMessageTest, FactThatSqsDoesNotTakeIsRefused) {
  SqsMessageWriter writer;
  const SqsAttemptOptions bad = {.queue_url = kUrl, .content_type = "text/\x01"};
  const auto good = MakeSqsAttempts({.queue_url = kUrl, .payload = "good"}, 1, 1);
  const auto write = [&] {
    std::string text;
    EXPECT_TRUE(writer.Append(good.front(), 0, &text).ok());
    return text;
  };
  const std::string before = write();
  for (int i = 0; i < 2; ++i) {
    std::string text;
    EXPECT_EQ(writer.Append(MakeSqsAttempts(bad, 1, 1).front(), 0, &text).status().message(),
              "the event's ce_datacontenttype has characters that SQS does not take");
  }
  EXPECT_EQ(write(), before);
  EXPECT_TRUE(json::accept(before));
}

TEST(SqsMessageTest, ContextsDoNotMix) {
  SqsMessageWriter writer;
  std::vector<std::string> bodies;
  for (const char* payload : {"a", "b", "a"}) {
    std::string text;
    ASSERT_TRUE(writer
                    .Append(MakeSqsAttempts({.queue_url = kUrl, .payload = payload}, 1, 1).front(),
                            0, &text)
                    .ok());
    bodies.push_back(json::parse(text)["MessageBody"].get<std::string>());
  }
  EXPECT_THAT(bodies, ElementsAre("a", "b", "a"));
}

}  // namespace message_test
}  // namespace escapement::handler
