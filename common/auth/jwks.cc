#include "common/auth/jwks.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/bounded_json.h"
#include "nlohmann/json.hpp"

namespace escapement::auth {

std::optional<std::string> DecodeBase64Url(absl::string_view text) {
  std::string bytes;
  if (!absl::WebSafeBase64Unescape(text, &bytes)) return std::nullopt;
  // The decoder also takes padding, blanks and unused bits.
  if (absl::WebSafeBase64Escape(bytes) != text) return std::nullopt;
  return bytes;
}

std::optional<nlohmann::json> ParseJoseObject(absl::string_view text) {
  // The parser would skip a byte order mark.
  if (text.empty() || text[0] == '\xef') return std::nullopt;
  bool has_name_twice = false;
  std::vector<std::set<std::string>> names;  // the names in each open object
  const auto watch = [&](int, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start) names.emplace_back();
    if (event == Event::object_end) names.pop_back();
    if (event == Event::key && !names.back().insert(parsed.get<std::string>()).second)
      has_name_twice = true;
    return true;
  };
  nlohmann::json value = ParseBoundedJson(text, kJoseDepthMax, watch);
  if (!value.is_object() || has_name_twice) return std::nullopt;
  return value;
}

const std::string* TextIn(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : found->get_ptr<const std::string*>();
}

namespace {

constexpr int kRsaBitsMin = 2048;
constexpr int kRsaBitsMax = 8192;  // a larger key would make each token expensive
constexpr size_t kRsaModulusBytesMax = kRsaBitsMax / 8;
constexpr size_t kRsaExponentBytesMax = 4;
constexpr size_t kP256Bytes = 32;

template <typename T, void (*kFree)(T*)>
struct Deleter {
  void operator()(T* object) const { kFree(object); }
};
using Number = std::unique_ptr<BIGNUM, Deleter<BIGNUM, BN_free>>;
using ParamBuilder = std::unique_ptr<OSSL_PARAM_BLD, Deleter<OSSL_PARAM_BLD, OSSL_PARAM_BLD_free>>;
using Params = std::unique_ptr<OSSL_PARAM, Deleter<OSSL_PARAM, OSSL_PARAM_free>>;
using KeyContext = std::unique_ptr<EVP_PKEY_CTX, Deleter<EVP_PKEY_CTX, EVP_PKEY_CTX_free>>;

std::optional<std::string> BytesIn(const nlohmann::json& jwk, const char* name) {
  const std::string* text = TextIn(jwk, name);
  return text == nullptr ? std::nullopt : DecodeBase64Url(*text);
}

// Null if OpenSSL refuses the values.
std::shared_ptr<EVP_PKEY> MakeKey(const char* type, OSSL_PARAM_BLD* builder) {
  const Params params(OSSL_PARAM_BLD_to_param(builder));
  const KeyContext context(EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr));
  EVP_PKEY* key = nullptr;
  if (params == nullptr || context == nullptr || EVP_PKEY_fromdata_init(context.get()) != 1 ||
      EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY, params.get()) != 1) {
    return nullptr;
  }
  return {key, EVP_PKEY_free};
}

Number NumberOf(const std::string& bytes) {
  return Number(BN_bin2bn(reinterpret_cast<const unsigned char*>(bytes.data()),
                          static_cast<int>(bytes.size()), nullptr));
}

std::shared_ptr<EVP_PKEY> RsaKey(const nlohmann::json& jwk) {
  const auto n = BytesIn(jwk, "n");
  const auto e = BytesIn(jwk, "e");
  if (!n.has_value() || !e.has_value() || n->size() > kRsaModulusBytesMax ||
      e->size() > kRsaExponentBytesMax) {
    return nullptr;
  }
  const Number modulus = NumberOf(*n);
  const Number exponent = NumberOf(*e);
  if (modulus == nullptr || exponent == nullptr || BN_num_bits(modulus.get()) < kRsaBitsMin ||
      BN_is_odd(modulus.get()) == 0 || BN_is_odd(exponent.get()) == 0 ||
      BN_is_one(exponent.get()) == 1) {
    return nullptr;
  }
  const ParamBuilder builder(OSSL_PARAM_BLD_new());
  if (builder == nullptr ||
      OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, modulus.get()) != 1 ||
      OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, exponent.get()) != 1) {
    return nullptr;
  }
  return MakeKey("RSA", builder.get());
}

std::shared_ptr<EVP_PKEY> P256Key(const nlohmann::json& jwk) {
  const std::string* curve = TextIn(jwk, "crv");
  const auto x = BytesIn(jwk, "x");
  const auto y = BytesIn(jwk, "y");
  if (curve == nullptr || *curve != "P-256" || !x.has_value() || x->size() != kP256Bytes ||
      !y.has_value() || y->size() != kP256Bytes) {
    return nullptr;
  }
  const std::string point = absl::StrCat("\x04", *x, *y);  // uncompressed
  const ParamBuilder builder(OSSL_PARAM_BLD_new());
  if (builder == nullptr ||
      OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, "P-256", 0) != 1 ||
      OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(),
                                       point.size()) != 1) {
    return nullptr;
  }
  std::shared_ptr<EVP_PKEY> key = MakeKey("EC", builder.get());
  if (key == nullptr) return nullptr;
  // The point must be on the curve.
  const KeyContext context(EVP_PKEY_CTX_new_from_pkey(nullptr, key.get(), nullptr));
  return context != nullptr && EVP_PKEY_public_check(context.get()) == 1 ? key : nullptr;
}

// True if the key may verify signatures.
bool IsForSignatures(const nlohmann::json& jwk) {
  if (jwk.contains("use")) {
    const std::string* use = TextIn(jwk, "use");
    if (use == nullptr || *use != "sig") return false;
  }
  const auto operations = jwk.find("key_ops");
  return operations == jwk.end() ||
         (operations->is_array() &&
          std::find(operations->begin(), operations->end(), "verify") != operations->end());
}

// nullopt: a key to skip.
std::optional<Jwk> ReadKey(const nlohmann::json& jwk) {
  if (!jwk.is_object() || !IsForSignatures(jwk)) return std::nullopt;
  // A private key: everybody who can read the set can sign with it.
  if (jwk.contains("d")) return std::nullopt;
  Jwk read;
  if (jwk.contains("kid")) {
    const std::string* kid = TextIn(jwk, "kid");
    if (kid == nullptr || kid->size() > kJwkIdBytesMax) return std::nullopt;
    read.kid = *kid;
  }
  const std::string* type = TextIn(jwk, "kty");
  if (type == nullptr || (*type != "RSA" && *type != "EC")) return std::nullopt;
  read.algorithm = *type == "RSA" ? JwtAlgorithm::kRs256 : JwtAlgorithm::kEs256;
  if (jwk.contains("alg")) {
    const std::string* algorithm = TextIn(jwk, "alg");
    if (algorithm == nullptr || *algorithm != (*type == "RSA" ? "RS256" : "ES256"))
      return std::nullopt;
  }
  read.key = *type == "RSA" ? RsaKey(jwk) : P256Key(jwk);
  if (read.key == nullptr) return std::nullopt;
  return read;
}

}  // namespace

absl::StatusOr<Jwks> Jwks::Parse(absl::string_view document) {
  if (document.size() > kJwksBytesMax)
    return absl::InvalidArgumentError("the key set has more than 1 MiB");
  const auto set = ParseJoseObject(document);
  if (!set.has_value() || !set->contains("keys") || !set->at("keys").is_array())
    return absl::InvalidArgumentError("it is not a JSON Web Key Set");
  const nlohmann::json& keys = set->at("keys");
  if (keys.size() > kJwksKeysMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("the key set has more than ", kJwksKeysMax, " keys"));
  }
  Jwks read;
  for (const nlohmann::json& jwk : keys) {
    if (std::optional<Jwk> key = ReadKey(jwk); key.has_value())
      read.keys_.push_back(*std::move(key));
  }
  ERR_clear_error();  // a TLS connection of this thread must not find the errors of skipped keys
  return read;
}

const Jwk* Jwks::Find(absl::string_view kid, JwtAlgorithm algorithm) const {
  const Jwk* found = nullptr;
  for (const Jwk& key : keys_) {
    if (key.algorithm != algorithm || (!kid.empty() && key.kid != kid)) continue;
    if (found != nullptr) return nullptr;
    found = &key;
  }
  return found;
}

}  // namespace escapement::auth
