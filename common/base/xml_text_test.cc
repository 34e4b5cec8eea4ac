#include "common/base/xml_text.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement {
namespace xml_text_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(XmlText, ElementsComeInOrder) {
  const char xml[] = "<All x=\"1\"><Part><Id>1</Id></Part><PartId/><Part></Part></All>";
  EXPECT_THAT(XmlElements(xml, "Part"), ElementsAre("<Id>1</Id>", ""));
  EXPECT_EQ(XmlText(xml, "Id"), "1");
  EXPECT_THAT(XmlElements(xml, "PartId"), IsEmpty());
  EXPECT_EQ(XmlText(xml, "PartId"), "");
}

TEST(XmlText, ReferencesAreResolved) {
  EXPECT_EQ(XmlText("<K>a&amp;&lt;&gt;&quot;&apos;&#13;&#xE9;&#x1F600;b</K>", "K"),
            "a&<>\"'\r\u00e9\U0001f600b");
  for (const char* text : {"&", "&;", "&x;", "&#;", "&#0;", "&#xZ;", "&#1114112;", "a & b"})
    EXPECT_EQ(XmlText(absl::StrCat("<K>", text, "</K>"), "K"), text);
}

TEST(XmlText, CutElementsAreNone) {
  for (const char* xml : {"", "<K", "<K>", "<K>text", "<K>text</K", "text</K>"})
    EXPECT_THAT(XmlElements(xml, "K"), IsEmpty()) << xml;
}

TEST(XmlText, EscapedTextReadsAsItWas) {
  const std::string text = "a&amp;<b>\"\"";
  EXPECT_EQ(XmlText(absl::StrCat("<K>", EscapeXml(text), "</K>"), "K"), text);
}

}  // namespace xml_text_test
}  // namespace escapement
