// Figures: named measurements with the bound that each is to keep; medians of repetitions.
//
// Threads: one at a time.

#ifndef TESTS_BENCH_FIGURES_H_
#define TESTS_BENCH_FIGURES_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace escapement::bench {

// What a figure is to be; none: it is only told.
struct Bound {
  std::optional<double> at_least = {};
  std::optional<double> at_most = {};
};

class Figures {
 public:
  // One more value of `name`, in `unit` (shown behind it). Figures are shown in the order of their
  // first mention.
  void Add(absl::string_view name, absl::string_view unit, double value, const Bound& bound = {});
  // The figure could not be measured.
  void AddFailure(absl::string_view name, const absl::Status& why);

  // A table for people: median, lowest, highest, bound, whether the median keeps it.
  std::string Table() const;
  // {"figures":[{"name","unit","values":[…],"median","at_least","at_most","kept","failures":[…]}]}
  std::string Json() const;
  // Whether every figure was measured. (That a bound is missed is no failure of the program.)
  bool complete() const;

 private:
  struct Figure {
    std::string name;
    std::string unit;
    Bound bound;
    std::vector<double> values;
    std::vector<std::string> failures;
    double Median() const;
    bool Kept() const;
  };
  Figure& Of(absl::string_view name);
  std::vector<Figure> figures_;
};

}  // namespace escapement::bench

#endif  // TESTS_BENCH_FIGURES_H_
