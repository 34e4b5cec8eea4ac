#include "common/rest/docs/docs_page.h"

#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement::rest {
namespace docs_page_test {

using testing::HasSubstr;

std::string FileText(const std::string& name) {
  std::ifstream in(absl::StrCat("common/rest/docs/", name), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

TEST(EmbeddedText, HasTheBytesOfTheFile) {
  EXPECT_EQ(DocsPageHtml(), FileText("docs_page.html"));
  EXPECT_EQ(DocsPageCss(), FileText("docs_page.css"));
  EXPECT_EQ(DocsPageJs(), FileText("docs_page.js"));
  EXPECT_EQ(OpenApiJson(), FileText("openapi.json"));
  EXPECT_THAT(FileText("docs_page.html"), HasSubstr("…")) << "has bytes above 127";
}

TEST(DocsFiles, PageNamesEachOtherFile) {
  for (const DocsFile& file : DocsFiles()) {
    EXPECT_FALSE(file.body.empty()) << file.path;
    if (file.path == "/docs") continue;
    EXPECT_TRUE(absl::StrContains(DocsPageHtml(), absl::StrCat("\"", file.path, "\"")))
        << file.path;
  }
}

TEST(DocsFiles, PageHasNothingInlineAndNoOtherOrigin) {
  for (const char* text :
       {"<style", "style=", "<script>", " onclick", " onload", "//", "javascript:"})
    EXPECT_FALSE(absl::StrContains(DocsPageHtml(), text)) << text;
  EXPECT_FALSE(absl::StrContains(DocsPageCss(), "url("));
  for (const char* text : {"innerHTML", "insertAdjacentHTML", "eval(", "http:", "https:"})
    EXPECT_FALSE(absl::StrContains(DocsPageJs(), text)) << text;
}

}  // namespace docs_page_test
}  // namespace escapement::rest
