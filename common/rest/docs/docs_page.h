// The page at /docs: it shows the OpenAPI document and needs no network beyond this server.
//
// Nothing is inline, so the page works under "Content-Security-Policy: default-src 'self'".

#ifndef COMMON_REST_DOCS_DOCS_PAGE_H_
#define COMMON_REST_DOCS_DOCS_PAGE_H_

#include <vector>

#include "absl/strings/string_view.h"

namespace escapement::rest {

absl::string_view DocsPageHtml();
absl::string_view DocsPageCss();
absl::string_view DocsPageJs();

struct DocsFile {
  absl::string_view path;  // "/docs/docs_page.css"
  absl::string_view content_type;
  absl::string_view body;
};

// The page and its files. The page also fetches /openapi.json. Any thread.
std::vector<DocsFile> DocsFiles();

// The OpenAPI 3.1 document of the public API, which the build makes (BUILD.bazel).

// JSON (application/json). Any thread.
absl::string_view OpenApiJson();

}  // namespace escapement::rest

#endif  // COMMON_REST_DOCS_DOCS_PAGE_H_
