#include "services/master/requests/list_order.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/status/errors.h"

namespace escapement::master {

absl::StatusOr<bool> ReadDescending(absl::string_view order_by, absl::string_view field,
                                    bool unset) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(order_by, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  if (words.empty()) return unset;
  const bool known =
      words[0] == field &&
      (words.size() == 1 || (words.size() == 2 && (words[1] == "desc" || words[1] == "asc")));
  if (!known) {
    return InvalidField("order_by",
                        absl::StrCat("must be \"", field, "\" or \"", field, " desc\""));
  }
  return words.back() == "desc";
}

}  // namespace escapement::master
