#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/bench/raw/raw_limits.h"

namespace escapement::bench {
namespace {

constexpr absl::Duration kEvery = absl::Milliseconds(20);
constexpr size_t kBytes = 4096;

}  // namespace

fixtures::LatencyHistogram RawSyncs(const std::string& folder, absl::Duration duration) {
  fixtures::LatencyHistogram took;
  const std::string path = absl::StrCat(folder, "/raw-sync");
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return took;
  const absl::Cleanup close_it = [&] {
    close(file);
    unlink(path.c_str());
  };
  const std::string block(kBytes, 's');
  const auto write_and_sync = [&] {
    return pwrite(file, block.data(), block.size(), 0) == static_cast<ssize_t>(block.size()) &&
           fdatasync(file) == 0;
  };
  if (!write_and_sync()) return took;  // allocates the file's space
  const absl::Time end = absl::Now() + duration;
  for (absl::Time at = absl::Now(); at < end; at = std::max(at + kEvery, absl::Now())) {
    absl::SleepFor(at - absl::Now());
    const absl::Time begin = absl::Now();
    if (!write_and_sync()) return took;
    took.Add(absl::ToInt64Microseconds(absl::Now() - begin));
  }
  return took;
}

}  // namespace escapement::bench
