#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tools/escctl/base/flags.h"

namespace escapement::escctl {
namespace schedule_filter_flags_test {

using Strings = std::vector<std::string>;

void ParseWith(CLI::App& app, const Strings& arguments) {
  std::vector<const char*> argv = {"escctl"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  app.parse(static_cast<int>(argv.size()), argv.data());
}

// The filter, or the error.
std::string Parse(const Strings& arguments) {
  CLI::App app;
  ScheduleFilterFlags flags;
  flags.Add(app);
  try {
    ParseWith(app, arguments);
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
  const auto filter = flags.Filter();
  if (!filter.ok()) return std::string(filter.status().message());
  return filter->has_value() ? **filter : "none";
}

// The flag that is named for an error in the filter.
std::string Named(const Strings& arguments) {
  CLI::App app;
  ScheduleFilterFlags flags;
  flags.Add(app);
  ParseWith(app, arguments);
  return FlagOfField(app, "subscription.filter");
}

TEST(ScheduleFilterFlags, NamesAndLabelsMakeAFilter) {
  EXPECT_EQ(Parse({}), "none");
  EXPECT_EQ(Parse({"--filter", ""}), "");
  EXPECT_EQ(Parse({"--filter", "state = PAUSED"}), "state = PAUSED");
  EXPECT_EQ(Parse({"--schedule", "nightly"}), R"(name = "nightly")");
  EXPECT_EQ(Parse({"--label", "app.io/team=a=b"}), R"(labels."app.io/team" = "a=b")");
  EXPECT_EQ(
      Parse({"--schedule", "nightly-*", "--schedule", "hourly", "--label", "a=1", "--label", "b="}),
      R"((name = "nightly-*" OR name = "hourly") AND labels."a" = "1" AND labels."b" = "")");
  EXPECT_EQ(Parse({"--label", R"(a"\=b"\)"}), R"(labels."a\"\\" = "b\"\\")");
}

TEST(ScheduleFilterFlags, MistakesAreNamed) {
  EXPECT_EQ(Parse({"--label", "team"}), "--label: 'team' is not name=value");
  EXPECT_EQ(Parse({"--schedule", ""}), "--schedule: is empty");
  EXPECT_EQ(Parse({"--filter", "name = a", "--schedule", "b"}), "--filter excludes --schedule");
}

TEST(ScheduleFilterFlags, FlagOfAWrongFilterIsTheOneGiven) {
  EXPECT_EQ(Named({"--filter", "colour = red"}), "--filter");
  EXPECT_EQ(Named({"--schedule", "a", "--label", "team=a"}), "--schedule");
  EXPECT_EQ(Named({"--label", "team=a"}), "--label");
}

}  // namespace schedule_filter_flags_test
}  // namespace escapement::escctl
