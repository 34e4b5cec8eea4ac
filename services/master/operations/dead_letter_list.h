// Dead letters: a row (StoredDeadLetter) and how users see it, which rows a call means
// (DeadLetterSelection), and their lists and counts.

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
#include "common/storage/name_tables.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/dead_letter_service.pb.h"
#include "services/master/api/master_apis.h"
#include "services/master/base/master_context.h"
#include "services/master/requests/list_filter.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {

// Dead letters as shown to users. Pure.

// One row of `dead_letters`, as it is stored.
struct StoredDeadLetter {
  std::string key;
  std::string bytes;
  DeadLetterName name;
  storage::v1::DeadLetterRecord record;
};

// DATA_LOSS if the row cannot be read.
absl::StatusOr<StoredDeadLetter> ReadDeadLetter(std::string key, std::string bytes);

// The run of an event of a schedule.
RunName RunOf(const StoredDeadLetter& letter);
// The full names as users see them. Empty: it is a one-off event, or has no policy.
std::string EventNameOf(const StoredDeadLetter& letter);
std::string ScheduleNameOf(const StoredDeadLetter& letter);
std::string PolicyNameOf(const StoredDeadLetter& letter);

// DeadLetterGroup.error of this reason: every run of digits as one "#", at most
// kLetterErrorCharsMax characters. It has no control characters, so a filter can name it.
std::string ErrorOf(absl::string_view reason);

// `retention`: how long dead letters are kept. Without payload.
v1::DeadLetter ShowDeadLetter(const StoredDeadLetter& letter, absl::Duration retention);

// The event as it waits for its next attempt; `row` is its new row. Without payload.
v1::Event ShowRedriven(const StoredDeadLetter& letter, const storage::v1::EventRecord& row);

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
  ListFilter filter_;
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
