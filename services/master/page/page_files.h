// The files of the page (//web), joined and packed by gzip at build time.

#ifndef SERVICES_MASTER_PAGE_PAGE_FILES_H_
#define SERVICES_MASTER_PAGE_PAGE_FILES_H_

#include <vector>

#include "absl/strings/string_view.h"

namespace escapement::master {

struct PageFile {
  absl::string_view path;  // "app.js"
  absl::string_view content_type;
  absl::string_view gzip;
};

// Any thread.
const std::vector<PageFile>& PageFiles();

// 16 hex digits that follow from the bytes of all files.
absl::string_view PageVersion();

}  // namespace escapement::master

#endif  // SERVICES_MASTER_PAGE_PAGE_FILES_H_
