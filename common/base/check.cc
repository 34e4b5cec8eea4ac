#include "common/base/check.h"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace escapement::check_internal {

Failure::Failure(const char* file, int line, const char* condition) {
  text_ << file << ':' << line << ": check failed: " << condition << ' ';
}

Failure::~Failure() {
  text_ << '\n';
  const std::string text = text_.str();
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
  std::abort();
}

}  // namespace escapement::check_internal
