// ProblemList: the problems of one subscription, and which of them a message reports.
//
// A check adds evidence of problems and says which have ended. TakeNews then gives what one message
// reports, by these rules:
//  - A problem with new evidence is reported at once, unless it was reported less than
//    kNotifyAgainAfter ago. Then it is reported when that time is over, if it lasts.
//  - The end of a problem is reported if the problem was reported since it began last.
// So a problem that comes and goes is reported at most once in kNotifyAgainAfter.
//
// Pure.

#ifndef SERVICES_MASTER_NOTIFICATIONS_PROBLEM_LIST_H_
#define SERVICES_MASTER_NOTIFICATIONS_PROBLEM_LIST_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "escapement/storage/v1/notification_records.pb.h"
#include "escapement/v1/notification_service.pb.h"

namespace escapement::master {

// Runs or one-off events that have a problem.
struct Evidence {
  absl::Time first, last;  // as Problem.begin_time and last_time
  uint64_t count = 1;
  std::string resource = {};  // the last one
  std::string detail = {};    // the error of the last one
};

// The contents of one message.
struct News {
  std::vector<storage::v1::ProblemRecord> problems;
  std::vector<storage::v1::ProblemRecord> ended;

  bool empty() const { return problems.empty() && ended.empty(); }
};

class ProblemList {
 public:
  using Kind = v1::Subscription::Kind;

  explicit ProblemList(
      const google::protobuf::RepeatedPtrField<storage::v1::ProblemRecord>& records);

  // `schedule`: its id; empty: one-off events. Without effect if kProblemsMax others last.
  void Add(absl::string_view schedule, Kind kind, const Evidence& evidence);
  // The problem has ended. Without effect if there is none.
  void End(absl::string_view schedule, Kind kind, absl::Time now);
  // Forgets the problems for which `keep` is false.
  void Retain(absl::FunctionRef<bool(const storage::v1::ProblemRecord&)> keep);

  // The problem, if there is one that lasts; else null.
  const storage::v1::ProblemRecord* Find(absl::string_view schedule, Kind kind) const;
  // True if it remembers any problem of the schedule.
  bool Knows(absl::string_view schedule) const;

  // The problems that it gives count as reported at `now`. Forgets those that have ended and of
  // which nothing is left to report.
  News TakeNews(absl::Time now);

  // By schedule and kind.
  google::protobuf::RepeatedPtrField<storage::v1::ProblemRecord> ToRecords() const;

 private:
  std::map<std::pair<std::string, uint32_t>, storage::v1::ProblemRecord> problems_;
  size_t lasting_ = 0;  // number of those that have not ended
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_NOTIFICATIONS_PROBLEM_LIST_H_
