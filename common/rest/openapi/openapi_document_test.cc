#include "common/rest/openapi/openapi_document.h"

#include <google/protobuf/compiler/parser.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/timestamp.pb.h>

#include <fstream>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/rest/docs/docs_page.h"
#include "gmock/gmock.h"
#include "google/api/annotations.pb.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace escapement::rest {
namespace openapi_document_test {

using google::protobuf::FileDescriptorProto;
using google::protobuf::FileDescriptorSet;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAreArray;

const json& Document() {
  static const json document = json::parse(OpenApiJson());
  return document;
}

const json& Schema(const json& document, const std::string& name) {
  return document.at("components").at("schemas").at(name);
}

std::vector<std::string> ParametersOf(const json& operation, const std::string& in) {
  std::vector<std::string> names;
  for (const json& parameter : operation.value("parameters", json::array())) {
    if (parameter.at("in") == in) names.push_back(parameter.at("name"));
  }
  return names;
}

TEST(OpenApiJson, IngestTakesAndGivesLines) {
  const json& ingest = Document().at("paths").at("/v1/tenants/{tenant}/events:ingest").at("post");
  EXPECT_EQ(ingest.at("operationId"), "ingest");
  EXPECT_EQ(
      ingest.at("requestBody").at("content").at("application/x-ndjson").at("schema").at("$ref"),
      "#/components/schemas/Event");
  const json& line =
      ingest.at("responses").at("200").at("content").at("application/x-ndjson").at("schema");
  EXPECT_TRUE(line.at("properties").contains("error"));
  EXPECT_THAT(ingest.at("description").get<std::string>(), HasSubstr("newline-delimited JSON"));
}

TEST(OpenApiJson, ScheduleHasTheJsonFormOfItsFields) {
  const json& properties = Schema(Document(), "Schedule").at("properties");
  EXPECT_EQ(properties.at("displayName").at("type"), "string");
  EXPECT_EQ(properties.at("eventCount").at("type"), "string");
  EXPECT_EQ(properties.at("eventCount").at("format"), "int64");
  EXPECT_EQ(properties.at("priority").at("type"), "integer");
  EXPECT_EQ(properties.at("payload").at("contentEncoding"), "base64");
  EXPECT_EQ(properties.at("startTime").at("format"), "date-time");
  EXPECT_TRUE(properties.at("jitter").contains("pattern"));
  EXPECT_EQ(properties.at("labels").at("additionalProperties").at("type"), "string");
  EXPECT_EQ(properties.at("times").at("items").at("format"), "date-time");
  EXPECT_EQ(properties.at("state").at("$ref"), "#/components/schemas/Schedule.State");
  EXPECT_EQ(properties.at("target").at("$ref"), "#/components/schemas/Target");
  EXPECT_EQ(properties.at("uid").at("readOnly"), true);
  EXPECT_FALSE(properties.at("cron").contains("readOnly"));
}

TEST(OpenApiJson, CommentsAreDescriptions) {
  const json& schedule = Schema(Document(), "Schedule");
  EXPECT_THAT(std::string(schedule.at("description")),
              HasSubstr("A schedule says when events fire"));
  EXPECT_THAT(std::string(schedule.at("description")),
              HasSubstr("`cron`, `cronFields` and `interval` exclude each other."));
  EXPECT_EQ(schedule.at("properties").at("displayName").at("description"),
            "Text for people. At most 200 characters, without control characters. Default empty.");
  EXPECT_THAT(std::string(Schema(Document(), "Schedule.State").at("description")),
              HasSubstr("- `ENABLED`: The schedule fires."));
  EXPECT_THAT(std::string(Document().at("tags").at(0).at("description")),
              HasSubstr("Every error carries google.rpc.ErrorInfo."));
}

TEST(OpenApiJson, ListTakesItsFieldsInTheQuery) {
  const json& list =
      Document().at("paths").at("/v1/tenants/{tenant}/schedules/{schedule}/runs").at("get");
  EXPECT_EQ(list.at("operationId"), "listRuns");
  EXPECT_EQ(list.at("summary"), "List runs");
  EXPECT_EQ(list.at("tags"), json::array({"Run"}));
  EXPECT_THAT(ParametersOf(list, "path"), ElementsAre("tenant", "schedule"));
  EXPECT_THAT(ParametersOf(list, "query"),
              ElementsAre("pageSize", "pageToken", "orderBy", "filter"));
  EXPECT_FALSE(list.contains("requestBody"));
}

TEST(OpenApiJson, VerbKeepsItsPathAndBody) {
  const json& pause =
      Document().at("paths").at("/v1/tenants/{tenant}/schedules/{schedule}:pause").at("post");
  EXPECT_THAT(ParametersOf(pause, "query"), ElementsAre());
  EXPECT_THAT(ParametersOf(pause, "header"), ElementsAre("Idempotency-Key", "If-Match"));
  EXPECT_EQ(pause.at("requestBody").at("content").at("application/json").at("schema").at("$ref"),
            "#/components/schemas/PauseScheduleRequest");
  const json& body = Schema(Document(), "PauseScheduleRequest");
  EXPECT_EQ(body.at("additionalProperties"), false);
  EXPECT_TRUE(body.at("properties").contains("reason"));
  EXPECT_FALSE(body.at("properties").contains("name")) << "the path gives it";
}

TEST(OpenApiJson, UpdateHasBodyMaskAndEtag) {
  const json& update =
      Document().at("paths").at("/v1/tenants/{tenant}/schedules/{schedule}").at("patch");
  EXPECT_THAT(ParametersOf(update, "query"),
              ElementsAre("updateMask", "requestId", "validateOnly"));
  EXPECT_THAT(ParametersOf(update, "header"), ElementsAre("Idempotency-Key", "If-Match"));
  const json& body = update.at("requestBody");
  EXPECT_EQ(body.at("required"), true);
  EXPECT_EQ(body.at("content").at("application/json").at("schema"),
            (json{{"$ref", "#/components/schemas/Schedule"}, {"unevaluatedProperties", false}}));
  EXPECT_FALSE(Schema(Document(), "Schedule").contains("additionalProperties"))
      << "answers may get further fields";
  const json& responses = update.at("responses");
  EXPECT_TRUE(responses.at("200").at("headers").contains("ETag"));
  EXPECT_EQ(responses.at("default").at("$ref"), "#/components/responses/Error");
}

TEST(OpenApiJson, CreationNamesWhatItRequires) {
  const json& create =
      Document().at("paths").at("/v1/tenants/{tenant}/schedules").at("post").at("requestBody");
  const json& body = create.at("content").at("application/json");
  EXPECT_EQ(body.at("schema").at("required"), json::array({"target"}));
  EXPECT_FALSE(Schema(Document(), "Schedule").contains("required")) << "a PATCH requires nothing";
  EXPECT_EQ(body.at("example").at("cron"), "0 9 * * MON-FRI");
  // Answers have it, too, but always.
  EXPECT_EQ(Schema(Document(), "HttpTarget").at("required"), json::array({"uri"}));
}

TEST(OpenApiJson, KeysAreItsSecurity) {
  EXPECT_EQ(Document().at("components").at("securitySchemes").at("apiKey").at("scheme"), "bearer");
  EXPECT_EQ(Document().at("security"),
            (json::array({{{"apiKey", json::array()}}, json::object()})));
}

TEST(OpenApiJson, PayloadsAreAlsoTextAndJson) {
  const json& properties = Schema(Document(), "Event").at("properties");
  EXPECT_EQ(properties.at("payloadText").at("type"), "string");
  EXPECT_EQ(properties.at("payloadJson").at("writeOnly"), true);
  EXPECT_FALSE(properties.contains("outputJson"));
  EXPECT_EQ(properties.at("outputText").at("readOnly"), true);
  EXPECT_FALSE(Schema(Document(), "Attempt").at("properties").contains("answerJson"));
}

TEST(OpenApiJson, DeleteAnswersAnEmptyObject) {
  const json& answer = Document()
                           .at("paths")
                           .at("/v1/tenants/{tenant}/policies/{policy}")
                           .at("delete")
                           .at("responses")
                           .at("200");
  EXPECT_EQ(answer.at("content").at("application/json").at("schema"), (json{{"type", "object"}}));
}

TEST(OpenApiJson, TextOfAnotherFieldIsShownInPlace) {
  EXPECT_THAT(std::string(Schema(Document(), "PauseScheduleRequest")
                              .at("properties")
                              .at("requestId")
                              .at("description")),
              HasSubstr("at most 64 characters"));
}

FileDescriptorSet PublicApi() {
  std::ifstream in("proto/public_api.bin", std::ios::binary);
  FileDescriptorSet files;
  EXPECT_TRUE(files.ParseFromIstream(&in));
  return files;
}

TEST(OpenApiJson, HasEachRpcWithAnAnnotation) {
  const FileDescriptorSet api = PublicApi();
  std::set<std::string> expected;
  for (const FileDescriptorProto& file : api.file()) {
    for (const auto& service : file.service()) {
      for (const auto& method : service.method()) {
        if (!method.options().HasExtension(google::api::http)) continue;
        const std::string name = absl::StrCat(service.name(), ".", method.name());
        expected.insert(name);
        const int bindings =
            method.options().GetExtension(google::api::http).additional_bindings_size();
        for (int i = 0; i < bindings; ++i) expected.insert(absl::StrCat(name, i + 2));
      }
    }
  }
  ASSERT_GT(expected.size(), 25u);
  std::set<std::string> present;
  for (const auto& [path, operations] : Document().at("paths").items()) {
    for (const auto& [method, operation] : operations.items()) {
      std::string name = operation.at("operationId");
      name[0] = static_cast<char>(name[0] - 'a' + 'A');
      present.insert(absl::StrCat(std::string(operation.at("tags").at(0)), "Service.", name));
    }
  }
  EXPECT_THAT(present, UnorderedElementsAreArray(expected));
}

// A set of one proto file in package "t", with the files that it may import.
FileDescriptorSet Files(absl::string_view declarations) {
  FileDescriptorSet files;
  google::api::Http::descriptor();  // links the files
  google::protobuf::Timestamp::descriptor();
  for (const char* name : {"google/protobuf/descriptor.proto", "google/protobuf/timestamp.proto",
                           "google/api/http.proto", "google/api/annotations.proto"}) {
    google::protobuf::DescriptorPool::generated_pool()->FindFileByName(name)->CopyTo(
        files.add_file());
  }
  const std::string text = absl::StrCat(
      "syntax = \"proto3\"; package t; import \"google/api/annotations.proto\";"
      "import \"google/protobuf/timestamp.proto\";\n",
      declarations);
  google::protobuf::io::ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
  google::protobuf::io::Tokenizer tokenizer(&stream, nullptr);
  google::protobuf::compiler::Parser parser;
  FileDescriptorProto& file = *files.add_file();
  EXPECT_TRUE(parser.Parse(&tokenizer, &file));
  file.set_name("t.proto");
  return files;
}

absl::StatusOr<std::string> Make(const FileDescriptorSet& files) {
  return OpenApiDocument(files, {"t.ThingService"},
                         {.title = "T", .version = "1", .description = "Things."});
}

constexpr const char* kThings = R"(
  // Serves
  // things.
  service ThingService {
    rpc Get(GetRequest) returns (Thing) {
      option (google.api.http) = {
        get: "/v1/{name=crates/*/entries/*}"
        additional_bindings {get: "/v1/things"}
      };
    }
    rpc Put(PutRequest) returns (Thing) {
      option (google.api.http) = {post: "/v1/things:put" body: "*"};
    }
  }
  message GetRequest {
    // Required.
    string name = 1;
    repeated string tags = 2;
    // Required.
    google.protobuf.Timestamp at = 3;
  }
  message PutRequest {
    Part part = 1;
    PutRequest fallback = 2;
  }
  // Only requests have it.
  message Part { uint64 size = 1; float ratio = 2; }
  // A thing may hold things.
  message Thing {
    map<string, Thing> things = 1;
    optional uint32 count = 2;
    string etag = 3;
    oneof kind { bool a = 4; Color b = 5; }
  }
  enum Color {
    COLOR_UNSPECIFIED = 0;
    // Like
    // blood.
    RED = 1;
  }
)";

TEST(OpenApiDocument, DescribesRecursionMapsAndOneofs) {
  const json document = json::parse(*Make(Files(kThings)));
  const json& thing = Schema(document, "Thing");
  EXPECT_EQ(thing.at("properties").at("things").at("additionalProperties").at("$ref"),
            "#/components/schemas/Thing");
  EXPECT_EQ(thing.at("properties").at("count").at("format"), "uint32");
  EXPECT_EQ(thing.at("description"), "A thing may hold things.\n\n`a` and `b` exclude each other.");
  EXPECT_EQ(Schema(document, "Color").at("enum"), json::array({"RED"}))
      << "an answer leaves out what is unspecified";
  EXPECT_EQ(Schema(document, "Color").at("description"), "- `RED`: Like blood.");
  EXPECT_EQ(document.at("tags").at(0),
            (json{{"name", "Thing"}, {"description", "Serves things."}}));
}

TEST(OpenApiDocument, EachBindingIsAnOperation) {
  const json document = json::parse(*Make(Files(kThings)));
  const json& get = document.at("paths").at("/v1/crates/{crate}/entries/{entry}").at("get");
  EXPECT_EQ(get.at("operationId"), "get");
  EXPECT_THAT(ParametersOf(get, "path"), ElementsAre("crate", "entry"));
  EXPECT_THAT(ParametersOf(get, "query"), ElementsAre("tags", "at"));
  EXPECT_THAT(ParametersOf(get, "header"), ElementsAre("If-None-Match"));
  EXPECT_TRUE(get.at("responses").contains("304"));
  const json& tags = get.at("parameters").at(2);
  EXPECT_EQ(tags.at("schema").at("type"), "array");
  EXPECT_EQ(tags.at("explode"), true);
  EXPECT_EQ(get.at("parameters").at(3).at("required"), true);
  const json& other = document.at("paths").at("/v1/things").at("get");
  EXPECT_EQ(other.at("operationId"), "get2");
  EXPECT_THAT(ParametersOf(other, "query"), ElementsAre("name", "tags", "at"));
}

TEST(OpenApiDocument, OnlyRequestsAreClosed) {
  const json document = json::parse(*Make(Files(kThings)));
  EXPECT_EQ(Schema(document, "Part").at("additionalProperties"), false);
  EXPECT_EQ(Schema(document, "PutRequest").at("additionalProperties"), false);
  EXPECT_FALSE(Schema(document, "Thing").contains("additionalProperties"));
}

TEST(OpenApiDocument, RefusesFieldsThatTheQueryCannotHold) {
  std::string text = kThings;
  text.replace(text.find("repeated string tags"), 20, "bytes tags");
  const auto document = Make(Files(text));
  EXPECT_EQ(document.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(document.status().message()), HasSubstr("t.GetRequest.tags"));
}

absl::StatusOr<std::string> MakeWith(const std::string& examples) {
  return OpenApiDocument(Files(kThings), {"t.ThingService"},
                         {.title = "T",
                          .version = "1",
                          .description = "Things.",
                          .line_messages = {},
                          .examples = Json::parse(examples)});
}

TEST(OpenApiDocument, HasTheExamplesOfParametersAndBodies) {
  const json document = json::parse(*MakeWith(
      R"([{"parameters": {"crate": "one"}},
          {"operation": "get", "parameters": {"entry": "two", "tags": "red"}},
          {"operation": "put", "body": {"part": {"size": "3"}}}])"));
  const json& get = document.at("paths").at("/v1/crates/{crate}/entries/{entry}").at("get");
  EXPECT_EQ(get.at("parameters").at(0).at("example"), "one");
  EXPECT_EQ(get.at("parameters").at(1).at("example"), "two");
  EXPECT_EQ(get.at("parameters").at(2).at("example"), "red");
  EXPECT_FALSE(get.at("parameters").at(3).contains("example"));
  const json& put = document.at("paths").at("/v1/things:put").at("post").at("requestBody");
  EXPECT_EQ(put.at("content").at("application/json").at("example").at("part").at("size"), "3");
}

TEST(OpenApiDocument, RefusesExamplesThatBelongNowhere) {
  for (const char* examples :
       {"{}", "[1]", R"([{"operation": "no"}])", R"([{"operation": "get", "body": {}}])",
        R"([{"operation": "get", "parameters": {"none": 1}}])"})
    EXPECT_TRUE(absl::IsInvalidArgument(MakeWith(examples).status())) << examples;
}

TEST(OpenApiDocument, RefusesABodyThatIsNoMessage) {
  std::string text = kThings;
  text.replace(text.find("body: \"*\""), 9, "body: \"text\"");
  text.replace(text.find("Part part"), 9, "string text");
  EXPECT_EQ(Make(Files(text)).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(OpenApiDocument, RefusesFilesThatDoNotBuild) {
  FileDescriptorSet files = Files(kThings);
  files.mutable_file()->DeleteSubrange(0, 1);
  EXPECT_EQ(Make(files).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Make(FileDescriptorSet()).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(OpenApiDocument, SameInputGivesTheSameBytes) {
  EXPECT_EQ(*Make(Files(kThings)), *Make(Files(kThings)));
}

}  // namespace openapi_document_test
}  // namespace escapement::rest
