#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/rest/json_bytes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/master/page/page_door.h"

namespace escapement::master {
namespace page_files_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string TextOf(const PageFile& file) {
  const auto text = rest::Gunzipped(file.gzip, 4 << 20);
  EXPECT_TRUE(text.ok()) << file.path << ": " << text.status();
  return text.ok() ? *text : "";
}

TEST(PageFilesTest, TogetherAreSmall) {
  size_t bytes = 0;
  for (const PageFile& file : PageFiles()) bytes += file.gzip.size();
  RecordProperty("bytes", static_cast<int>(bytes));
  EXPECT_LE(bytes, 120u * 1000) << "the page's weight";
}

TEST(PageFilesTest, IndexNamesFilesOfThisVersion) {
  for (const PageFile& file : PageFiles()) {
    if (file.path != "index.html") continue;
    const std::string text = TextOf(file);
    for (const char* name : {"app.js", "page.css"})
      EXPECT_THAT(text, HasSubstr(absl::StrCat("/ui/files/", PageVersion(), "/", name)));
    EXPECT_THAT(text, Not(HasSubstr("VERSION")));
  }
}

// tests/page/sources_test.sh looks at the modules of the page.
TEST(PageFilesTest, NothingComesFromElsewhereAndNothingIsInline) {
  std::set<std::string> paths;
  for (const PageFile& file : PageFiles()) {
    paths.insert(std::string(file.path));
    const std::string text = TextOf(file);
    for (const char* bad : {"eval(", "new Function", "document.write", "sourceMappingURL",
                            "from \"http", "from\"http", "src=\"http", "url(http"})
      EXPECT_THAT(text, Not(HasSubstr(bad))) << file.path;
    if (file.path == "index.html") {
      for (const char* bad : {"<style", " style=", "<script>"})
        EXPECT_THAT(text, Not(HasSubstr(bad)));
    }
  }
  EXPECT_THAT(paths, ElementsAre("app.js", "index.html", "js-yaml.js", "page.css", "uPlot.esm.js"));
}

}  // namespace page_files_test
}  // namespace escapement::master
