// RealFunction: some files of this folder define a function before gRPC's library does. This finds
// the library's own one.
//
// Threads: any.

#ifndef COMMON_RPC_REAL_FUNCTION_H_
#define COMMON_RPC_REAL_FUNCTION_H_

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace escapement {

// `name` is the symbol's name. Ends the program if no library has it.
template <typename Function>
Function* RealFunction(const char* name) {
  auto* const real = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
  if (real == nullptr) {
    std::fprintf(stderr, "gRPC's library has no %s: is it linked statically?\n", name);
    std::abort();
  }
  return real;
}

}  // namespace escapement

#endif  // COMMON_RPC_REAL_FUNCTION_H_
