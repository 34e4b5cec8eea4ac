// The texts of JSON Web Tokens and JSON Web Keys, read strictly: each value has one form, so no
// other reader can understand a token differently.
//
// Pure functions.

#ifndef COMMON_AUTH_JOSE_TEXT_H_
#define COMMON_AUTH_JOSE_TEXT_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace escapement::auth {

// Objects and arrays within each other.
inline constexpr size_t kJoseDepthMax = 16;

// base64url as RFC 7515 has it: no padding, no other characters, unused bits zero. nullopt for
// other texts.
std::optional<std::string> DecodeBase64Url(absl::string_view text);

// A JSON object in UTF-8. nullopt: the text is something else, an object has a name twice, or
// values are nested deeper than kJoseDepthMax.
std::optional<nlohmann::json> ParseJoseObject(absl::string_view text);

// The string that the object has under this name; null if there is none.
const std::string* TextIn(const nlohmann::json& object, const char* name);

}  // namespace escapement::auth

#endif  // COMMON_AUTH_JOSE_TEXT_H_
