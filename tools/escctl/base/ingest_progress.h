// The progress of `escctl event ingest`.

#ifndef TOOLS_ESCCTL_BASE_INGEST_PROGRESS_H_
#define TOOLS_ESCCTL_BASE_INGEST_PROGRESS_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace escapement::escctl {

// Numbers of events.
struct IngestCounts {
  int64_t created = 0;
  int64_t existing = 0;
  int64_t replaced = 0;  // by a line, or a line by a later one
  int64_t cancelled = 0;
  int64_t refused = 0;  // also those of refused batches
};

// "1200 created, 3 existing, 0 refused, 600/s"; also what is replaced or cancelled, if there is
// any.
std::string ProgressText(const IngestCounts& counts, absl::Duration elapsed);

// One line on stderr that is written again and again. Shows nothing unless stderr is a terminal.
class ProgressLine {
 public:
  explicit ProgressLine(absl::Time start);

  // At most a few times per second.
  void Show(const IngestCounts& counts, absl::Time now);
  // Shows the last state and ends the line.
  void End(const IngestCounts& counts, absl::Time now);
  // Removes the line, because something else is printed.
  void Clear();

 private:
  void Write(const IngestCounts& counts, absl::Time now);

  const bool visible_;
  const absl::Time start_;
  absl::Time shown_ = absl::InfinitePast();
};

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_BASE_INGEST_PROGRESS_H_
