#include "common/base/bounded_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace escapement {
namespace {

absl::Status CannotRead(const std::string& path, int error) {
  const std::string message = absl::StrCat("cannot read ", path, ": ", std::strerror(error));
  return error == ENOENT ? absl::NotFoundError(message) : absl::UnavailableError(message);
}

}  // namespace

absl::StatusOr<std::string> ReadBoundedFile(const std::string& path, size_t bytes_max) {
  // A pipe without a writer must not stop the process.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return CannotRead(path, errno);
  const auto closing = absl::MakeCleanup([fd] { close(fd); });
  // One byte more than allowed shows that the file is too large. The text never grows, so it leaves
  // no copy behind.
  std::string text(bytes_max + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = read(fd, text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return CannotRead(path, errno);
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  if (size > bytes_max)
    return absl::InvalidArgumentError(absl::StrCat(path, " has more than ", bytes_max, " bytes"));
  text.resize(size);
  return text;
}

}  // namespace escapement
