// The `filter` of ListDeadLetters and of operations on dead letters.
//
// Pure.

#ifndef SERVICES_MASTER_OPERATIONS_DEAD_LETTER_FILTER_H_
#define SERVICES_MASTER_OPERATIONS_DEAD_LETTER_FILTER_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/filter/filter.h"
#include "services/master/operations/dead_letter_codec.h"

namespace escapement::master {

class DeadLetterFilter {
 public:
  // Every dead letter.
  DeadLetterFilter() = default;
  // INVALID_ARGUMENT (filter). Ids are those of the tenant's resources.
  static absl::StatusOr<DeadLetterFilter> Read(absl::string_view text, absl::string_view tenant);

  // Makes only those texts of the letter that the filter compares.
  bool Matches(const StoredDeadLetter& letter) const;

  // Every dead letter that matches has its create_time in [begin, end).
  absl::Time begin() const { return times_.begin; }
  absl::Time end() const { return times_.end; }

 private:
  Filter filter_;
  FilterTimes times_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_OPERATIONS_DEAD_LETTER_FILTER_H_
