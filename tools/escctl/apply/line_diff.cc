#include "tools/escctl/apply/line_diff.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace escapement::escctl {
namespace {

constexpr size_t kContextLines = 3;
constexpr size_t kCellsMax = 4'000'000;  // cells of the table of common lines: 16 MB

using Lines = std::vector<absl::string_view>;

struct Edit {
  char kind;  // ' ', '-' or '+'
  absl::string_view line;
};

Lines LinesOf(absl::string_view text) {
  if (text.empty()) return {};
  return absl::StrSplit(absl::StripSuffix(text, "\n"), '\n');
}

// The edits between the parts [begin, end) of both texts.
void AppendMiddle(const Lines& a, size_t a_end, const Lines& b, size_t b_end, size_t begin,
                  std::vector<Edit>& edits) {
  const size_t rows = a_end - begin;
  const size_t columns = b_end - begin;
  size_t i = 0;
  size_t j = 0;
  if ((rows + 1) * (columns + 1) <= kCellsMax) {
    const size_t width = columns + 1;
    std::vector<uint32_t> common((rows + 1) * width);  // lines in common from (i, j) on
    for (size_t r = rows; r-- > 0;) {
      for (size_t c = columns; c-- > 0;) {
        common[r * width + c] = a[begin + r] == b[begin + c] ? common[(r + 1) * width + c + 1] + 1
                                                             : std::max(common[(r + 1) * width + c],
                                                                        common[r * width + c + 1]);
      }
    }
    while (i < rows && j < columns) {
      if (a[begin + i] == b[begin + j]) {
        edits.push_back({' ', a[begin + i++]});
        ++j;
      } else if (common[(i + 1) * width + j] >= common[i * width + j + 1]) {
        edits.push_back({'-', a[begin + i++]});
      } else {
        edits.push_back({'+', b[begin + j++]});
      }
    }
  }
  while (i < rows) edits.push_back({'-', a[begin + i++]});
  while (j < columns) edits.push_back({'+', b[begin + j++]});
}

std::vector<Edit> EditsBetween(const Lines& a, const Lines& b) {
  size_t begin = 0;
  while (begin < std::min(a.size(), b.size()) && a[begin] == b[begin]) ++begin;
  size_t same = 0;  // lines at the end
  while (same < std::min(a.size(), b.size()) - begin &&
         a[a.size() - 1 - same] == b[b.size() - 1 - same])
    ++same;
  std::vector<Edit> edits;
  for (size_t i = 0; i < begin; ++i) edits.push_back({' ', a[i]});
  AppendMiddle(a, a.size() - same, b, b.size() - same, begin, edits);
  for (size_t i = a.size() - same; i < a.size(); ++i) edits.push_back({' ', a[i]});
  return edits;
}

// "4,7", as in the head of a hunk; `first` counts from 0.
std::string Range(size_t first, size_t count) {
  const size_t shown = count == 0 ? first : first + 1;
  return count == 1 ? absl::StrCat(shown) : absl::StrCat(shown, ",", count);
}

}  // namespace

std::string UnifiedDiff(absl::string_view before_name, absl::string_view before,
                        absl::string_view after_name, absl::string_view after) {
  if (before == after) return "";
  const Lines a = LinesOf(before);
  const Lines b = LinesOf(after);
  const std::vector<Edit> edits = EditsBetween(a, b);
  std::string text = absl::StrCat("--- ", before_name, "\n+++ ", after_name, "\n");
  size_t next = 0;  // the first edit that no hunk has
  size_t a_at = 0;  // its line in each text
  size_t b_at = 0;
  while (true) {
    size_t change = next;
    while (change < edits.size() && edits[change].kind == ' ') ++change;
    if (change == edits.size()) break;
    const size_t begin = change - std::min(kContextLines, change - next);
    a_at += begin - next;
    b_at += begin - next;
    // Changes with at most twice the context between them share a hunk.
    size_t end = change + 1;
    for (size_t i = end; i < edits.size() && i <= end + 2 * kContextLines; ++i) {
      if (edits[i].kind != ' ') end = i + 1;
    }
    end = std::min(edits.size(), end + kContextLines);
    size_t a_count = 0;
    size_t b_count = 0;
    std::string body;
    for (size_t i = begin; i < end; ++i) {
      a_count += edits[i].kind != '+';
      b_count += edits[i].kind != '-';
      absl::StrAppend(&body, std::string(1, edits[i].kind), edits[i].line, "\n");
    }
    absl::StrAppend(&text, "@@ -", Range(a_at, a_count), " +", Range(b_at, b_count), " @@\n", body);
    a_at += a_count;
    b_at += b_count;
    next = end;
  }
  return text;
}

}  // namespace escapement::escctl
