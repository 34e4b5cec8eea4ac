// escapement.config.v1.Config is the schema of config files. It has exactly the settings of all
// processes.

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "escapement/config/v1/config.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/process/child_process.h"

namespace escapement::integration {
namespace config_schema_test {

// The names of the settings that a process prints.
std::set<std::string> SettingsOf(const std::string& service) {
  std::set<std::string> settings;
  std::vector<std::string> arguments = {"--print_config"};
  if (service == "store" || service == "standalone") arguments.push_back("--data_dir=x");
  const auto child = ChildProcess::Start(
      {.program = absl::StrCat(BuiltFolder(), "/services/", service, "/", service),
       .arguments = std::move(arguments),
       .log = ::testing::TempDir() + "/words"});
  EXPECT_TRUE(child.ok()) << child.status();
  while (true) {
    const auto line = (*child)->AwaitLine("", absl::Seconds(20));
    if (!line.ok()) break;
    if (!absl::StartsWith(*line, "#")) settings.insert(line->substr(0, line->find(':')));
  }
  EXPECT_EQ(*(*child)->Wait(absl::Seconds(20)), 0) << service;
  return settings;
}

TEST(ConfigSchema, NamesEverySettingOfEveryProcessAndNoOther) {
  std::set<std::string> schema;
  const auto* descriptor = config::v1::Config::descriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) schema.insert(descriptor->field(i)->name());

  std::set<std::string> settings;
  for (const char* service :
       {"store", "master", "emitter", "handler", "token_manager", "standalone"})
    settings.merge(SettingsOf(service));
  EXPECT_EQ(settings, schema);
}

}  // namespace config_schema_test
}  // namespace escapement::integration
