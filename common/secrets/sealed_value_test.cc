#include "common/secrets/sealed_value.h"

#include <set>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace escapement {
namespace sealed_value_test {

constexpr absl::string_view kPlace = "tenants/a/credentials/b";

std::string Line(absl::string_view id, char fill) {
  return absl::StrCat(id, ": ", absl::Base64Escape(std::string(kSealingKeyBytes, fill)), "\n");
}

Sealer SealerWith(absl::string_view lines) { return Sealer(*KeyRing::Parse(lines, "keys")); }

std::string Sealed(const Sealer& sealer, absl::string_view text) {
  return *sealer.Seal(SecretText(text), kPlace);
}

TEST(SealedValue, OpensToWhatWasSealed) {
  const Sealer sealer = SealerWith(Line("k1", 'a'));
  for (const std::string& text : {std::string("hunter2"), std::string(), std::string(70'000, 'x'),
                                  std::string("\0\xff", 2)}) {
    const std::string sealed = Sealed(sealer, text);
    EXPECT_EQ(sealed.size(), 2 + 2 + 12 + text.size() + 16);
    EXPECT_EQ(sealer.Open(sealed, kPlace)->Reveal(), text);
  }
}

// Made with Python's cryptography.hazmat.primitives.ciphers.aead.AESGCM, which uses OpenSSL as
// well; the vector keeps the format. Key "a" * 32, nonce "n" * 12, data "\1\2k1place", text
// "hunter2".
TEST(SealedValue, OpensAVectorThatPythonMade) {
  const std::string sealed =
      absl::StrCat("\1\2k1", std::string(12, 'n'),
                   absl::HexStringToBytes("bc9bf0b77c34064b41c319c7b447efbbe02a9a61bd6ff6"));
  EXPECT_EQ(SealerWith(Line("k1", 'a')).Open(sealed, "place")->Reveal(), "hunter2");
}

TEST(SealedValue, EqualSecretsAtOnePlaceHaveEqualValues) {
  const Sealer sealer = SealerWith(Line("k1", 'a'));
  EXPECT_EQ(Sealed(sealer, "x"), Sealed(sealer, "x"));
  EXPECT_EQ(*Sealer::Mark(Sealed(sealer, "x")), *Sealer::Mark(Sealed(sealer, "x")));
}

TEST(SealedValue, NoncesDifferByTextPlaceAndKey) {
  const Sealer sealer = SealerWith(Line("k1", 'a'));
  std::set<std::string> nonces;
  const auto add = [&nonces](const std::string& sealed) { nonces.insert(sealed.substr(4, 12)); };
  for (int i = 0; i < 1000; ++i) add(Sealed(sealer, absl::StrCat(i)));
  // The boundary between place and text counts.
  add(*sealer.Seal(SecretText("bc"), "a"));
  add(*sealer.Seal(SecretText("c"), "ab"));
  add(Sealed(SealerWith(Line("k1", 'b')), "0"));
  EXPECT_EQ(nonces.size(), 1003u);
}

// Made with Python: hmac(hmac("a" * 32, label), "23:tenants/a/credentials/bhunter2")[:12], SHA-256.
TEST(SealedValue, TheNonceIsTheOneThatPythonMakes) {
  EXPECT_EQ(absl::BytesToHexString(Sealed(SealerWith(Line("k1", 'a')), "hunter2").substr(4, 12)),
            "eeb15dfe0a2c34acb247a003");
}

TEST(SealedValue, HidesThePlaintext) {
  const std::string sealed = Sealed(SealerWith(Line("k1", 'a')), "hunter2hunter2");
  EXPECT_FALSE(absl::StrContains(sealed, "hunter"));
}

TEST(SealedValue, EachChangedBitIsDetected) {
  const Sealer sealer = SealerWith(Line("k1", 'a') + Line("k0", 'b'));
  const std::string sealed = Sealed(sealer, "hunter2");
  for (size_t bit = 0; bit < sealed.size() * 8; ++bit) {
    std::string changed = sealed;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ 1 << bit % 8);
    const auto opened = sealer.Open(changed, kPlace);
    ASSERT_FALSE(opened.ok()) << bit;
    EXPECT_FALSE(absl::StrContains(opened.status().message(), "hunter"));
  }
}

TEST(SealedValue, EachShorterOrLongerTextIsDetected) {
  const Sealer sealer = SealerWith(Line("k1", 'a'));
  const std::string sealed = Sealed(sealer, "hunter2");
  for (size_t size = 0; size < sealed.size(); ++size)
    EXPECT_TRUE(absl::IsDataLoss(sealer.Open(sealed.substr(0, size), kPlace).status())) << size;
  EXPECT_TRUE(absl::IsDataLoss(sealer.Open(sealed + "x", kPlace).status()));
}

TEST(SealedValue, DoesNotOpenAtAnotherPlace) {
  const Sealer sealer = SealerWith(Line("k1", 'a'));
  const std::string sealed = Sealed(sealer, "hunter2");
  EXPECT_TRUE(absl::IsDataLoss(sealer.Open(sealed, "tenants/b/credentials/b").status()));
  EXPECT_TRUE(absl::IsDataLoss(sealer.Open(sealed, "").status()));
}

TEST(SealedValue, DoesNotOpenWithAnotherKeyOfTheSameId) {
  const std::string sealed = Sealed(SealerWith(Line("k1", 'a')), "hunter2");
  EXPECT_TRUE(absl::IsDataLoss(SealerWith(Line("k1", 'b')).Open(sealed, kPlace).status()));
}

TEST(SealedValue, RotationReadsOldValuesAndNamesThem) {
  const std::string old_value = Sealed(SealerWith(Line("k1", 'a')), "hunter2");
  const Sealer rotated = SealerWith(Line("k2", 'b') + Line("k1", 'a'));
  EXPECT_EQ(*Sealer::KeyId(old_value), "k1");
  EXPECT_TRUE(rotated.NeedsResealing(old_value));
  const auto opened = rotated.Open(old_value, kPlace);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const std::string resealed = *rotated.Seal(*opened, kPlace);
  EXPECT_EQ(*Sealer::KeyId(resealed), "k2");
  EXPECT_FALSE(rotated.NeedsResealing(resealed));
  const Sealer later = SealerWith(Line("k2", 'b'));
  EXPECT_EQ(later.Open(resealed, kPlace)->Reveal(), "hunter2");
  EXPECT_TRUE(absl::IsFailedPrecondition(later.Open(old_value, kPlace).status()));
}

TEST(SealedValue, OtherBytesHaveNoKeyId) {
  const Sealer sealer = SealerWith(Line("k1", 'a'));
  for (const std::string& bytes : {std::string(), std::string("x"), std::string(100, '\0')}) {
    EXPECT_TRUE(absl::IsDataLoss(Sealer::KeyId(bytes).status()));
    EXPECT_FALSE(sealer.NeedsResealing(bytes));
  }
}

TEST(SealedValue, RefusesATextAboveTheBound) {
  const Sealer sealer = SealerWith(Line("k1", 'a'));
  const SecretText large = SecretText::OfSize(kSealedPlaintextBytesMax + 1);
  EXPECT_TRUE(absl::IsInvalidArgument(sealer.Seal(large, kPlace).status()));
}

}  // namespace sealed_value_test
}  // namespace escapement
