#include "common/base/log.h"

#include <limits>
#include <string>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace escapement {
namespace log_test {

TEST(LogTest, LineIsOneJsonObjectForAnyText) {
  const std::string line = FormatLogLine(absl::FromUnixMicros(1'000'001), LogLevel::kWarning,
                                         "store", "store.commit", "a \"quoted\"\nline\x01\\",
                                         {{"count", 3},
                                          {"rate", 0.5},
                                          {"name", "x"},
                                          {"neg", -7},
                                          {"inf", std::numeric_limits<double>::infinity()}});
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["time"], "1970-01-01T00:00:01.000001Z");
  EXPECT_EQ(json["level"], "warning");
  EXPECT_EQ(json["service"], "store");
  EXPECT_EQ(json["message"], "a \"quoted\"\nline\x01\\");
  EXPECT_EQ(json["count"], 3);
  EXPECT_EQ(json["rate"], 0.5);
  EXPECT_EQ(json["neg"], -7);
  EXPECT_EQ(json["inf"], "inf");
}

TEST(LogTest, LineHasNoTerminalCommands) {
  const std::string line =
      FormatLogLine(absl::UnixEpoch(), LogLevel::kInfo, "s", "c", "m",
                    {{"why", absl::string_view("\x1b[2J\x7f\xc2\x9b\xe2\x80\xae\xff")}});
  EXPECT_EQ(nlohmann::json::parse(line)["why"], "\x1b[2J\x7f\xc2\x9b\xe2\x80\xae?");
  for (const char c : line) EXPECT_TRUE(c >= 0x20 && c <= 0x7e) << line;
}

TEST(LogTest, ParsesLevels) {
  LogLevel level = LogLevel::kInfo;
  EXPECT_TRUE(ParseLogLevel("error", &level));
  EXPECT_EQ(level, LogLevel::kError);
  EXPECT_FALSE(ParseLogLevel("loud", &level));
}

}  // namespace log_test
}  // namespace escapement
