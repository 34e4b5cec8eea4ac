// MinuteSums: what one process counts for pictures, by subject and minute
// (common/storage/statistics_table.h). Every kStatisticsEvery it writes the hours that have
// changed. EndedEvents: ends of events, counted with the commit that makes them durable.
//
// Counts are kept in memory and written later: a process that is killed loses those of the last
// kStatisticsEvery. A row has the sums since its hour was first counted in this process, and no
// other writer has the same row, so nothing is read. Rows that are refused or not written are
// written with the next step.
//
// Threads: one, the executor given.

#ifndef COMMON_STATISTICS_MINUTE_SUMS_H_
#define COMMON_STATISTICS_MINUTE_SUMS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/kv/client/kv_client.h"
#include "common/runtime/runtime.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/storage/v1/statistics_records.pb.h"

namespace escapement {

inline constexpr absl::Duration kStatisticsEvery = absl::Seconds(10);
// While more rows have changed than one commit takes.
inline constexpr absl::Duration kStatisticsMoreEvery = absl::Seconds(1);
// Rows of one commit, and the rest of its last subject. Bounds its size: a row has at most some
// 3 kB.
inline constexpr size_t kStatisticsRowsMax = 256;
// Hours in memory of all subjects. Each takes at most 6 kB. Above this, what further hours count is
// lost. Those of targets may take half, so that many targets do not displace tenants and policies.
inline constexpr size_t kStatisticsHoursMax = 8192;
inline constexpr size_t kStatisticsTargetHoursMax = kStatisticsHoursMax / 2;
// An hour that is over stays in memory until its row has been unchanged for this long. If it counts
// again after that, it gets another row.
inline constexpr absl::Duration kStatisticsHourKept = absl::Minutes(5);

// The sums of one minute. Fields as in escapement.v1.Statistics.
struct StatisticsSums {
  uint64_t due = 0;
  uint64_t succeeded = 0;
  uint64_t failed = 0;
  uint64_t others = 0;
  uint64_t late = 0;
  int64_t lateness_max_micros = 0;
  uint64_t attempts = 0;
  uint64_t errors = 0;
  uint64_t held = 0;
  uint64_t max_concurrent = 0;
  uint64_t waiting = 0;

  // The sums of both together: of lateness and of what a policy has, the greater one.
  void Add(const StatisticsSums& other);
};
StatisticsSums SumsOf(const storage::v1::MinuteRecord& minute);

inline constexpr int64_t kMinuteMicros = 60'000'000;

class MinuteSums {
 private:
  struct Hour {
    struct Minute {
      uint32_t minute = 0;  // 0 to 59
      StatisticsSums sums;
    };
    explicit Hour(uint64_t number) : number(number) {}
    storage::v1::StatisticsRecord Record() const;

    const uint64_t number;        // names its row
    std::vector<Minute> minutes;  // ascending
    bool changed = false;         // since it was last written
    absl::Duration written;       // Clock::Elapsed when the last write began
  };

 public:
  // The sums of one subject. It stays in memory while it has another owner, or hours.
  class Subject {
   public:
    Subject(MinuteSums& sums, size_t hours_max) : sums_(sums), hours_max_(hours_max) {}
    // The sums of the minute of a store time, to be changed before the next call. A time that is
    // older than kStatisticsKeptFor, or one that begins an hour beyond the bound, has sums that are
    // never written.
    StatisticsSums& At(int64_t micros) {
      // As unsigned numbers: one comparison, and no overflow.
      if (hour_ == nullptr ||
          static_cast<uint64_t>(micros) - static_cast<uint64_t>(minute_begin_) >=
              static_cast<uint64_t>(kMinuteMicros))
        Find(micros);
      hour_->changed = true;
      return *minute_;
    }

   private:
    friend class MinuteSums;
    void Find(int64_t micros);

    MinuteSums& sums_;
    const size_t hours_max_;
    std::map<uint32_t, Hour> hours_;
    // The minute that was last counted. It is forgotten when an hour is dropped.
    Hour* hour_ = nullptr;
    StatisticsSums* minute_ = nullptr;
    int64_t minute_begin_ = 0;  // microseconds
  };
  using SubjectPtr = std::shared_ptr<Subject>;

  // `client` and `runtime` outlive it; `executor` is stopped before it is destroyed.
  MinuteSums(kv::KvClient& client, Runtime& runtime, std::shared_ptr<Executor> executor)
      : client_(client), runtime_(runtime), executor_(std::move(executor)) {}
  MinuteSums(const MinuteSums&) = delete;
  MinuteSums& operator=(const MinuteSums&) = delete;

  // `subject`: TenantStatistics, PolicyStatistics or TargetStatistics; `hours_max`: it begins no
  // hour while so many are in memory. Must not outlive this.
  SubjectPtr Of(const std::string& subject, size_t hours_max = kStatisticsHoursMax);

  // Writes what has changed, if kStatisticsEvery is over. `now` is store time. Returns after how
  // long it should be called again.
  absl::Duration Step(absl::Time now);
  // Writes what has changed, then calls `done` on the executor; also if a commit fails. Nothing is
  // written after that.
  void WriteLast(absl::Time now, Closure done);

 private:
  // Puts the changed hours of the next subjects. Forgets hours that are over, and subjects without
  // hours that have no other owner. True if further subjects may have changed.
  bool TakeChanged(absl::Time now, kv::Group& group, std::vector<Hour*>& taken);
  void DropHours(Subject& subject, uint32_t now_hour, absl::Duration elapsed);
  void Commit(kv::Group group, std::vector<Hour*> taken);
  void WriteRest();

  kv::KvClient& client_;
  Runtime& runtime_;
  const std::shared_ptr<Executor> executor_;
  std::string id_;  // random: processes may have one name, one after the other
  std::map<std::string, SubjectPtr> subjects_;
  std::string last_;  // the subject that the last step ended with
  uint64_t hours_made_ = 0;
  size_t hours_ = 0;  // in memory
  int64_t oldest_micros_ = 0;
  Hour unwritten_{0};                                // has one minute
  absl::Duration next_ = -absl::InfiniteDuration();  // Clock::Elapsed
  bool committing_ = false;
  bool ended_ = false;  // WriteLast was called
  absl::Time last_now_ = absl::InfinitePast();
  Closure last_done_;
};

// EndedEvents: numbers of events that have ended, by tenant and outcome, until their commit
// applies.
class EndedEvents {
 public:
  // `unsent_due_micros`: the due time of events that end without an attempt; 0 for others, which
  // count as due with their first attempt.
  void Add(absl::string_view tenant, storage::v1::OutcomeKind outcome, uint64_t count,
           int64_t unsent_due_micros = 0);
  // Their commit has applied at `now_micros`.
  void CountIn(MinuteSums& sums, int64_t now_micros) const;

 private:
  struct Alike {
    std::string tenant;
    storage::v1::OutcomeKind outcome;
    int64_t unsent_due_micros;
    uint64_t count;
  };
  std::vector<Alike> ended_;  // neighbours differ
};

}  // namespace escapement

#endif  // COMMON_STATISTICS_MINUTE_SUMS_H_
