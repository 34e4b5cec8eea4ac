// The `filter` of ListRuns: conditions on state, nominal_time and complete_time.
//
// Pure.

#ifndef SERVICES_MASTER_RUNS_RUN_FILTER_H_
#define SERVICES_MASTER_RUNS_RUN_FILTER_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/filter/filter.h"
#include "escapement/v1/resources.pb.h"

namespace escapement::master {

class RunFilter {
 public:
  // Every run.
  RunFilter() = default;
  // INVALID_ARGUMENT (filter).
  static absl::StatusOr<RunFilter> Read(absl::string_view text);

  bool always() const { return filter_.always(); }
  bool Matches(const v1::Run& run) const;

  // Every run that matches has its nominal time in [begin, end).
  absl::Time begin() const { return begin_; }
  absl::Time end() const { return end_; }

 private:
  Filter filter_;
  absl::Time begin_ = absl::InfinitePast();
  absl::Time end_ = absl::InfiniteFuture();
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_RUNS_RUN_FILTER_H_
