#include "common/process/flag_sources.h"

#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

// Flags of every process, and two of this test.
ABSL_DECLARE_FLAG(std::string, config);
ABSL_DECLARE_FLAG(std::string, listen);
ABSL_DECLARE_FLAG(bool, insecure);
ABSL_FLAG(int, shards, 16, "how many");
ABSL_FLAG(absl::Duration, ttl, absl::Seconds(5), "how long");

namespace escapement {
namespace flag_sources_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class FlagSourcesTest : public ::testing::Test {
 protected:
  AppliedFlags Apply(std::vector<std::string> arguments) {
    return ApplyFlags({std::move(arguments), environment_});
  }
  std::string WriteFile(const std::string& text) {
    const std::string path = ::testing::TempDir() + "/flags.yaml";
    std::ofstream(path) << text;
    return path;
  }
  std::map<std::string, std::string> environment_;
  absl::FlagSaver saver_;
};

TEST_F(FlagSourcesTest, CommandLineWinsOverEnvironmentAndEnvironmentOverFile) {
  const std::string path = WriteFile("listen: file\nshards: 1\nttl: 9s\n");
  environment_ = {{"ESCAPEMENT_LISTEN", "environment"}, {"ESCAPEMENT_SHARDS", "2"}};
  EXPECT_THAT(Apply({"--config", path, "--listen=line", "--insecure"}).errors, IsEmpty());
  EXPECT_EQ(absl::GetFlag(FLAGS_listen), "line");
  EXPECT_EQ(absl::GetFlag(FLAGS_shards), 2);
  EXPECT_EQ(absl::GetFlag(FLAGS_ttl), absl::Seconds(9));
  EXPECT_TRUE(absl::GetFlag(FLAGS_insecure));
  EXPECT_THAT(Apply({"--noinsecure"}).errors, IsEmpty());
  EXPECT_FALSE(absl::GetFlag(FLAGS_insecure));
}

TEST_F(FlagSourcesTest, PrintedFlagsHaveNoPasswords) {
  for (const char* secret :
       {"postgresql://me:s3cret@a:1,b:2/db?sslmode=require",
        "postgresql://a/db?user=me&password=s3cret", "host=a password='s3cret \\' s3cret' user=me",
        "host=a sslpassword = s3cret"}) {
    absl::SetFlag(&FLAGS_listen, secret);
    EXPECT_THAT(FlagsAsYaml(), Not(HasSubstr("s3cret"))) << secret;
    EXPECT_THAT(FlagsAsYaml(), HasSubstr("hidden")) << secret;
  }
  absl::SetFlag(&FLAGS_listen, "postgresql://me@a/db?sslmode=require");
  EXPECT_THAT(FlagsAsYaml(), HasSubstr("postgresql://me@a/db?sslmode=require"));
}

TEST_F(FlagSourcesTest, ReturnsAllErrorsOfAllPlaces) {
  environment_ = {{"ESCAPEMENT_CONFIG", WriteFile("shard: 1\nttl: soon\nlisten: [a]\n")},
                  {"ESCAPEMENT_SHARDS", "many"}};
  const auto errors = Apply({"--nothing=1", "stray", "--shards=x", "--ttl"}).errors;
  EXPECT_THAT(
      errors,
      ElementsAre(HasSubstr("unknown flag --nothing"), HasSubstr("unexpected argument 'stray'"),
                  HasSubstr("--ttl needs a value"), HasSubstr("unknown setting 'shard'"),
                  HasSubstr("ttl cannot be 'soon'"), HasSubstr("listen must be a single value"),
                  HasSubstr("ESCAPEMENT_SHARDS"), HasSubstr("shards cannot be 'x'")));
}

TEST_F(FlagSourcesTest, IgnoresSettingsOfOtherServicesInTheFile) {
  EXPECT_THAT(Apply({"--config=" + WriteFile("data_dir: /data\nlisten: file\n")}).errors,
              IsEmpty());
  EXPECT_EQ(absl::GetFlag(FLAGS_listen), "file");
}

TEST_F(FlagSourcesTest, AFileThatIsMissingOrNoYamlIsAnError) {
  EXPECT_THAT(Apply({"--config=/nonexistent.yaml"}).errors,
              ElementsAre(HasSubstr("/nonexistent.yaml")));
  EXPECT_THAT(Apply({"--config=" + WriteFile("a: [")}).errors,
              ElementsAre(HasSubstr("flags.yaml")));
  EXPECT_THAT(Apply({"--config=" + WriteFile("just text")}).errors,
              ElementsAre(HasSubstr("must be a map")));
}

TEST_F(FlagSourcesTest, FileThatSaysTwoThingsIsAnError) {
  EXPECT_THAT(Apply({"--config=" + WriteFile("insecure: false\ninsecure: true\n")}).errors,
              ElementsAre(HasSubstr("flags.yaml:2: insecure is set twice")));
  EXPECT_THAT(Apply({"--config=" + WriteFile("insecure: false\n---\ninsecure: true\n")}).errors,
              ElementsAre(HasSubstr("more than one document")));
  EXPECT_THAT(Apply({"--config=" + ::testing::TempDir()}).errors,
              ElementsAre(HasSubstr("config file")));
}

TEST_F(FlagSourcesTest, UnknownVariableIsAnErrorUnlessItIsForOthers) {
  environment_ = {{"ESCAPEMENT_REQUIRE_CREDENTIALZ", "true"},
                  {"ESCAPEMENT_DATA_DIR", "/data"},
                  {"ESCAPEMENT_SERVER", "a:1"},
                  {"ESCAPEMENT_MASTER_SERVICE_HOST", "10.0.0.1"},
                  {"ESCAPEMENT_MASTER_SERVICE_PORT_GRPC", "7410"},
                  {"ESCAPEMENT_MASTER_PORT", "tcp://10.0.0.1:7410"},
                  {"ESCAPEMENT_MASTER_PORT_7410_TCP_ADDR", "10.0.0.1"},
                  {"ESCAPEMENT_SERVICE_HOST", "10.0.0.2"},
                  {"ESCAPEMENT_PORT_7411_TCP", "tcp://10.0.0.2:7411"},
                  {"HOME", "/"}};
  EXPECT_THAT(Apply({}).errors, ElementsAre(HasSubstr("ESCAPEMENT_REQUIRE_CREDENTIALZ")));
}

TEST_F(FlagSourcesTest, ReadsItsOwnOutput) {
  EXPECT_THAT(Apply({"--listen=a: \"b\" # c", "--ttl=90s"}).errors, IsEmpty());
  const std::string path = WriteFile(FlagsAsYaml());
  EXPECT_THAT(Apply({"--listen=other", "--ttl=1s"}).errors, IsEmpty());
  EXPECT_THAT(Apply({"--config=" + path}).errors, IsEmpty());
  EXPECT_EQ(absl::GetFlag(FLAGS_listen), "a: \"b\" # c");
  EXPECT_EQ(absl::GetFlag(FLAGS_ttl), absl::Seconds(90));
}

TEST_F(FlagSourcesTest, HelpIsNotAnError) {
  const AppliedFlags applied = Apply({"--help"});
  EXPECT_TRUE(applied.help);
  EXPECT_THAT(applied.errors, IsEmpty());
  EXPECT_THAT(FlagsHelp(), HasSubstr("--shards (how many); default: 16"));
}

}  // namespace flag_sources_test
}  // namespace escapement
