// JSON of users and of other systems. It may be nested kJsonDepthMax deep, because nlohmann's
// writer and what walks over the values recurse.
//
// Pure.

#ifndef COMMON_BASE_BOUNDED_JSON_H_
#define COMMON_BASE_BOUNDED_JSON_H_

#include <cstddef>

#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace escapement {

inline constexpr size_t kJsonDepthMax = 64;

// A discarded value (is_discarded) if the text is not JSON, or nested deeper than `depth_max`.
// `watch`: as in nlohmann::json::parse.
nlohmann::json ParseBoundedJson(absl::string_view text, size_t depth_max = kJsonDepthMax,
                                const nlohmann::json::parser_callback_t& watch = nullptr);

// Takes the number of JSON (RFC 8259, 6) that `text` begins with. False if there is none, or if
// another digit follows its 0; then what is left of the text is not defined.
bool TakeJsonNumber(absl::string_view& text);

}  // namespace escapement

#endif  // COMMON_BASE_BOUNDED_JSON_H_
