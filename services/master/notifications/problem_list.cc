#include "services/master/notifications/problem_list.h"

#include <algorithm>

#include "common/base/proto_time.h"
#include "services/master/base/limits.h"

namespace escapement::master {

using google::protobuf::RepeatedPtrField;
using storage::v1::ProblemRecord;

ProblemList::ProblemList(const RepeatedPtrField<ProblemRecord>& records) {
  for (const ProblemRecord& record : records) {
    problems_.emplace(std::pair(record.schedule_id(), record.kind()), record);
    if (record.ended_micros() == 0) ++lasting_;
  }
}

void ProblemList::Add(absl::string_view schedule, Kind kind, const Evidence& evidence) {
  const auto key = std::pair(std::string(schedule), static_cast<uint32_t>(kind));
  const bool lasts = Find(schedule, kind) != nullptr;
  if (!lasts && lasting_ >= kProblemsMax) return;
  if (!lasts) ++lasting_;
  ProblemRecord& problem = problems_[key];
  if (problem.count() == 0 || problem.ended_micros() != 0) {
    const int64_t notified = problem.notify_micros();
    problem.Clear();
    problem.set_notify_micros(notified);
    problem.set_begin_micros(ToMicros(evidence.first));
  }
  problem.set_schedule_id(key.first);
  problem.set_kind(key.second);
  problem.set_count(problem.count() + evidence.count);
  problem.set_begin_micros(std::min(problem.begin_micros(), ToMicros(evidence.first)));
  if (ToMicros(evidence.last) < problem.last_micros()) return;
  problem.set_last_micros(ToMicros(evidence.last));
  problem.set_resource(evidence.resource);
  problem.set_detail(evidence.detail);
}

void ProblemList::End(absl::string_view schedule, Kind kind, absl::Time now) {
  const auto problem =
      problems_.find(std::pair(std::string(schedule), static_cast<uint32_t>(kind)));
  if (problem == problems_.end() || problem->second.ended_micros() != 0) return;
  problem->second.set_ended_micros(ToMicros(now));
  --lasting_;
}

void ProblemList::Retain(absl::FunctionRef<bool(const ProblemRecord&)> keep) {
  std::erase_if(problems_, [&](const auto& problem) {
    if (keep(problem.second)) return false;
    if (problem.second.ended_micros() == 0) --lasting_;
    return true;
  });
}

const ProblemRecord* ProblemList::Find(absl::string_view schedule, Kind kind) const {
  const auto problem =
      problems_.find(std::pair(std::string(schedule), static_cast<uint32_t>(kind)));
  if (problem == problems_.end() || problem->second.ended_micros() != 0) return nullptr;
  return &problem->second;
}

bool ProblemList::Knows(absl::string_view schedule) const {
  const auto problem = problems_.lower_bound(std::pair(std::string(schedule), uint32_t{0}));
  return problem != problems_.end() && problem->first.first == schedule;
}

News ProblemList::TakeNews(absl::Time now) {
  News news;
  for (auto next = problems_.begin(); next != problems_.end();) {
    const auto entry = next++;
    ProblemRecord& problem = entry->second;
    const bool quiet = problem.notify_micros() != 0 &&
                       now < FromMicros(problem.notify_micros()) + kNotifyAgainAfter;
    if (problem.count() > problem.reported_count() && !quiet) {
      problem.set_reported(true);
      problem.set_reported_count(problem.count());
      problem.set_notify_micros(ToMicros(now));
      news.problems.push_back(problem);
    }
    if (problem.ended_micros() == 0) continue;
    if (problem.reported()) news.ended.push_back(problem);
    problem.set_reported(false);
    problem.set_reported_count(problem.count());
    if (now >= FromMicros(problem.notify_micros()) + kNotifyAgainAfter ||
        problems_.size() > 2 * kProblemsMax)
      problems_.erase(entry);
  }
  return news;
}

RepeatedPtrField<ProblemRecord> ProblemList::ToRecords() const {
  RepeatedPtrField<ProblemRecord> records;
  for (const auto& [key, problem] : problems_) *records.Add() = problem;
  return records;
}

}  // namespace escapement::master
