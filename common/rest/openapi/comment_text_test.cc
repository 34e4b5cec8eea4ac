#include "common/rest/openapi/openapi_document.h"
#include "gtest/gtest.h"

namespace escapement::rest {
namespace comment_text_test {

TEST(CommentText, JoinsTheLinesOfAParagraph) {
  EXPECT_EQ(CommentText(" Fires at\n the instant.\n"), "Fires at the instant.");
  EXPECT_EQ(CommentText(""), "");
  EXPECT_EQ(CommentText("\n\n First.\n\n\n Second\n half.\n"), "First.\n\nSecond half.");
}

TEST(CommentText, ListItemsKeepTheirLines) {
  EXPECT_EQ(CommentText(" Rules:\n - one\n   of two\n - two\n\n End.\n"),
            "Rules:\n- one of two\n- two\n\nEnd.");
}

TEST(SaysRequired, NeedsTheSentence) {
  EXPECT_TRUE(SaysRequired("Required."));
  EXPECT_TRUE(SaysRequired("tenants/{tenant}. Required. The parent."));
  EXPECT_TRUE(SaysRequired("A list.\n\nRequired."));
  EXPECT_FALSE(SaysRequired("Required for one-off events."));
  EXPECT_FALSE(SaysRequired("Not Required."));
  EXPECT_FALSE(SaysRequired(""));
}

TEST(SaysOutputOnly, LooksAtTheBeginning) {
  EXPECT_TRUE(SaysOutputOnly("Output only. When it ended."));
  EXPECT_FALSE(SaysOutputOnly("Its output only."));
}

}  // namespace comment_text_test
}  // namespace escapement::rest
