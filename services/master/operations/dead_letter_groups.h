// Dead letters in groups of one schedule and one error: LetterGroups counts them,
// ListDeadLetterGroupsOf reads those of a time from the store.

#ifndef SERVICES_MASTER_OPERATIONS_DEAD_LETTER_GROUPS_H_
#define SERVICES_MASTER_OPERATIONS_DEAD_LETTER_GROUPS_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "escapement/v1/dead_letter_service.pb.h"
#include "services/master/api/master_apis.h"
#include "services/master/base/limits.h"
#include "services/master/base/master_context.h"
#include "services/master/operations/dead_letter_list.h"

namespace escapement::master {

// Which dead letters are grouped.
struct LetterGroupsQuery {
  std::string tenant;
  std::string filter;             // as in the request
  DeadLetterSelection selection;  // selects the dead letters of the filter
  absl::Time start, end;          // whole microseconds; `start` is before `end`
};

// INVALID_ARGUMENT with every wrong field: also with a filter to which a group's conditions cannot
// be added within the bounds of filters. `now`: the default of end_time.
absl::StatusOr<LetterGroupsQuery> ReadLetterGroups(const v1::ListDeadLetterGroupsRequest& request,
                                                   absl::string_view tenant, absl::Time now);

// LetterGroups: counts dead letters by schedule and error, at most kLetterGroupsCounted groups.
//
// Pure. Threads: one.
class LetterGroups {
 public:
  // The time [start, end) has kLetterGroupParts parts.
  LetterGroups(absl::Time start, absl::Time end) : start_(start), end_(end) {}

  // Counts a dead letter of the time. The newest comes first.
  void Add(const StoredDeadLetter& letter);

  // The largest groups first; among equal ones, the one that failed last. `complete`: all dead
  // letters of the time have been added.
  v1::ListDeadLetterGroupsResponse Answer(const LetterGroupsQuery& query, bool complete) const;

 private:
  // The schedule as filters have it (empty: one-off events), and the error.
  using Key = std::pair<std::string, std::string>;
  struct Group {
    int64_t count = 0;
    absl::Time first, last;
    std::array<uint32_t, kLetterGroupParts> parts = {};
    std::string latest;    // the name of the last dead letter
    std::string schedule;  // its name
  };

  void Show(const LetterGroupsQuery& query, const Key& key, const Group& group,
            v1::DeadLetterGroup& shown) const;

  const absl::Time start_, end_;
  std::map<Key, Group> groups_;
  bool left_out_ = false;  // there are more groups than are counted
};

// ListDeadLetterGroups. Examines at most kDeadLetterCountRowsMax dead letters with
// kDeadLetterCountBytesMax bytes, the newest first.
//
// Threads: the callback runs on the context's executor, which no step holds for longer than
// kGroupedLettersAtOnce dead letters take.
void ListDeadLetterGroupsOf(MasterContext& context, LetterGroupsQuery query,
                            Done<v1::ListDeadLetterGroupsResponse> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_OPERATIONS_DEAD_LETTER_GROUPS_H_
