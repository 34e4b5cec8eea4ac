#include "services/master/page/page_files.h"

#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/rest/gzip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement::master {
namespace {

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
  EXPECT_LE(bytes, 200u * 1000) << "the page's weight";
}

TEST(PageFilesTest, IndexNamesOnlyFilesOfThisVersion) {
  std::set<std::string> paths;
  for (const PageFile& file : PageFiles()) paths.insert(std::string(file.path));
  for (const PageFile& file : PageFiles()) {
    if (file.path != "index.html") continue;
    const std::string text = TextOf(file);
    EXPECT_THAT(text, HasSubstr(absl::StrCat("/ui/files/", PageVersion(), "/app.js")));
    EXPECT_THAT(text, Not(HasSubstr("VERSION")));
    // Each module is named, so that the browser need not find them one after the other.
    for (const std::string& path : paths) {
      if (!absl::EndsWith(path, ".js") || path == "lib/yaml.js") continue;
      EXPECT_THAT(text, HasSubstr(absl::StrCat("/", path, "\""))) << path;
    }
  }
}

TEST(PageFilesTest, NothingComesFromElsewhereAndNothingIsInline) {
  for (const PageFile& file : PageFiles()) {
    if (absl::StartsWith(file.path, "lib/")) continue;
    const std::string text = TextOf(file);
    for (const char* bad : {"innerHTML", "dangerouslySetInnerHTML", "eval(", "new Function",
                            "document.write", "sourceMappingURL", "from 'http", "src=\"http"})
      EXPECT_THAT(text, Not(HasSubstr(bad))) << file.path;
    if (file.path == "index.html") {
      EXPECT_THAT(text, Not(HasSubstr("<style")));
      EXPECT_THAT(text, Not(HasSubstr(" style=")));
      EXPECT_THAT(text, Not(HasSubstr("<script>")));
    }
  }
}

}  // namespace
}  // namespace escapement::master
