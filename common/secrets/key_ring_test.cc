#include <fstream>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/secrets/sealed_value.h"
#include "gtest/gtest.h"

namespace escapement {
namespace key_ring_test {

std::string KeyText(char fill) { return absl::Base64Escape(std::string(kSealingKeyBytes, fill)); }

std::string ErrorOf(absl::string_view text) {
  const auto ring = KeyRing::Parse(text, "keys");
  EXPECT_TRUE(absl::IsInvalidArgument(ring.status())) << text;
  return std::string(ring.status().message());
}

TEST(KeyRing, FirstKeyIsTheCurrentOne) {
  const auto ring =
      KeyRing::Parse(absl::StrCat("# keys\n\n new: ", KeyText('b'), " \r\nold:", KeyText('a')), "");
  ASSERT_TRUE(ring.ok()) << ring.status();
  EXPECT_EQ(ring->current().id, "new");
  EXPECT_EQ(ring->current().bytes.Reveal(), std::string(kSealingKeyBytes, 'b'));
  EXPECT_EQ(ring->Find("old")->bytes.Reveal(), std::string(kSealingKeyBytes, 'a'));
  EXPECT_EQ(ring->Find("older"), nullptr);
}

TEST(KeyRing, NamesThePlaceOfAnError) {
  EXPECT_EQ(ErrorOf("\nabc"), "keys:2: the line must be `id: key`");
  EXPECT_EQ(ErrorOf("A: b"), "keys:1: the id must be 1 to 32 of a-z, 0-9, '-', '_', '.'");
  EXPECT_EQ(ErrorOf(absl::StrCat(std::string(33, 'a'), ": ", KeyText('a'))),
            "keys:1: the id must be 1 to 32 of a-z, 0-9, '-', '_', '.'");
  EXPECT_EQ(ErrorOf("# nothing"), "keys has no key");
  EXPECT_EQ(ErrorOf(absl::StrCat("a: ", KeyText('a'), "\na: ", KeyText('b'))),
            "keys:2: an earlier line has the same id");
  EXPECT_EQ(ErrorOf(absl::StrCat("a: ", KeyText('a'), "\nb: ", KeyText('a'))),
            "keys:2: an earlier line has the same key");
}

TEST(KeyRing, RefusesKeysOfOtherSizesAndForms) {
  const std::string wrong = "keys:1: the key must be the base64 text of 32 bytes";
  EXPECT_EQ(ErrorOf("a:"), wrong);
  EXPECT_EQ(ErrorOf(absl::StrCat("a: ", absl::Base64Escape(std::string(31, 'k')))), wrong);
  EXPECT_EQ(ErrorOf(absl::StrCat("a: ", absl::Base64Escape(std::string(33, 'k')))), wrong);
  std::string text = KeyText('a');
  text.pop_back();  // without padding
  EXPECT_EQ(ErrorOf(absl::StrCat("a: ", text)), wrong);
  text.back() = 'F';  // the unused bits are not zero
  EXPECT_EQ(ErrorOf(absl::StrCat("a: ", text, "=")), wrong);
}

TEST(KeyRing, ErrorsNeverQuoteTheKey) {
  const std::string secret = absl::StrCat(KeyText('x'), "x");
  for (const std::string& line : {secret, absl::StrCat("a: ", secret), absl::StrCat(secret, ": a")})
    EXPECT_FALSE(absl::StrContains(ErrorOf(line), secret.substr(0, 8))) << line;
}

TEST(KeyRing, LimitsTheNumberOfKeys) {
  std::string text;
  for (size_t i = 0; i <= kSealingKeysMax; ++i)
    absl::StrAppend(&text, "k", i, ": ", KeyText(static_cast<char>(i)), "\n");
  EXPECT_EQ(ErrorOf(text), "keys:101: there are more than 100 keys");
}

TEST(KeyRing, LoadsAFile) {
  const std::string path = absl::StrCat(testing::TempDir(), "/keys");
  std::ofstream(path) << "a: " << KeyText('a') << "\n";
  EXPECT_EQ(KeyRing::Load(path)->current().id, "a");
  EXPECT_FALSE(KeyRing::Load(absl::StrCat(path, "-missing")).ok());
}

}  // namespace key_ring_test
}  // namespace escapement
