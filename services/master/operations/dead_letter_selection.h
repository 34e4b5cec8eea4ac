// DeadLetterSelection: which dead letters of a tenant a call means, by a filter and a run.
//
// Pure.

#ifndef SERVICES_MASTER_OPERATIONS_DEAD_LETTER_SELECTION_H_
#define SERVICES_MASTER_OPERATIONS_DEAD_LETTER_SELECTION_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/master/operations/dead_letter_codec.h"
#include "services/master/operations/dead_letter_filter.h"

namespace escapement::master {

class DeadLetterSelection {
 public:
  // `run`: the name of a run, or empty. INVALID_ARGUMENT (filter).
  static absl::StatusOr<DeadLetterSelection> Read(absl::string_view tenant,
                                                  absl::string_view filter, absl::string_view run);

  bool Has(const StoredDeadLetter& letter) const;

  // All dead letters that are selected have keys in [begin, end).
  const std::string& begin() const { return begin_; }
  const std::string& end() const { return end_; }

 private:
  std::string run_;
  DeadLetterFilter filter_;
  std::string begin_, end_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_OPERATIONS_DEAD_LETTER_SELECTION_H_
