#include "common/rest/json_bytes.h"

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "escapement/v1/event_service.pb.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace escapement::rest {
namespace json_bytes_test {

const google::protobuf::Descriptor& EventType() { return *v1::Event::descriptor(); }

TEST(JsonBytes, AnswersAreLowerCamelCaseWithLongNumbersAsText) {
  v1::Schedule schedule;
  schedule.set_display_name("N");
  schedule.set_event_count(7);
  schedule.set_state(v1::Schedule::PAUSED);
  const auto json = nlohmann::json::parse(
      *BytesToJson(*v1::Schedule::descriptor(), schedule.SerializeAsString()));
  EXPECT_EQ(json.at("displayName"), "N");
  EXPECT_EQ(json.at("eventCount"), "7");
  EXPECT_EQ(json.at("state"), "PAUSED");
}

TEST(JsonBytes, AnswersShowZerosButNothingThatIsUnset) {
  v1::Event event;
  event.add_recent_attempts();
  event.mutable_target()->mutable_http();
  const auto json = nlohmann::json::parse(*BytesToJson(EventType(), event.SerializeAsString()));
  EXPECT_EQ(json.at("attempts"), 0);
  EXPECT_EQ(json.at("reason"), "");
  EXPECT_EQ(json.at("recentAttempts").at(0).at("statusCode"), 0);
  EXPECT_EQ(json.at("target").at("http").at("uri"), "");
  // Messages, `optional` fields, fields of a oneof, empty bytes and enums without a value.
  for (const char* name : {"dueTime", "retryPolicy", "priority", "payload", "output", "state"})
    EXPECT_FALSE(json.contains(name)) << name;
  EXPECT_FALSE(json.at("target").contains("grpc"));
  const auto schedule =
      nlohmann::json::parse(*BytesToJson(*v1::Schedule::descriptor(), std::string()));
  EXPECT_EQ(schedule.at("warnings"), nlohmann::json::array());
  EXPECT_EQ(schedule.at("labels"), nlohmann::json::object());
  EXPECT_EQ(schedule.at("succeededCount"), "0");
}

TEST(JsonBytes, BothSpellingsAreRead) {
  for (const char* json : {R"({"dueTime":"1970-01-01T00:00:07Z","contentType":"a/b"})",
                           R"({"due_time":"1970-01-01T00:00:07Z","content_type":"a/b"})"}) {
    v1::Event event;
    ASSERT_TRUE(event.ParseFromString(*JsonToBytes(EventType(), json)));
    EXPECT_EQ(event.due_time().seconds(), 7);
    EXPECT_EQ(event.content_type(), "a/b");
  }
}

TEST(JsonBytes, TextThatIsNoMessageIsRefused) {
  for (const char* json : {"", "[]", "{", R"({"colour":1})", R"({"attempts":"x"})"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(JsonToBytes(EventType(), json).status())) << json;
  }
}

// The types are kept by all threads together.
TEST(JsonBytes, ThreadsAgree) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([] {
      for (int k = 0; k < 200; ++k) {
        const auto bytes = JsonToBytes(EventType(), R"({"target":{"ping":{"uri":"http://h"}}})");
        ASSERT_TRUE(bytes.ok());
        EXPECT_TRUE(absl::StrContains(*BytesToJson(EventType(), *bytes), "http://h"));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace json_bytes_test
}  // namespace escapement::rest
