#include "services/master/operations/dead_letter_selection.h"

#include <utility>

namespace escapement::master {

absl::StatusOr<DeadLetterSelection> DeadLetterSelection::Read(absl::string_view tenant,
                                                              absl::string_view filter,
                                                              absl::string_view run) {
  absl::StatusOr<DeadLetterFilter> read = DeadLetterFilter::Read(filter, tenant);
  if (!read.ok()) return read.status();
  DeadLetterSelection selection;
  selection.run_ = std::string(run);
  selection.begin_ = DeadLetterKeyFrom(tenant, read->begin());
  selection.end_ = DeadLetterKeyFrom(tenant, read->end());
  selection.filter_ = *std::move(read);
  return selection;
}

bool DeadLetterSelection::Has(const StoredDeadLetter& letter) const {
  if (!run_.empty() && (IsOneOff(letter.record) || RunOf(letter).ToString() != run_)) return false;
  return filter_.Matches(letter);
}

}  // namespace escapement::master
