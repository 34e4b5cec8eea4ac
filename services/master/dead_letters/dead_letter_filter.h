// The `filter` of ListDeadLetters and of operations on dead letters.
//
// Pure.

#ifndef SERVICES_MASTER_DEAD_LETTERS_DEAD_LETTER_FILTER_H_
#define SERVICES_MASTER_DEAD_LETTERS_DEAD_LETTER_FILTER_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/filter/filter.h"
#include "escapement/v1/dead_letter_service.pb.h"

namespace escapement::master {

class DeadLetterFilter {
 public:
  // Every dead letter.
  DeadLetterFilter() = default;
  // INVALID_ARGUMENT (filter). Ids are those of the tenant's resources.
  static absl::StatusOr<DeadLetterFilter> Read(absl::string_view text, absl::string_view tenant);

  bool always() const { return filter_.always(); }
  bool Matches(const v1::DeadLetter& letter) const;

  // Every dead letter that matches has its create_time in [begin, end).
  absl::Time begin() const { return times_.begin; }
  absl::Time end() const { return times_.end; }

 private:
  Filter filter_;
  FilterTimes times_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_DEAD_LETTERS_DEAD_LETTER_FILTER_H_
