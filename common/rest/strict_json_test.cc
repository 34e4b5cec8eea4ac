#include "common/rest/strict_json.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/rest/json_bytes.h"
#include "common/rest/request_reader.h"
#include "escapement/v1/policy_service.pb.h"
#include "escapement/v1/schedule_service.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement::rest {
namespace strict_json_test {

using testing::HasSubstr;

// The fault that the reader finds, "" if there is none.
template <typename Message>
std::string Fault(absl::string_view json) {
  Message message;
  return std::string(MessageFromJson(json, message).message());
}

std::string Payload(absl::string_view json) {
  const auto event = EventFromJson(json);
  return event.ok() ? event->payload() : std::string(event.status().message());
}

TEST(StrictJson, ExtensionsOfJsonAreRefused) {
  for (const char* json : {"{'contentType':'a/b'}",
                           "{contentType:\"a/b\"}",
                           R"({"contentType":"a/b",})",
                           R"({"contentType":"a/b"} // text)",
                           R"({/* text */"contentType":"a/b"})",
                           R"({"recentAttempts":[{},]})",
                           R"({"priority":+1})",
                           R"({"priority":01})",
                           R"({"priority":.5})",
                           R"({"priority":1.})",
                           R"({"priority":NaN})",
                           R"({"priority":0x1})",
                           "{\"contentType\":\"a\tb\"}",
                           R"({"contentType":"\a"})",
                           R"({"contentType":"\u12"})",
                           R"({"contentType":"a/b"}{})",
                           R"({"contentType" "a/b"})",
                           R"({"colour":nothing})",
                           R"({"contentType":True})",
                           R"({"contentType":"a)",
                           R"({"contentType":)",
                           "{",
                           "",
                           "{}x"}) {
    EXPECT_NE(Fault<v1::Event>(json), "") << json;
  }
  EXPECT_EQ(Fault<v1::Event>(" {\r\n\t\"priority\" : 1e0 , \"contentType\":\"a\\/\\u0062\"} "), "");
}

TEST(StrictJson, ValuesOfAnotherTypeAreRefused) {
  for (const char* value : {"\"NaN\"", "\"Infinity\"", "\" 1\"", "\"1 \"", "true", "\"\""}) {
    EXPECT_NE(Fault<v1::ThrottlePolicy>(absl::StrCat("{\"maxPerSecond\":", value, "}")), "")
        << value;
  }
  for (const char* value : {"\" 1\"", "\"+1\"", "\"01\"", "true", "\"1x\""}) {
    EXPECT_NE(Fault<v1::ThrottlePolicy>(absl::StrCat("{\"maxConcurrent\":", value, "}")), "")
        << value;
  }
  EXPECT_EQ(Fault<v1::ThrottlePolicy>(R"({"maxPerSecond":"1.5","maxConcurrent":"7","burst":7})"),
            "");
  EXPECT_NE(Fault<v1::CreatePolicyRequest>(R"({"validateOnly":"true"})"), "");
}

TEST(StrictJson, FieldThatIsGivenTwiceIsRefused) {
  EXPECT_EQ(Fault<v1::Event>(R"({"priority":1,"priority":1})"), "priority: is given twice");
  EXPECT_EQ(Fault<v1::Event>(R"({"contentType":"a","content_type":"b"})"),
            "content_type: is given twice");
  EXPECT_EQ(Fault<v1::Event>(R"({"priority":1,"pri\u006frity":1})"), "priority: is given twice");
  EXPECT_EQ(Fault<v1::Event>(R"({"retryPolicy":{"maxAttempts":1,"maxAttempts":2}})"),
            "retryPolicy.maxAttempts: is given twice");
  EXPECT_EQ(Fault<v1::Schedule>(R"({"labels":{"a":"1","a":"2"}})"), "labels: has a key twice");
  EXPECT_EQ(Fault<v1::Event>(R"({"payload":"aGk=","payloadText":"hi"})"),
            "payloadText: is given twice");
  EXPECT_EQ(Fault<v1::Event>(R"({"payload":null,"payloadText":"hi","payload_json":null})"),
            "payload_json: is given twice");
  EXPECT_EQ(Fault<v1::Event>(R"({"payload":null,"payloadText":"hi"})"), "");
}

TEST(StrictJson, TimesAndDurationsHaveOneForm) {
  for (const char* time :
       {"2099-1-01T00:00:00Z", "2099-01-01T00:00:00.1234567890Z", "2099-01-01 00:00:00Z",
        "2099-01-01T00:00:00", "2099-01-01T00:00:00.Z", " 2099-01-01T00:00:00Z", "2099-01-01",
        "2099-01-01T00:00:00+1:00", "2099-01-01T00:00:00+24:00", "2099-01-01T00:00:00Z ",
        "2099-13-01T00:00:00Z", "2099-02-30T00:00:00Z", ""}) {
    EXPECT_NE(Fault<v1::Event>(absl::StrCat("{\"dueTime\":\"", time, "\"}")), "") << time;
  }
  for (const char* time : {"2099-01-01T00:00:00Z", "2099-01-01T00:00:00.123456789Z",
                           "2099-01-01T00:00:00+05:30", "2099-01-01T00:00:00.5-23:59"}) {
    EXPECT_EQ(Fault<v1::Event>(absl::StrCat("{\"dueTime\":\"", time, "\"}")), "") << time;
  }
  for (const char* duration :
       {"+5s", " 3.5s", "3.5s ", "3.s", ".5s", "5", "5m", "1e3s", "0.1234567890s", "--5s", ""}) {
    EXPECT_NE(Fault<v1::Event>(absl::StrCat("{\"deliveryTimeout\":\"", duration, "\"}")), "")
        << duration;
  }
  for (const char* duration : {"5s", "-5s", "0.123456789s"}) {
    EXPECT_EQ(Fault<v1::Event>(absl::StrCat("{\"deliveryTimeout\":\"", duration, "\"}")), "")
        << duration;
  }
  EXPECT_THAT(Fault<v1::Event>(R"({"retryPolicy":{"minBackoff":"+5s"}})"),
              HasSubstr("retryPolicy.minBackoff: must be a duration such as 1.5s"));
}

TEST(StrictJson, PayloadIsAlsoTextOrJson) {
  EXPECT_EQ(Payload(R"({"payload":"aGk="})"), "hi");
  EXPECT_EQ(Payload(R"({"payloadText":"h\u00efé\n"})"), "hïé\n");
  EXPECT_EQ(Payload(R"({"payload_text":""})"), "");
  EXPECT_EQ(Payload(R"({"payloadJson": {"n" : 1.00, "n":[12345678901234567890123]} })"),
            R"({"n" : 1.00, "n":[12345678901234567890123]})");
  EXPECT_EQ(Payload(R"({"payloadJson":"text","priority":1})"), "\"text\"");
  EXPECT_EQ(Payload(R"({"payloadText":{}})"), "payloadText: must be text");
  EXPECT_EQ(Payload(R"({"payloadJson":{'a':1}})"), "payloadJson: is not JSON at byte 17");
  EXPECT_EQ(Payload(R"({"payloadText":"\ud800"})"), "payloadText: is not valid Unicode");
  EXPECT_EQ(Payload("{\"payloadJson\":\"\xff\"}"), "payloadJson: is not valid Unicode");
  EXPECT_NE(Fault<v1::Event>(R"({"contentTypeText":"a"})"), "");
  v1::CreateScheduleRequest request;
  ASSERT_TRUE(
      MessageFromJson(R"({"schedule":{"payloadJson":[1, 2],"eventCount":3}})", request).ok());
  EXPECT_EQ(request.schedule().payload(), "[1, 2]");
  EXPECT_EQ(request.schedule().event_count(), 3);
}

TEST(StrictJson, DepthIsBounded) {
  EXPECT_THAT(Payload(absl::StrCat("{\"payloadJson\":", std::string(1'000'000, '['), "}")),
              HasSubstr("is nested too deep"));
  EXPECT_THAT(Payload(absl::StrCat("{\"colour\":", std::string(1'000'000, '['), "}")),
              HasSubstr("is nested too deep"));
  std::string message;
  for (int i = 0; i < 100; ++i) message += "{\"schedule\":";
  EXPECT_NE(Fault<v1::CreateScheduleRequest>(message), "");
}

}  // namespace strict_json_test
}  // namespace escapement::rest
