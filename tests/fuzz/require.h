// Require: ends the process if a property does not hold, so that libFuzzer keeps the input.

#ifndef TESTS_FUZZ_REQUIRE_H_
#define TESTS_FUZZ_REQUIRE_H_

#include <cstdio>
#include <cstdlib>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"

namespace escapement::fuzz {

inline void Require(bool holds, const char* what, absl::string_view input) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s; input \"%s\"\n", what, absl::CHexEscape(input).c_str());
  std::abort();
}

}  // namespace escapement::fuzz

#endif  // TESTS_FUZZ_REQUIRE_H_
