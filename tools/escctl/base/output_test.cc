#include "tools/escctl/base/output.h"

#include "escapement/v1/resources.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "yaml-cpp/yaml.h"

namespace escapement::escctl {
namespace output_test {

using ::testing::HasSubstr;

TEST(OutputTest, TablesAlignTheirColumns) {
  EXPECT_EQ(FormatTable({"NAME", "STATE"}, {{"a-long-name", "ENABLED"}, {"b"}}),
            "NAME         STATE\n"
            "a-long-name  ENABLED\n"
            "b\n");
}

TEST(OutputTest, NoFormatLetsControlCharactersThrough) {
  const std::string hostile = "a\x1b[2J\xc2\x9b\x7f\nb";
  EXPECT_EQ(FormatTable({"REASON"}, {{hostile}}), "REASON\na\\x1b[2J\\x9b\\x7f\\nb\n");
  v1::Schedule schedule;
  schedule.set_pause_reason(hostile);
  (*schedule.mutable_labels())[hostile] = hostile;
  for (const OutputFormat format : {OutputFormat::kJson, OutputFormat::kYaml}) {
    const std::string text = FormatMessage(schedule, format);
    EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
    EXPECT_EQ(text.find('\x7f'), std::string::npos) << text;
    EXPECT_EQ(text.find("\xc2\x9b"), std::string::npos) << text;
  }
}

TEST(OutputTest, HostileKeysSurviveYamlAndJson) {
  for (const std::string& key :
       {std::string("a\x1b[2J"), std::string("\xc2\x9b"), std::string("\x7f"), std::string("a\nb"),
        std::string("a: b"), std::string("\xe2\x80\xae"), std::string("- \"x\" \\")}) {
    v1::Schedule schedule;
    (*schedule.mutable_labels())[key] = "v";
    for (const OutputFormat format : {OutputFormat::kJson, OutputFormat::kYaml}) {
      const std::string text = FormatMessage(schedule, format);
      for (const char* raw : {"\x1b", "\x7f", "\xc2\x9b", "\xe2\x80\xae"})
        EXPECT_EQ(text.find(raw), std::string::npos) << text;
      const YAML::Node labels = YAML::Load(text)["labels"];
      ASSERT_EQ(labels.size(), 1u) << text;
      EXPECT_EQ(labels.begin()->first.as<std::string>(), key) << text;
    }
  }
}

TEST(OutputTest, JsonAndYamlUseTheNamesOfTheApi) {
  v1::Schedule schedule;
  schedule.set_name("tenants/default/schedules/a");
  schedule.set_time_zone("UTC");
  schedule.set_event_count(5);
  EXPECT_THAT(FormatMessage(schedule, OutputFormat::kJson), HasSubstr("\"eventCount\": \"5\""));
  EXPECT_THAT(FormatMessage(schedule, OutputFormat::kYaml), HasSubstr("eventCount: \"5\""));
  EXPECT_THAT(FormatMessages({&schedule}, OutputFormat::kYaml),
              HasSubstr("- name: \"tenants/default/schedules/a\""));
  EXPECT_EQ(FormatMessages({}, OutputFormat::kJson), "[]\n");
}

}  // namespace output_test
}  // namespace escapement::escctl
