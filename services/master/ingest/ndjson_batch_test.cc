#include "services/master/ingest/ndjson_batch.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace escapement::master {
namespace ndjson_batch_test {

using nlohmann::json;
using testing::ElementsAre;

std::vector<std::string> LinesOf(NdjsonLines& lines, bool last) {
  std::vector<std::string> found;
  while (const auto line = lines.Next(last)) {
    found.push_back(absl::StrCat(line->number, line->fault.ok() ? ":" : "!", line->text));
  }
  return found;
}

TEST(NdjsonLines, CutsPiecesWhereverTheyEnd) {
  NdjsonLines lines;
  lines.Add("a\nb");
  EXPECT_THAT(LinesOf(lines, false), ElementsAre("1:a"));
  lines.Add("c\r\n\n  \nd");
  EXPECT_THAT(LinesOf(lines, false), ElementsAre("2:bc\r"));
  EXPECT_THAT(LinesOf(lines, true), ElementsAre("5:d"));
  EXPECT_THAT(LinesOf(lines, true), ElementsAre());
}

TEST(NdjsonLines, RefusesALongLineOnceWithoutKeepingIt) {
  NdjsonLines lines;
  std::vector<std::string> found;
  for (int i = 0; i < 5; ++i) {
    lines.Add(std::string(kNdjsonLineBytesMax / 2, 'x'));
    for (const std::string& line : LinesOf(lines, false)) found.push_back(line);
  }
  lines.Add("x\nnext\n");
  for (const std::string& line : LinesOf(lines, true)) found.push_back(line);
  EXPECT_THAT(found, ElementsAre("1!", "2:next"));
}

TEST(NdjsonLines, FaultComesAfterTheWholeLines) {
  NdjsonLines lines;
  lines.Add("a\n\nb\nhalf");
  lines.Fail(absl::DataLossError("no gzip"));
  EXPECT_THAT(LinesOf(lines, true), ElementsAre("1:a", "3:b", "4!"));
}

class NdjsonBatchTest : public testing::Test {
 protected:
  void Add(const std::string& text) { batch_.Add({.number = ++number_, .text = text}); }
  std::vector<json> Answers() const {
    std::vector<json> answers;
    for (const auto line : absl::StrSplit(batch_.Answer(), '\n', absl::SkipEmpty()))
      answers.push_back(json::parse(line));
    return answers;
  }
  int64_t number_ = 0;
  NdjsonBatch batch_{"tenants/t"};
};

TEST_F(NdjsonBatchTest, ModesAreTakenAndAnsweredLineByLine) {
  Add(R"({"eventId":"a","mode":"UPSERT"})");
  Add(R"({"eventId":"b","mode":"UPSERT"})");
  Add(R"({"eventId":"c","mode":"CANCEL"})");
  Add(R"({"eventId":"d","mode":"CANCEL"})");
  Add(R"({"eventId":"e","mode":"UPSERT"})");
  Add(R"({"eventId":"e","mode":"REPLACE"})");
  EXPECT_TRUE(batch_.goes_alone());
  ASSERT_EQ(batch_.request().events_size(), 5);
  EXPECT_EQ(batch_.request().events(2).mode(), v1::Event::CANCEL);
  v1::IngestResponse response;
  response.set_created_count(1);
  response.add_replaced_positions(1);
  response.set_ended_count(1);
  v1::IgnoredEvent& running = *response.add_ignored();
  running.set_position(3);
  running.set_code(static_cast<int>(absl::StatusCode::kFailedPrecondition));
  running.set_reason("EVENT_RUNNING");
  running.set_message("it is being sent");
  response.add_ignored()->set_position(4);
  batch_.Take(response);
  ASSERT_TRUE(batch_.answered());
  const std::vector<json> answers = Answers();
  ASSERT_EQ(answers.size(), 6u);
  EXPECT_EQ(answers[0], json::parse(R"({"line":1,"name":"tenants/t/events/a"})"));
  EXPECT_EQ(answers[1], json::parse(R"({"line":2,"name":"tenants/t/events/b","replaced":true})"));
  EXPECT_EQ(answers[2], json::parse(R"({"line":3,"name":"tenants/t/events/c","cancelled":true})"));
  EXPECT_EQ(answers[3]["error"]["status"], "FAILED_PRECONDITION");
  EXPECT_EQ(answers[4], json::parse(R"({"line":5,"name":"tenants/t/events/e","superseded":true})"));
  EXPECT_EQ(answers[5]["error"]["status"], "INVALID_ARGUMENT");
}

TEST_F(NdjsonBatchTest, NamesTheEventOfEachLine) {
  Add(R"({"eventId":"mine","dueTime":"2030-01-01T00:00:00.0000001Z","payload":"YQ=="})");
  Add(R"({"target":{"http":{"uri":"http://h/"}}})");
  Add(R"({"eventId":"old"})");
  ASSERT_EQ(batch_.request().events_size(), 3);
  EXPECT_EQ(batch_.request().parent(), "tenants/t");
  EXPECT_EQ(batch_.request().events(0).due_time_micros(), 1893456000000001);
  EXPECT_EQ(batch_.request().events(0).payload(), "a");
  EXPECT_EQ(batch_.request().events(1).overrides().target().http().uri(), "http://h/");
  v1::IngestResponse response;
  response.add_event_ids("made");
  response.add_existing_positions(2);
  batch_.Take(response);
  EXPECT_TRUE(batch_.answered());
  EXPECT_THAT(
      Answers(),
      ElementsAre(json({{"line", 1}, {"name", "tenants/t/events/mine"}}),
                  json({{"line", 2}, {"name", "tenants/t/events/made"}}),
                  json({{"line", 3}, {"name", "tenants/t/events/old"}, {"existing", true}})));
}

TEST_F(NdjsonBatchTest, IdOfACancelledEventIsAnError) {
  Add(R"({"eventId":"mine","target":{"http":{"uri":"http://h/"}}})");
  Add(R"({"eventId":"gone","target":{"http":{"uri":"http://h/"}}})");
  v1::IngestResponse response;
  response.add_existing_positions(0);
  response.add_existing_positions(1);
  response.add_cancelled_positions(1);
  batch_.Take(response);
  const std::vector<json> answers = Answers();
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0]["existing"], true);
  EXPECT_EQ(answers[1]["error"]["code"], 409);
  EXPECT_THAT(answers[1].dump(), ::testing::HasSubstr("EVENT_CANCELLED"));
}

TEST_F(NdjsonBatchTest, ALineThatIsNoEventDoesNotStopTheOthers) {
  Add("{");
  Add(R"({"eventId":"a"})");
  Add(R"({"colour":"red"})");
  batch_.Add({.number = ++number_, .text = {}, .fault = absl::InvalidArgumentError("too long")});
  Add(R"({"dueTime":"never"})");
  ASSERT_EQ(batch_.request().events_size(), 1);
  batch_.Take(v1::IngestResponse());
  const std::vector<json> answers = Answers();
  ASSERT_EQ(answers.size(), 5u);
  EXPECT_EQ(answers[1].value("name", ""), "tenants/t/events/a");
  for (const int bad : {0, 2, 3, 4}) EXPECT_EQ(answers[bad]["error"]["code"], 400) << bad;
}

TEST_F(NdjsonBatchTest, SendsTheOthersAgainIfSomeAreRefused) {
  for (const char* id : {"a", "b", "c", "d"}) Add(absl::StrCat("{\"eventId\":\"", id, "\"}"));
  v1::IngestResponse refused;
  refused.set_error_code(static_cast<int>(absl::StatusCode::kInvalidArgument));
  for (const char* field : {"events[1].overrides.target", "events[3].payload"}) {
    auto* violation = refused.mutable_bad_request()->add_field_violations();
    violation->set_field(field);
    violation->set_description("is wrong");
  }
  batch_.Take(refused);
  EXPECT_FALSE(batch_.answered());
  ASSERT_EQ(batch_.request().events_size(), 2);
  EXPECT_EQ(batch_.request().events(0).event_id(), "a");
  EXPECT_EQ(batch_.request().events(1).event_id(), "c");
  v1::IngestResponse accepted;
  accepted.add_existing_positions(1);
  batch_.Take(accepted);
  const std::vector<json> answers = Answers();
  ASSERT_EQ(answers.size(), 4u);
  EXPECT_EQ(answers[1]["error"]["message"], "target: is wrong");
  EXPECT_EQ(answers[2].value("existing", false), true);
  EXPECT_EQ(answers[3]["error"]["message"], "payload: is wrong");
}

TEST_F(NdjsonBatchTest, LimitsAreReadAndTheirFaultsNameTheField) {
  Add(R"({"limits":[{"policy":"a"},{"policy":"b","policyKey":"k","weight":"3"}]})");
  ASSERT_EQ(batch_.request().events_size(), 1);
  const v1::Event& read = batch_.request().events(0).overrides();
  ASSERT_EQ(read.limits_size(), 2);
  EXPECT_EQ(read.limits(1).policy_key(), "k");
  EXPECT_EQ(read.limits(1).weight(), 3);
  v1::IngestResponse refused;
  refused.set_error_code(static_cast<int>(absl::StatusCode::kInvalidArgument));
  auto* violation = refused.mutable_bad_request()->add_field_violations();
  violation->set_field("events[0].overrides.limits[1].weight");
  violation->set_description("is wrong");
  batch_.Take(refused);
  EXPECT_EQ(Answers().at(0)["error"]["message"], "limits[1].weight: is wrong");
}

TEST_F(NdjsonBatchTest, ARefusalOfTheWholeBatchIsEachLines) {
  Add(R"({"eventId":"a"})");
  Add(R"({"eventId":"b"})");
  v1::IngestResponse busy;
  busy.set_error_code(static_cast<int>(absl::StatusCode::kResourceExhausted));
  busy.set_error_message("too many batches");
  batch_.Take(busy);
  EXPECT_TRUE(batch_.answered());
  for (const json& answer : Answers()) EXPECT_EQ(answer["error"]["status"], "RESOURCE_EXHAUSTED");
}

}  // namespace ndjson_batch_test
}  // namespace escapement::master
