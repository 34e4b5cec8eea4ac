#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tools/escctl/base/target_flags.h"

namespace escapement::escctl {
namespace target_kind_flags_test {

using Strings = std::vector<std::string>;

// The target as text, or the error.
std::string Parse(const Strings& arguments) {
  CLI::App app;
  TargetKindFlags flags;
  flags.Add(app);
  std::vector<const char*> argv = {"escctl"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  try {
    app.parse(static_cast<int>(argv.size()), argv.data());
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
  const auto target = flags.Target();
  if (!target.ok()) return std::string(target.status().message());
  return target->has_value() ? (*target)->ShortDebugString() : "none";
}

std::string File(const std::string& text) {
  const std::string path = ::testing::TempDir() + "/secret";
  std::ofstream(path) << text;
  return absl::StrCat("@", path);
}

TEST(TargetKindFlags, EachKindHasAFlag) {
  EXPECT_EQ(Parse({}), "none");
  EXPECT_EQ(Parse({"--http", "http://h", "--method", "PUT", "--header", "a=b"}),
            R"(http { uri: "http://h" method: "PUT" headers { key: "a" value: "b" } })");
  EXPECT_EQ(Parse({"--grpc", "h:1"}), R"(grpc { uri: "h:1" })");
  EXPECT_EQ(Parse({"--sqs", "https://q", "--sqs-region", "r", "--sqs-credentials", "a:b"}),
            R"(sqs { queue_url: "https://q" region: "r" credentials: "a:b" })");
  EXPECT_EQ(Parse({"--kafka", "a:1,b:2/t"}), R"(kafka { brokers: "a:1,b:2" topic: "t" })");
  EXPECT_EQ(Parse({"--slack", "https://s"}), R"(slack { webhook_url: "https://s" })");
  EXPECT_EQ(Parse({"--ping", "https://p"}), R"(ping { uri: "https://p" })");
  EXPECT_EQ(Parse({"--email", "a@b", "--email", "c@d", "--smtp", "smtp://m", "--from", "e@f",
                   "--subject", "s"}),
            R"(email { smtp_uri: "smtp://m" from: "e@f" to: "a@b" to: "c@d" subject: "s" })");
  EXPECT_EQ(Parse({"--target", R"({"kafka":{"brokers":"a:1","topic":"t","tls":{}}})"}),
            R"(kafka { brokers: "a:1" topic: "t" tls { } })");
}

TEST(TargetKindFlags, SecretsCanComeFromFiles) {
  EXPECT_EQ(Parse({"--slack", File("https://s\n")}), R"(slack { webhook_url: "https://s" })");
  EXPECT_EQ(Parse({"--http", "http://h", "--signing-secret", File("whsec_x\n")}),
            R"(http { uri: "http://h" signing_secrets: "whsec_x" })");
  EXPECT_EQ(Parse({"--http", "http://h", "--secret-header", "A=" + File("b\n")}),
            R"(http { uri: "http://h" secret_headers { key: "A" value: "b" } })");
  EXPECT_TRUE(absl::StrContains(Parse({"--slack", "@/no/such/file"}), "/no/such/file"));
}

TEST(TargetKindFlags, MistakesAreNamed) {
  EXPECT_EQ(Parse({"--http", "http://h", "--ping", "http://h"}),
            "--http and --ping exclude each other: give one of them");
  EXPECT_TRUE(absl::StrContains(Parse({"--kafka", "a:1"}), "--kafka"));
  EXPECT_TRUE(absl::StrContains(Parse({"--target", "{"}), "--target"));
  EXPECT_EQ(Parse({"--email", "a@b"}), "--email needs --smtp and --from");
  EXPECT_TRUE(absl::StrContains(Parse({"--method", "PUT"}), "--http"));
}

}  // namespace target_kind_flags_test
}  // namespace escapement::escctl
