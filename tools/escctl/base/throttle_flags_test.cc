#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tools/escctl/base/flags.h"

namespace escapement::escctl {
namespace throttle_flags_test {

using Strings = std::vector<std::string>;

struct Parsed {
  absl::Status status;
  v1::Schedule schedule;
  Strings fields;
};

Parsed Parse(Strings arguments) {
  CLI::App app;
  ThrottleFlags flags;
  flags.Add(app);
  std::vector<const char*> argv = {"escctl"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  app.parse(static_cast<int>(argv.size()), argv.data());
  Parsed parsed;
  // The request of an update may already hold this, from a file.
  parsed.schedule.set_policy("former");
  parsed.schedule.mutable_on_complete()->mutable_http()->set_uri("http://former/");
  parsed.schedule.mutable_window()->set_pacing(v1::Window::EVEN);
  parsed.status = flags.Apply([](const std::string& id) { return "full/" + id; }, parsed.schedule,
                              parsed.fields);
  return parsed;
}

TEST(ThrottleFlags, AbsentThrottleFlagChangesNothing) {
  const Parsed parsed = Parse({});
  EXPECT_TRUE(parsed.status.ok());
  EXPECT_TRUE(parsed.fields.empty());
  EXPECT_EQ(parsed.schedule.policy(), "former");
}

TEST(ThrottleFlags, EachThrottleFlagSetsItsFieldAndNamesIt) {
  const Parsed parsed = Parse({"--policy", "p", "--window", "1h30m", "--pacing", "soonest",
                               "--on-close", "carry-over", "--completion", "on-delivery",
                               "--on-complete-grpc", "h:1", "--on-complete-when", "on-failure"});
  ASSERT_TRUE(parsed.status.ok()) << parsed.status;
  EXPECT_EQ(parsed.schedule.policy(), "full/p");
  EXPECT_EQ(parsed.schedule.window().duration().seconds(), 5400);
  EXPECT_EQ(parsed.schedule.window().pacing(), v1::Window::SOONEST);
  EXPECT_EQ(parsed.schedule.window().on_close(), v1::Window::CARRY_OVER);
  EXPECT_EQ(parsed.schedule.completion(), v1::ON_DELIVERY);
  EXPECT_EQ(parsed.schedule.on_complete().grpc().uri(), "h:1");
  EXPECT_FALSE(parsed.schedule.on_complete().has_http());
  EXPECT_EQ(parsed.schedule.on_complete_when(), v1::Schedule::ON_FAILURE);
  EXPECT_EQ(parsed.fields, (Strings{"policy", "completion", "window.duration", "window.pacing",
                                    "window.on_close", "on_complete_when", "on_complete"}));
}

TEST(ThrottleFlags, EmptyTextClearsThrottleField) {
  const Parsed parsed = Parse({"--policy", "", "--window", "", "--on-complete-http", ""});
  ASSERT_TRUE(parsed.status.ok()) << parsed.status;
  EXPECT_EQ(parsed.schedule.policy(), "");
  EXPECT_FALSE(parsed.schedule.has_window());
  EXPECT_FALSE(parsed.schedule.has_on_complete());
  EXPECT_EQ(parsed.fields, (Strings{"policy", "window", "on_complete"}));
}

TEST(ThrottleFlags, ThrottleFlagsRefuseUnknownWords) {
  EXPECT_FALSE(Parse({"--pacing", "quickly"}).status.ok());
  EXPECT_FALSE(Parse({"--on-close", "never"}).status.ok());
  EXPECT_FALSE(Parse({"--on-complete-when", "never"}).status.ok());
  EXPECT_FALSE(Parse({"--completion", "later"}).status.ok());
  EXPECT_FALSE(Parse({"--window", "long"}).status.ok());
  EXPECT_FALSE(Parse({"--window", "", "--pacing", "even"}).status.ok());
}

TEST(ThrottleFlags, EachLimitHasItsPolicyKeyAndWeight) {
  const Parsed parsed = Parse({"--limit", "p", "--limit=q=acme:3", "--limit", "r:7", "--limit",
                               "tenants/t/policies/s=a:b=c"});
  ASSERT_TRUE(parsed.status.ok()) << parsed.status;
  EXPECT_EQ(parsed.fields, Strings{"limits"});
  EXPECT_EQ(parsed.schedule.policy(), "") << "limits replace the policy of a file";
  Strings limits;
  for (const v1::Limit& limit : parsed.schedule.limits())
    limits.push_back(absl::StrCat(limit.policy(), " ", limit.policy_key(), " ", limit.weight()));
  EXPECT_EQ(limits, (Strings{"full/p  0", "full/q acme 3", "full/r  7",
                             "full/tenants/t/policies/s a:b=c 0"}));
  const Parsed none = Parse({"--limit", ""});
  ASSERT_TRUE(none.status.ok()) << none.status;
  EXPECT_EQ(none.fields, Strings{"limits"});
  EXPECT_EQ(none.schedule.limits_size(), 0);
  for (const char* bad : {"=key", ":3", "p:many", ":"})
    EXPECT_FALSE(Parse({"--limit", bad}).status.ok()) << bad;
  EXPECT_THROW(Parse({"--limit", "p", "--policy", "q"}), CLI::ParseError);
}

TEST(ThrottleFlags, ErrorOfALimitNamesItsFlag) {
  CLI::App app;
  ThrottleFlags flags;
  flags.Add(app);
  const char* argv[] = {"escctl", "--limit", "p", "--limit", "q:9"};
  app.parse(5, argv);
  EXPECT_EQ(FlagOfField(app, "schedule.limits[1].weight"), "--limit[1].weight");
  EXPECT_EQ(FlagOfField(app, "event.limits"), "--limit");
}

TEST(PolicyFlags, PolicyAndCompletionAreWrittenIntoAnEvent) {
  CLI::App app;
  PolicyFlags flags;
  flags.Add(app);
  const char* argv[] = {"escctl", "--policy",     "p",         "--policy-key",
                        "acme",   "--completion", "on-release"};
  app.parse(7, argv);
  v1::Event event;
  Strings fields;
  const auto full = [](const std::string& id) { return "full/" + id; };
  ASSERT_TRUE(flags.Apply(full, event, fields).ok());
  EXPECT_EQ(event.policy(), "full/p");
  EXPECT_EQ(event.completion(), v1::ON_RELEASE);
  EXPECT_EQ(event.policy_key(), "acme");
  EXPECT_EQ(fields, (Strings{"policy", "policy_key", "completion"}));
}

}  // namespace throttle_flags_test
}  // namespace escapement::escctl
