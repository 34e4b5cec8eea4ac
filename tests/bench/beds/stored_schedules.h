// How much the platform's processes hold: rows of the store, and memory.

#ifndef TESTS_BENCH_BEDS_STORED_SCHEDULES_H_
#define TESTS_BENCH_BEDS_STORED_SCHEDULES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace escapement::bench {

// Rows in each column family of the store at "host:port" that has work. Leases and the like are
// left out, and of `grants` each policy's counts and last hour.
absl::StatusOr<std::map<std::string, uint64_t>> CountRows(const std::string& store);

// Resident bytes of this process' child that runs the program of this name.
absl::StatusOr<uint64_t> ResidentBytes(const std::string& program);

// Measures how much disk a closed store takes once RocksDB has compacted it.

// Compacts every column family, with the settings that the store has left in the folder. Returns
// bytes of table files by family. No process may have the folder open.
absl::StatusOr<std::map<std::string, uint64_t>> CompactStore(const std::string& data_folder);

// The raw limit: bytes that one of `rows` values takes under a key of 16 bytes, after compaction.
// The database is a new one in `folder`, with the settings of the store's `events` family.
absl::StatusOr<double> BareBytesPerRow(const std::string& data_folder, const std::string& folder,
                                       uint64_t rows,
                                       const std::function<std::string(uint64_t i)>& value);

// A store of its own, in a folder, with many schedules, and the emission of single windows over it.
// Each partition uses the EmissionWindow of services/emitter, on RocksDB with synced commits.
//
// In each of the first `windows` minutes after 03:00 UTC of the next day, `due_per_window`
// schedules fire. All others fire in the 18 hours that begin with `other_hours_begin`, UTC. Both
// groups have all kinds of LaunchExpressions in equal shares.
//
// Threads: one; the calls block.

class StoredSchedules {
 public:
  struct Options {
    std::string folder;
    int64_t schedules = 10'000;
    int64_t due_per_window = 600;
    int windows = 12;
    int other_hours_begin = 6;  // to 23
    // A label "team" with so many different values; 0: no label.
    int64_t teams = 0;
    std::string cron = {};  // if it is given, all schedules have this expression, in UTC
  };
  static absl::StatusOr<std::unique_ptr<StoredSchedules>> Make(Options options);
  ~StoredSchedules();

  // Creates all schedules through the master's API, 1,000 calls under way at once. Returns the
  // seconds that each tenth took.
  absl::StatusOr<std::vector<double>> Create();

  struct Emitted {
    double seconds = 0;  // from the start of all partitions' windows to the last end
    int64_t rows_read = 0;
    int64_t occurrences = 0;
    double raw_seconds = 0;  // time to scan the same ranges without evaluating or writing
    int64_t raw_rows = 0;
  };
  // Emits the minute that begins `window` minutes after 03:00. Each window once, in ascending
  // order.
  absl::StatusOr<Emitted> Emit(int window);

  struct Forecasted {
    double seconds = 0;
    int64_t schedules = 0;
    double raw_seconds = 0;  // time to scan the rows of all schedules without decoding them
  };
  // ForecastLoad of all schedules, grouped by target.
  absl::StatusOr<Forecasted> Forecast(absl::Duration duration);

 private:
  struct Parts;
  explicit StoredSchedules(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace escapement::bench

#endif  // TESTS_BENCH_BEDS_STORED_SCHEDULES_H_
