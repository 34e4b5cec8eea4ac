#include "tests/integration/metric_of.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tests/integration/http_get.h"

namespace escapement::integration {

double MetricOf(absl::string_view address, absl::string_view metric) {
  const auto answer = HttpGet(address, "/metrics");
  if (!answer.ok()) return -1;
  for (absl::string_view line : absl::StrSplit(answer->body, '\n')) {
    double value = -1;
    if (absl::ConsumePrefix(&line, absl::StrCat(metric, " ")) && absl::SimpleAtod(line, &value))
      return value;
  }
  return -1;
}

}  // namespace escapement::integration
