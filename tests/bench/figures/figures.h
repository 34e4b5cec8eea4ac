// Figures: named measurements, each with the bound that it is to keep and, where there is one, the
// raw limit of the same run; medians of repetitions.
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

// What a figure is to be; none: it is only told.
struct Bound {
  std::optional<double> at_least = {};
  std::optional<double> at_most = {};
  // at_least as part of the raw limit of the machine for which it was set. Whether a figure is that
  // part of the raw limit here is told beside whether it keeps its bound, and changes nothing about
  // the latter.
  std::optional<double> of_raw = {};
};

class Figures {
 public:
  // One more value of `name`, in `unit` (shown behind it). Figures are shown in the order of their
  // first mention.
  void Add(absl::string_view name, absl::string_view unit, double value, const Bound& bound = {});
  // One more value of what limits it on this machine, in the same unit; `raw_name` says what that
  // is.
  void AddRaw(absl::string_view name, absl::string_view unit, absl::string_view raw_name,
              double value);
  // The figure could not be measured.
  void AddFailure(absl::string_view name, const absl::Status& why);

  // A table for people: bound, median, lowest, highest, raw limit, the median as part of it,
  // whether the median keeps the bound, and if not, whether that part does that is asked of it.
  std::string Table() const;
  // {"figures":[{"name","unit","values":[…],"median","at_least","at_most","kept","raw_name",
  //   "raw":[…],"raw_median","ratio","of_raw","of_raw_kept","failures":[…]}]}
  std::string Json() const;
  // Whether every figure was measured. (That a bound is missed is no failure of the program.)
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
