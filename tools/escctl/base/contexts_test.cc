#include "tools/escctl/base/contexts.h"

#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <map>

#include "gtest/gtest.h"

namespace escapement::escctl {
namespace contexts_test {

std::string Path(const std::map<std::string, std::string>& environment) {
  return ContextsPath([&](const char* name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::make_optional(found->second);
  });
}

TEST(ContextsTest, PathFollowsTheEnvironment) {
  EXPECT_EQ(Path({{"ESCAPEMENT_CONFIG_DIR", "/c"}, {"HOME", "/h"}}), "/c/escctl.yaml");
  EXPECT_EQ(Path({{"HOME", "/h"}}), "/h/.config/escapement/escctl.yaml");
  EXPECT_EQ(Path({}), "");
}

TEST(ContextsTest, SavedContextsAreLoadedAgain) {
  std::string folder = ::testing::TempDir() + "/contexts.XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/new/folder/escctl.yaml";
  EXPECT_TRUE(LoadContexts(path)->by_name.empty());
  Contexts contexts{
      .current = "prod",
      .by_name = {{"prod", {"master:7410", "", "/ca.pem", "/c.pem", "/c.key", "/api.key"}},
                  {"1.5", {"[::1]:1", "team \"a\""}}}};
  ASSERT_TRUE(SaveContexts(contexts, path).ok());
  struct stat info = {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const auto loaded = LoadContexts(path);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->current, "prod");
  EXPECT_EQ(loaded->by_name, contexts.by_name);
  EXPECT_FALSE(SaveContexts(contexts, "/proc/escctl.yaml").ok());
}

TEST(ContextsTest, BrokenFileIsRefusedByName) {
  const std::string path = ::testing::TempDir() + "/broken.yaml";
  for (const char* text : {"current: [", "just text", "contexts: {a: [}"}) {
    std::ofstream(path) << text;
    const auto loaded = LoadContexts(path);
    ASSERT_FALSE(loaded.ok()) << text;
    EXPECT_NE(loaded.status().message().find("broken.yaml"), std::string::npos);
  }
}

TEST(ContextsTest, NameGoesBeforeTheCurrentContext) {
  const Contexts contexts{.current = "a", .by_name = {{"a", {"a:1", ""}}, {"b", {"b:1", ""}}}};
  EXPECT_EQ((*ChooseContext(contexts, ""))->server, "a:1");
  EXPECT_EQ((*ChooseContext(contexts, "b"))->server, "b:1");
  EXPECT_FALSE(ChooseContext(contexts, "c").ok());
  EXPECT_EQ(*ChooseContext({}, ""), std::nullopt);
}

TEST(ContextsTest, NamesHaveOnlyPlainCharacters) {
  EXPECT_TRUE(CheckContextName("prod-1_a.B").ok());
  for (const std::string& name : {std::string(), std::string("a b"), std::string(64, 'a')})
    EXPECT_FALSE(CheckContextName(name).ok()) << name;
}

}  // namespace contexts_test
}  // namespace escapement::escctl
