// The OpenAPI 3.1 document of the public API, which the build makes (BUILD.bazel).

#ifndef COMMON_REST_DOCS_OPENAPI_JSON_H_
#define COMMON_REST_DOCS_OPENAPI_JSON_H_

#include "absl/strings/string_view.h"

namespace escapement::rest {

// JSON (application/json). Any thread.
absl::string_view OpenApiJson();

}  // namespace escapement::rest

#endif  // COMMON_REST_DOCS_OPENAPI_JSON_H_
