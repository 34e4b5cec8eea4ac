// The `filter` of ListDeadLetters and of operations on dead letters.
//
// Pure.

#ifndef SERVICES_MASTER_OPERATIONS_DEAD_LETTER_LIST_H_
#define SERVICES_MASTER_OPERATIONS_DEAD_LETTER_LIST_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/filter/filter.h"
#include "escapement/v1/dead_letter_service.pb.h"
#include "services/master/api/master_apis.h"
#include "services/master/base/master_context.h"
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

// DeadLetterSelection: which dead letters of a tenant a call means, by a filter and a run.
//
// Pure.

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

// ListDeadLetters, and the count of dead letters: both read the index by time and examine one dead
// letter after the other.
//
// Threads: callbacks run on the context's executor.

struct DeadLetterListQuery {
  DeadLetterSelection selection;
  bool newest_first = true;
  std::string begin, end;  // keys of the rest of the list
  size_t page_size = 0;
  absl::Duration retention;
  std::string list;  // for page tokens
};
void ListDeadLettersOf(MasterContext& context, DeadLetterListQuery query,
                       Done<v1::ListDeadLettersResponse> done);

struct DeadLetterCount {
  uint64_t count = 0;
  bool more = false;                // a bound was reached
  std::vector<std::string> sample;  // names of the first ones, at most kPurgeSampleMax
  // The store's time of the count. Every dead letter that was there has this time or an earlier
  // one.
  absl::Time store_time;
};
void CountDeadLetters(MasterContext& context, DeadLetterSelection selection,
                      absl::AnyInvocable<void(absl::StatusOr<DeadLetterCount>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_OPERATIONS_DEAD_LETTER_LIST_H_
