#include "common/rest/docs/docs_page.h"

namespace escapement::rest {

std::vector<DocsFile> DocsFiles() {
  return {{"/docs", "text/html; charset=utf-8", DocsPageHtml()},
          {"/docs/docs_page.css", "text/css; charset=utf-8", DocsPageCss()},
          {"/docs/docs_page.js", "text/javascript; charset=utf-8", DocsPageJs()}};
}

}  // namespace escapement::rest
