#include <poll.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "tests/e2e/demo.h"

namespace escapement::e2e {
namespace {

using integration::ApiClient;
using integration::Platform;
using integration::ToTimestamp;

constexpr char kSources[] = "/tenants/default/schedules/time-";
constexpr absl::Duration kSlow = absl::Milliseconds(1500);
constexpr int kMissedSingly = 3;

int64_t MicrosOf(const google::protobuf::Timestamp& time) {
  return time.seconds() * 1'000'000 + time.nanos() / 1000;
}

class TimeRun {
 public:
  TimeRun(const TimePhase& options, Platform& platform, ApiClient& api, const Consumer& consumer)
      : options_(options), platform_(platform), api_(api), consumer_(consumer) {}

  absl::StatusOr<std::vector<Verdict>> Run() {
    RETURN_IF_ERROR(Create());
    RETURN_IF_ERROR(KillAndRestart());
    if (auto status = Await("time: the rest", end_, [this] { return Ended(); }); !status.ok())
      return status;
    std::vector<Verdict> verdicts;
    for (const Part& part : parts_) {
      ASSIGN_OR_RETURN(auto verdict, Judge(part));
      verdicts.push_back(std::move(verdict));
    }
    return verdicts;
  }

 private:
  struct Part {
    std::string what;
    std::string id;
    OccurrenceFacts facts;  // facts that are known in advance
  };

  v1::Schedule Within(const std::string& path) const {
    v1::Schedule schedule;
    *schedule.mutable_start_time() = ToTimestamp(start_);
    *schedule.mutable_end_time() = ToTimestamp(end_);
    *schedule.mutable_target() = integration::HttpTo(consumer_.http_uri(path));
    schedule.set_payload("{\"of\":\"time\"}");
    return schedule;
  }

  // The schedule's instants from start to end.
  std::set<int64_t> Every(absl::Duration step, absl::Duration offset = absl::ZeroDuration()) const {
    std::set<int64_t> instants;
    for (absl::Time time = start_ + offset; time < end_; time += step)
      instants.insert(absl::ToUnixMicros(time));
    return instants;
  }

  absl::Status CreatePart(Part part, const v1::Schedule& schedule) {
    const auto created = api_.CreateSchedule(part.id, schedule);
    parts_.push_back(std::move(part));
    return created.status();
  }

  absl::Status Create() {
    start_ = absl::FromUnixSeconds(absl::ToUnixSeconds(absl::Now()) + 3);
    end_ = start_ + options_.length;
    v1::Schedule cron = Within("/time/cron");
    cron.set_cron("* * * * * *");
    v1::Schedule slow = cron;
    cron.mutable_misfire_policy()->set_action(v1::MisfirePolicy::FIRE_LATEST);
    cron.mutable_misfire_policy()->mutable_threshold()->set_seconds(1);
    cron.mutable_misfire_policy()->set_max_catch_up(kMissedSingly);
    auto status = CreatePart({"(g) each second, of those missed the latest",
                              "time-cron",
                              {.due = Every(absl::Seconds(1)), .reason = "misfire"}},
                             cron);
    if (!status.ok()) return status;

    // An anchor in the past, not on a whole second.
    const absl::Duration odd = absl::Microseconds(123'457);
    v1::Schedule every = Within("/time/every");
    every.mutable_interval()->mutable_every()->set_seconds(1);
    *every.mutable_interval()->mutable_anchor_time() =
        ToTimestamp(start_ + odd - absl::Hours(24 * 365));
    status = CreatePart({"(g) an interval of 1 s with an odd anchor",
                         "time-every",
                         {.due = Every(absl::Seconds(1), odd)}},
                        every);
    if (!status.ok()) return status;

    v1::Schedule list = Within("/time/list");
    const std::set<int64_t> instants = Every(absl::Microseconds(777'777));
    for (const int64_t micros : instants)
      *list.add_times() = ToTimestamp(absl::FromUnixMicros(micros));
    status = CreatePart({absl::StrCat("(g) a list of ", instants.size(), " instants"),
                         "time-list",
                         {.due = instants}},
                        list);
    if (!status.ok()) return status;

    *slow.mutable_target() = integration::HttpTo(consumer_.http_uri(
        absl::StrCat("/delay/", absl::ToInt64Milliseconds(kSlow), "/time/slow")));
    slow.set_overlap_policy(v1::Schedule::SKIP);
    return CreatePart({"(g) each second runs of 1.5 s, overlap SKIP",
                       "time-slow",
                       {.due = Every(absl::Seconds(1)),
                        .reason = "overlap",
                        .apart_micros = absl::ToInt64Microseconds(kSlow)}},
                      slow);
  }

  absl::Status KillAndRestart() {
    const absl::Time kill_at = start_ + options_.kill_after;
    auto status = Await("time: before the kill", kill_at, [&] { return absl::Now() >= kill_at; });
    if (!status.ok()) return status;
    options_.say(
        absl::StrCat("kill -9 of emitter, down for ", absl::FormatDuration(options_.down)));
    platform_.Kill("emitter");
    const absl::Time back_at = absl::Now() + options_.down;
    status = Await("time: without an emitter", back_at, [&] { return absl::Now() >= back_at; });
    if (!status.ok()) return status;
    return platform_.Restart("emitter");
  }

  // Waits until `done`, at most until `timeout` after `time`.
  template <typename Done>
  absl::Status Await(const std::string& what, absl::Time time, Done done) {
    const absl::Time deadline = time + options_.timeout;
    while (absl::Now() < deadline && !done()) {
      ASSIGN_OR_RETURN(auto count, consumer_.CountEvents(kSources));
      options_.show(absl::StrFormat("demo: %-36s %7d events  %5.1f s", what, count,
                                    absl::ToDoubleSeconds(absl::Now() - start_)));
      poll(nullptr, 0, 50);
    }
    return absl::OkStatus();
  }

  // By the platform's own record: every occurrence has a run, and none is active.
  bool Ended() {
    return absl::Now() >= end_ && std::all_of(parts_.begin(), parts_.end(), [&](const Part& part) {
             const auto runs = api_.ListRuns(part.id);
             if (!runs.ok()) return false;
             size_t occurrences = 0;
             for (const v1::Run& run : *runs) {
               if (!run.has_complete_time()) return false;
               occurrences += run.state() == v1::Run::SKIPPED
                                  ? static_cast<size_t>(run.occurrence_count())
                                  : 1;
             }
             const auto schedule = api_.GetSchedule(part.id);
             return occurrences >= part.facts.due.size() && schedule.ok() &&
                    schedule->state() == v1::Schedule::FINISHED;
           });
  }

  absl::StatusOr<Verdict> Judge(const Part& part) {
    ASSIGN_OR_RETURN(const auto runs, api_.ListRuns(part.id));
    OccurrenceFacts facts = part.facts;
    for (const v1::Run& run : runs) {
      const int64_t nominal = MicrosOf(run.nominal_time());
      if (run.state() == v1::Run::SKIPPED) {
        facts.skipped.push_back({nominal, MicrosOf(run.last_nominal_time()), run.occurrence_count(),
                                 run.skip_reason()});
      } else if (run.state() == v1::Run::COMPLETED && run.succeeded_count() == 1) {
        facts.completed.insert(nominal);
      }
    }
    ASSIGN_OR_RETURN(const auto arrivals,
                     consumer_.ListArrivals(absl::StrCat("/tenants/default/schedules/", part.id)));
    return JudgeOccurrences(part.what, arrivals, facts);
  }

  const TimePhase& options_;
  Platform& platform_;
  ApiClient& api_;
  const Consumer& consumer_;
  absl::Time start_, end_;
  std::vector<Part> parts_;
};

}  // namespace

absl::StatusOr<std::vector<Verdict>> RunTime(const TimePhase& phase, Platform& platform,
                                             ApiClient& api, const Consumer& consumer) {
  return TimeRun(phase, platform, api, consumer).Run();
}

}  // namespace escapement::e2e
