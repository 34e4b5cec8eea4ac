#include "tools/escctl/base/ingest_progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"

namespace escapement::escctl {
namespace {

constexpr absl::Duration kShowPause = absl::Milliseconds(200);
constexpr char kClear[] = "\r\x1b[K";  // to the beginning of the line; erase it

}  // namespace

std::string ProgressText(const IngestCounts& counts, absl::Duration elapsed) {
  const double seconds = std::max(absl::ToDoubleSeconds(elapsed), 0.001);
  const double answered = static_cast<double>(counts.created + counts.existing + counts.replaced +
                                              counts.cancelled + counts.refused) /
                          seconds;
  std::string taken_back;
  if (counts.replaced > 0) absl::StrAppend(&taken_back, counts.replaced, " replaced, ");
  if (counts.cancelled > 0) absl::StrAppend(&taken_back, counts.cancelled, " cancelled, ");
  return absl::StrCat(counts.created, " created, ", counts.existing, " existing, ", taken_back,
                      counts.refused, " refused, ", static_cast<int64_t>(answered), "/s");
}

ProgressLine::ProgressLine(absl::Time start)
    : visible_(isatty(STDERR_FILENO) == 1), start_(start) {}

void ProgressLine::Show(const IngestCounts& counts, absl::Time now) {
  if (visible_ && now - shown_ >= kShowPause) Write(counts, now);
}

void ProgressLine::End(const IngestCounts& counts, absl::Time now) {
  if (!visible_) return;
  Write(counts, now);
  std::fputs("\n", stderr);
}

void ProgressLine::Clear() {
  if (visible_) std::fputs(kClear, stderr);
}

void ProgressLine::Write(const IngestCounts& counts, absl::Time now) {
  shown_ = now;
  std::fprintf(stderr, "%s%s", kClear, ProgressText(counts, now - start_).c_str());
}

}  // namespace escapement::escctl
