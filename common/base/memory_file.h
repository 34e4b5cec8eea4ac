// MemoryFile: a file that exists only in memory, for libraries that read a secret from a path.
//
// Threads: one at a time. Other threads may read the path at any time.

#ifndef COMMON_BASE_MEMORY_FILE_H_
#define COMMON_BASE_MEMORY_FILE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace escapement {

class MemoryFile {
 public:
  explicit MemoryFile(absl::string_view text);
  // Ends the file, except for those who have opened it.
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  // Opens in this process only. If the kernel gave no file, it does not open at all.
  std::string path() const;

  // Gives the path a new file in one step: whoever opens it finds the old or the new text. False:
  // the old text stays.
  bool Replace(absl::string_view text);

 private:
  const int fd_;
};

}  // namespace escapement

#endif  // COMMON_BASE_MEMORY_FILE_H_
