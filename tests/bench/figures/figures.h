// Figures: named measurements, as medians of repetitions. A figure may have a bound to keep, and
// the raw limit from the same run.
//
// Threads: one at a time.

#ifndef TESTS_BENCH_FIGURES_FIGURES_H_
#define TESTS_BENCH_FIGURES_FIGURES_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace escapement::bench {

// The bound of a figure. If it is empty, the figure is only reported.
struct Bound {
  std::optional<double> at_least = {};
  std::optional<double> at_most = {};
  // `at_least`, divided by the raw limit of the machine for which it was set. The report also says
  // whether the figure reaches this part of the present raw limit. That does not change whether it
  // keeps its bound.
  std::optional<double> of_raw = {};
};

// For an even number of values, the mean of the middle two. 0 for none.
double Median(std::vector<double> values);

class Figures {
 public:
  // Adds a value of `name`; its `unit` is shown behind it. Figures are shown in the order of their
  // first value.
  void Add(absl::string_view name, absl::string_view unit, double value, const Bound& bound = {});
  // Adds a value of the figure's raw limit on this machine, in the same unit. `raw_name` says what
  // was measured.
  void AddRaw(absl::string_view name, absl::string_view unit, absl::string_view raw_name,
              double value);
  // Notes that the figure could not be measured.
  void AddFailure(absl::string_view name, const absl::Status& why);

  // A table for people. It has bound, median, lowest, highest, raw limit, and the median divided by
  // the raw limit. It says whether the median keeps the bound; if not, also whether it reaches
  // `of_raw`.
  std::string Table() const;
  // {"figures":[{"name","unit","values":[…],"median","at_least","at_most","kept","raw_name",
  //   "raw":[…],"raw_median","ratio","of_raw","of_raw_kept","failures":[…]}]}
  std::string Json() const;
  // True if every figure was measured, whether it keeps its bound or not.
  bool complete() const;

 private:
  struct Figure {
    std::string name;
    std::string unit;
    Bound bound;
    std::vector<double> values;
    std::string raw_name;
    std::vector<double> raw;
    std::vector<std::string> failures;
    bool Kept() const;
    bool OfRawKept() const;
    std::optional<double> Ratio() const;
    std::string Row() const;
  };
  Figure& Of(absl::string_view name);
  std::vector<Figure> figures_;
};

}  // namespace escapement::bench

#endif  // TESTS_BENCH_FIGURES_FIGURES_H_
