// LoadForecast: how many events schedules fire in each minute of a time range. ForecastLoad: the
// same for the schedules that a tenant has stored.

#ifndef SERVICES_MASTER_SCHEDULES_LOAD_FORECAST_H_
#define SERVICES_MASTER_SCHEDULES_LOAD_FORECAST_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/cron/timetable.h"
#include "common/storage/occurrence_rows.h"
#include "escapement/v1/schedule_service.pb.h"
#include "services/master/base/master_context.h"
#include "services/master/requests/list_filter.h"

namespace escapement::master {

// A schedule, as a forecast needs to know it.
struct ForecastSource {
  std::string schedule_id;
  std::string group;
  OccurrenceSource source;
  cron::Timetable timetable;
  absl::Time from;  // earlier occurrences do not count
};

// LoadForecast: counts the events of schedules in each minute of [start, start + minutes).
//
// An event counts in the minute in which it may go if nothing holds it back: when its occurrence is
// launched, jitter included; in an even window, at its place in the window. Times are computed as
// the emitter and the token manager compute them. So the counts are exact.
//
// Occurrences of a cron expression without jitter and even window are counted minute by minute, not
// one by one, except around changes of the zone's offset. So a schedule that fires every second
// costs about as much as one that fires every minute. The same holds for intervals without
// exclusions.
//
// Memory: kForecastGroupBytesMax for the groups. Beyond it the smaller half of the groups moves to
// "other", and so do all new groups from then on. So each group that is answered is complete.
//
// Pure. Threads: one.
class LoadForecast {
 public:
  // `start` is a whole minute. With `grouped` false groups are not counted.
  LoadForecast(absl::Time start, int minutes, bool grouped);

  // Begins to count a schedule. The former one must be finished.
  void Begin(ForecastSource schedule);
  // Counts a part of the schedule: about a millisecond at most. Returns true when the schedule is
  // finished.
  bool Step();

  // The work of all steps. One unit is about as much as one occurrence takes.
  uint64_t work() const { return work_; }

  // All schedules must be finished. `near`: within the forecast.
  v1::ForecastLoadResponse Answer(absl::string_view tenant, std::optional<absl::Time> near) const;

 private:
  using MinuteCount = std::pair<uint32_t, int64_t>;
  struct Group {
    int64_t events = 0;
    int64_t schedules = 0;
    // The counts of its minutes: either those that are not 0, ascending, or all.
    std::vector<MinuteCount> some;
    std::vector<int64_t> all;
  };
  using Groups = std::map<std::string, Group, std::less<>>;
  using NamedGroup = Groups::value_type;
  // The schedules with the most events in a minute.
  struct Source {
    int64_t events = 0;
    std::shared_ptr<const std::string> schedule_id;
  };
  // A stretch of nominal times from `at_` on.
  struct Stretch {
    absl::Time end;
    bool by_minute = false;  // can be counted without looking at each occurrence
    int64_t offset = 0;      // seconds; of a cron expression's zone
  };

  Stretch NextStretch() const;
  Stretch CivilStretch() const;
  void CountCivil(const Stretch& stretch);
  void CountInterval(absl::Time end);
  // Returns where the next call begins.
  absl::Time CountEach(absl::Time end);
  void CountEven(absl::Time begin);
  void Count(int64_t minute, int64_t events);
  void Finish();
  void AddSource(Source source, size_t minute);
  void AddToGroup(int64_t events);
  void Append(Group& group);
  void Densify(Group& group) const;
  void DropSmallGroups();
  std::vector<const NamedGroup*> LargestGroups() const;
  static void MoveInto(const Group& from, Group& into);
  static size_t BytesOf(const Group& group);
  void KeepFirst(bool fewest, size_t max, std::vector<size_t>& minutes) const;
  void ShowMinute(size_t i, v1::ForecastLoadResponse::Minute& shown) const;
  void ShowGroups(v1::ForecastLoadResponse& response) const;
  void ShowBusy(absl::string_view tenant, v1::ForecastLoadResponse& response) const;
  void ShowQuiet(absl::Time near, v1::ForecastLoadResponse& response) const;

  const int64_t start_minute_;  // since 1970
  const int64_t minutes_;
  const bool grouped_;

  // The schedule that is being counted.
  std::optional<ForecastSource> schedule_;
  int64_t events_each_ = 1;  // events of an occurrence
  bool even_ = false;
  absl::Time at_, end_;            // nominal times in [at_, end_) are still to count
  std::vector<int64_t> counts_;    // its events in each minute
  std::vector<uint32_t> touched_;  // minutes that have events, in no order

  // For each minute, the sums over all schedules that are finished.
  std::vector<int64_t> minute_events_, minute_schedules_;
  std::vector<std::vector<Source>> sources_;  // kForecastSourcesMax at most, in no order
  std::vector<int64_t> sources_beyond_;       // a schedule with more events replaces one of them

  Groups groups_;
  size_t group_bytes_ = 0;
  bool groups_closed_ = false;  // groups have been dropped: new ones go to other_
  Group other_;
  int64_t events_ = 0;
  int64_t schedules_ = 0;
  int64_t jittered_ = 0;
  uint64_t work_ = 0;
};

// A request after validation.
struct ForecastQuery {
  std::string tenant;
  absl::Time start;
  int minutes = 0;
  // "policy", "target", "labels.KEY" or empty.
  std::string group_by;
  ListFilter filter;
  std::optional<absl::Time> near;
};

// INVALID_ARGUMENT with every wrong field; NOT_FOUND for a wrong parent. `now` is store time.
absl::StatusOr<ForecastQuery> ReadForecast(const v1::ForecastLoadRequest& request, absl::Time now);

// Counts the enabled schedules that the filter matches. Reads them in chunks, so a schedule that
// changes during the read counts as before or after its change. Takes the executor for about two
// milliseconds at a time. RESOURCE_EXHAUSTED (FORECAST_TOO_LARGE) beyond kForecastWorkMax.
//
// Threads: callbacks run on the context's executor.
void ForecastLoad(MasterContext& context, ForecastQuery query, Done<v1::ForecastLoadResponse> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_LOAD_FORECAST_H_
