#include "common/tzdata/revision.h"

#include <cstddef>
#include <optional>
#include <tuple>

#include "absl/strings/ascii.h"

namespace escapement::tzdata {
namespace {

// Year, number of letters, letters, rest: these compare in the order of revisions.
using Parts = std::tuple<std::string, size_t, std::string, std::string>;

std::optional<Parts> Split(absl::string_view revision) {
  size_t year = 0;
  while (year < revision.size() && absl::ascii_isdigit(revision[year])) ++year;
  size_t letters = year;
  while (letters < revision.size() && absl::ascii_islower(revision[letters])) ++letters;
  if (year != 4 || letters == year) return std::nullopt;
  return Parts(revision.substr(0, year), letters - year, revision.substr(year, letters - year),
               revision.substr(letters));
}

}  // namespace

bool Newer(absl::string_view a, absl::string_view b) {
  const std::optional<Parts> left = Split(a), right = Split(b);
  return left.has_value() && right.has_value() && *left > *right;
}

}  // namespace escapement::tzdata
