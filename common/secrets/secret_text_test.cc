#include "common/secrets/secret_text.h"

#include <sstream>
#include <string>
#include <type_traits>
#include <utility>

#include "gtest/gtest.h"

namespace escapement {
namespace secret_text_test {

static_assert(!std::is_copy_constructible_v<SecretText>);
static_assert(!std::is_convertible_v<SecretText, std::string>);
static_assert(!std::is_convertible_v<SecretText, absl::string_view>);

TEST(SecretText, PrintsNoByteOfTheSecret) {
  const SecretText secret("hunter2");
  std::ostringstream out;
  out << secret;
  EXPECT_EQ(out.str(), "<secret>");
  EXPECT_EQ(testing::PrintToString(secret), "<secret>");
}

TEST(SecretText, StringifiesAsAPlaceholder) {
  struct Sink {
    void Append(absl::string_view bytes) { text.append(bytes.data(), bytes.size()); }
    std::string text;
  } sink;
  AbslStringify(sink, SecretText("hunter2"));
  EXPECT_EQ(sink.text, "<secret>");
}

TEST(SecretText, MoveLeavesNoCopyBehind) {
  SecretText first("hunter2");
  const char* const bytes = first.Reveal().data();
  SecretText second = std::move(first);
  EXPECT_EQ(second.Reveal().data(), bytes);
  EXPECT_TRUE(first.empty());  // NOLINT(bugprone-use-after-move)
  first = std::move(second);
  EXPECT_EQ(first.Reveal().data(), bytes);
}

TEST(SecretText, TakeFromWipesTheSource) {
  std::string text = "short";
  const SecretText secret = SecretText::TakeFrom(text);
  EXPECT_EQ(secret.Reveal(), "short");
  EXPECT_TRUE(text.empty());
  // A short text lies inside the string object itself.
  const std::string object(reinterpret_cast<const char*>(&text), sizeof(text));
  EXPECT_EQ(object.find("short"), std::string::npos);
}

TEST(SecretText, WipeTextReachesBytesBehindTheEnd) {
  std::string text = "hunter2hunter2";
  text.resize(1);
  WipeText(text);
  const std::string object(reinterpret_cast<const char*>(&text), sizeof(text));
  EXPECT_EQ(object.find("unter2"), std::string::npos);
}

TEST(SecretText, EqualsComparesAllBytes) {
  EXPECT_TRUE(SecretText("abc").Equals(SecretText("abc")));
  EXPECT_FALSE(SecretText("abc").Equals(SecretText("abd")));
  EXPECT_FALSE(SecretText("abc").Equals(SecretText("ab")));
  EXPECT_TRUE(SecretText().Equals(SecretText("")));
}

TEST(SecretText, CopyHoldsTheSameBytes) {
  const SecretText secret(absl::string_view("a\0b", 3));
  EXPECT_EQ(secret.Copy().Reveal(), absl::string_view("a\0b", 3));
}

}  // namespace secret_text_test
}  // namespace escapement
