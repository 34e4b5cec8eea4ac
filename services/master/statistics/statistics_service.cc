#include "services/master/statistics/statistics_service.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/kv/group_parts.h"
#include "common/statistics/minute_sums.h"
#include "common/status/errors.h"
#include "common/storage/statistics_table.h"
#include "escapement/storage/v1/statistics_records.pb.h"
#include "services/master/base/errors.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {
namespace {

constexpr int64_t kMinutesOfHour = 60;
constexpr absl::Duration kDefaultTime = absl::Hours(1);
// Rows of one turn of the executor. Each has up to 60 minutes, so a turn takes about a millisecond.
constexpr uint32_t kRowsOfTurn = 100;

int64_t FloorDiv(int64_t value, int64_t by) { return value / by - (value % by < 0 ? 1 : 0); }

void ReadSubject(const v1::ListStatisticsRequest& request, const std::string& tenant,
                 StatisticsQuery& query, FieldViolations& violations) {
  constexpr char kField[] = "subject";
  const std::string& subject = request.subject();
  std::string of_tenant = tenant;
  if (subject.empty()) {
    query.subject = TenantStatistics(tenant);
  } else if (absl::StrContains(subject, "/targets/")) {
    const absl::StatusOr<TargetName> name = ParseTargetName(subject, kField);
    if (!name.ok()) return violations.AddStatus("", name.status());
    of_tenant = name->tenant;
    query.of = StatisticsQuery::Of::kTarget;
    query.subject = TargetStatistics(name->tenant, name->target);
  } else if (absl::StrContains(subject, "/policies/")) {
    const absl::StatusOr<PolicyName> name = ParsePolicyName(subject, kField);
    if (!name.ok()) return violations.AddStatus("", name.status());
    of_tenant = name->tenant;
    query.of = StatisticsQuery::Of::kPolicy;
    query.subject = PolicyStatistics(name->tenant, name->policy);
  } else {
    violations.Add(kField, "must be empty, or the name of a policy or target");
  }
  if (of_tenant != tenant) violations.Add(kField, "must be of the tenant in parent");
}

void ReadTimes(const v1::ListStatisticsRequest& request, absl::Time now, StatisticsQuery& query,
               FieldViolations& violations) {
  const std::optional<int64_t> end =
      request.has_end_time() ? TimestampMicros(request.end_time()) : ToMicros(now);
  if (!end.has_value()) violations.Add("end_time", "must be a time");
  const int64_t usual = absl::ToInt64Microseconds(kDefaultTime);
  const std::optional<int64_t> start = request.has_start_time()
                                           ? TimestampMicrosDown(request.start_time())
                                           : end.value_or(usual) - usual;
  if (!start.has_value()) violations.Add("start_time", "must be a time");
  if (request.has_step()) {
    const std::optional<absl::Duration> step = ToDuration(request.step());
    if (!step.has_value() || *step < absl::Minutes(1) ||
        *step % absl::Minutes(1) != absl::ZeroDuration()) {
      return violations.Add("step", "must be whole minutes, at least one");
    }
    query.step = *step / absl::Minutes(1);
  }
  if (!end.has_value() || !start.has_value()) return;
  if (*end <= *start) return violations.Add("end_time", "must be after start_time");
  if (FloorDiv(*end - *start - 1, kMinuteMicros) / query.step >= kStatisticsStepsMax) {
    return violations.Add("step", absl::StrCat("must be longer: the time may have at most ",
                                               kStatisticsStepsMax, " steps"));
  }
  query.start = FloorDiv(*start, kMinuteMicros);
  query.end = FloorDiv(*end - 1, kMinuteMicros) + 1;
}

}  // namespace

absl::StatusOr<StatisticsQuery> ReadStatisticsQuery(const v1::ListStatisticsRequest& request,
                                                    absl::Time now) {
  StatisticsQuery query;
  ASSIGN_OR_RETURN(const std::string tenant, ParseTenantName(request.parent(), "parent"));
  FieldViolations violations;
  ReadSubject(request, tenant, query, violations);
  ReadTimes(request, now, query, violations);
  RETURN_IF_ERROR(violations.ToStatus());
  return query;
}

namespace {

void ShowSums(StatisticsQuery::Of of, const StatisticsSums& sums, v1::Statistics& shown) {
  if (of == StatisticsQuery::Of::kPolicy) {
    shown.set_held_count(static_cast<int64_t>(sums.held));
    shown.set_max_concurrent(static_cast<int64_t>(sums.max_concurrent));
    shown.set_waiting_count(static_cast<int64_t>(sums.waiting));
    return;
  }
  shown.set_late_count(static_cast<int64_t>(sums.late));
  SetDuration(sums.lateness_max_micros, *shown.mutable_lateness_max());
  shown.set_attempt_count(static_cast<int64_t>(sums.attempts));
  shown.set_error_count(static_cast<int64_t>(sums.errors));
  if (of == StatisticsQuery::Of::kTarget) return;
  shown.set_due_count(static_cast<int64_t>(sums.due));
  shown.set_succeeded_count(static_cast<int64_t>(sums.succeeded));
  shown.set_failed_count(static_cast<int64_t>(sums.failed));
  shown.set_other_count(static_cast<int64_t>(sums.others));
}

// Reads the rows of one subject, some in each turn, and adds them up.
class StatisticsReading : public std::enable_shared_from_this<StatisticsReading> {
 public:
  StatisticsReading(MasterContext& context, StatisticsQuery query,
                    Done<v1::ListStatisticsResponse> done)
      : context_(context), query_(std::move(query)), done_(std::move(done)) {
    const int64_t minutes = query_.end - query_.start;
    steps_.resize(static_cast<size_t>((minutes - 1) / query_.step + 1));
    const absl::Time oldest = context_.client.NowLow() - kStatisticsKeptFor;
    const int64_t first = std::max(query_.start, ToMicros(oldest) / kMinuteMicros);
    position_ = StatisticsKeyFrom(query_.subject, HourOf(first));
    end_ = StatisticsKeyFrom(query_.subject, HourOf(query_.end + kMinutesOfHour - 1));
  }

  void Step() {
    if (position_ >= end_) return Answer();
    kv::ScanRequest scan;
    scan.cf = kv::ColumnFamily::kPolicies;
    scan.begin = position_;
    scan.end = end_;
    scan.limit = kRowsOfTurn;
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this()](absl::StatusOr<kv::ScanResult> result) {
                           if (!result.ok()) return self->done_(StoreFailed(result.status()));
                           self->OnRows(*result);
                         });
  }

 private:
  static uint32_t HourOf(int64_t minute) {
    return static_cast<uint32_t>(std::clamp<int64_t>(FloorDiv(minute, kMinutesOfHour), 0,
                                                     std::numeric_limits<uint32_t>::max()));
  }

  void OnRows(const kv::ScanResult& result) {
    read_ += result.entries.size();
    if (read_ > kStatisticsReadMax) {
      return done_(FailedPrecondition("TOO_MANY_STATISTICS",
                                      "too many processes have counted: ask for a shorter time"));
    }
    for (const kv::Entry& entry : result.entries) {
      const std::optional<StatisticsRowName> name = DecodeStatisticsKey(entry.key);
      storage::v1::StatisticsRecord record;
      if (!name.has_value() || !record.ParseFromString(entry.value))
        return done_(BrokenRecord("statistics"));
      for (const storage::v1::MinuteRecord& minute : record.minutes())
        Add(int64_t{name->hour} * kMinutesOfHour + minute.minute(), minute);
    }
    if (!result.more || result.entries.empty()) return Answer();
    position_ = KeyAfter(result.entries.back().key);
    Step();
  }

  void Add(int64_t at, const storage::v1::MinuteRecord& minute) {
    if (at < query_.start || at >= query_.end) return;
    steps_[static_cast<size_t>((at - query_.start) / query_.step)].Add(SumsOf(minute));
  }

  void Answer() {
    v1::ListStatisticsResponse response;
    SetDuration(query_.step * kMinuteMicros, *response.mutable_step());
    int64_t at = query_.start;
    for (const StatisticsSums& sums : steps_) {
      v1::Statistics& shown = *response.add_statistics();
      SetTimestamp(at * kMinuteMicros, *shown.mutable_start_time());
      ShowSums(query_.of, sums, shown);
      at += query_.step;
    }
    done_(std::move(response));
  }

  MasterContext& context_;
  const StatisticsQuery query_;
  Done<v1::ListStatisticsResponse> done_;
  std::vector<StatisticsSums> steps_;
  std::string position_;
  std::string end_;
  size_t read_ = 0;
};

}  // namespace

void StatisticsService::ListStatistics(v1::ListStatisticsRequest request,
                                       Done<v1::ListStatisticsResponse> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  absl::StatusOr<StatisticsQuery> query = ReadStatisticsQuery(request, context_.client.NowLow());
  if (!query.ok()) return context_.Refuse(query.status(), std::move(done));
  auto reading = std::make_shared<StatisticsReading>(context_, *std::move(query), std::move(done));
  context_.executor->Post([reading = std::move(reading)] { reading->Step(); });
}

namespace {

std::optional<std::string> DeleteOldStatistics(const kv::ScanResult& page, absl::Time now,
                                               kv::Commit& commit) {
  const int64_t oldest = ToMicros(now - kStatisticsKeptFor) / kMinuteMicros;
  kv::Group& group = commit.groups.emplace_back();
  std::optional<std::string> kept;  // the subject of the last row, if it is kept
  for (const kv::Entry& entry : page.entries) {
    const std::optional<StatisticsRowName> name = DecodeStatisticsKey(entry.key);
    if (!name.has_value()) continue;  // a later version has written it
    const bool old = (int64_t{name->hour} + 1) * kMinutesOfHour <= oldest;
    if (old) group.mutations.push_back(kv::Delete(kv::ColumnFamily::kPolicies, entry.key));
    kept = old ? std::nullopt : std::make_optional(name->subject);
  }
  // The subject's further rows are newer. The page's other subjects need no read of their own.
  if (kept.has_value() && page.more) return PrefixEnd(*std::move(kept));
  return std::nullopt;
}

}  // namespace

std::vector<SweptRows> StatisticsSweep() {
  const std::string prefix = StatisticsPrefix();
  return {{.cf = kv::ColumnFamily::kPolicies,
           .range = {prefix, PrefixEnd(prefix)},
           .keys_only = true,
           .delete_old = &DeleteOldStatistics}};
}

}  // namespace escapement::master
