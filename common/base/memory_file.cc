#include "common/base/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace escapement {

namespace {

// -1 if the kernel gives none.
int NewMemoryFile(absl::string_view text) {
  const int fd = memfd_create("certificates", MFD_CLOEXEC);
  while (fd >= 0 && !text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written <= 0) {
      close(fd);
      return -1;
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
  return fd;
}

}  // namespace

MemoryFile::MemoryFile(absl::string_view text) : fd_(NewMemoryFile(text)) {}

MemoryFile::~MemoryFile() {
  if (fd_ >= 0) close(fd_);
}

std::string MemoryFile::path() const { return absl::StrCat("/proc/self/fd/", fd_); }

bool MemoryFile::Replace(absl::string_view text) {
  const int next = fd_ < 0 ? -1 : NewMemoryFile(text);
  if (next < 0) return false;
  const bool replaced = dup3(next, fd_, O_CLOEXEC) == fd_;
  close(next);
  return replaced;
}

}  // namespace escapement
