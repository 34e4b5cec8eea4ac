// Report: measurements of the platform beside the raw limits of the same run; medians of
// repetitions.

#ifndef TESTS_BENCH_REPORT_H_
#define TESTS_BENCH_REPORT_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace escapement::bench {

enum class Unit { kPerSecond, kMicros };

class Report {
 public:
  // Names the row; rows are shown in the order of their first mention.
  // `raw_name` says what the raw limit is.
  void AddRow(absl::string_view row, Unit unit, absl::string_view raw_name);
  void AddRaw(absl::string_view row, double value);
  void AddMeasured(absl::string_view row, double value);
  void AddFailure(absl::string_view row, absl::string_view why);

  // A table for people.
  std::string Table() const;
  // {"rows":[{"name","unit","measured":[…],"measured_median","raw_name","raw":[…],"raw_median",
  //   "failures":[…]}]}
  std::string Json() const;
  bool failed() const;

 private:
  struct Row {
    std::string name;
    Unit unit = Unit::kPerSecond;
    std::string raw_name;
    std::vector<double> raw;
    std::vector<double> measured;
    std::vector<std::string> failures;
  };
  Row& RowOf(absl::string_view name);
  std::vector<Row> rows_;
};

}  // namespace escapement::bench

#endif  // TESTS_BENCH_REPORT_H_
