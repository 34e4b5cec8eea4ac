// NameResolver: looks up the addresses of host names without blocking the caller.
//
// It asks the C library, on at most kNameResolverThreadsMax threads of its own, which start when
// they are needed. A name server that does not answer holds one of them; while it holds all, other
// names wait. Threads that are held when the resolver is destroyed end on their own, later.
//
// Threads: any.

#ifndef COMMON_NET_NAME_RESOLVER_H_
#define COMMON_NET_NAME_RESOLVER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace escapement {

inline constexpr int kNameResolverThreadsMax = 8;

class NameResolver {
 public:
  // Addresses as text, without ports, the preferred one first. UNAVAILABLE: the name has none, or
  // nobody could say.
  using Answer = absl::StatusOr<std::vector<std::string>>;

  NameResolver();
  virtual ~NameResolver();
  NameResolver(const NameResolver&) = delete;
  NameResolver& operator=(const NameResolver&) = delete;

  // `done` runs on a thread of the resolver, or never if the resolver is destroyed before.
  virtual void Resolve(std::string host, std::function<void(Answer)> done);

  // True for the text of an IPv4 or IPv6 address, which needs no resolver.
  static bool IsAddress(absl::string_view host);

 private:
  struct Core;
  std::shared_ptr<Core> core_;
};

}  // namespace escapement

#endif  // COMMON_NET_NAME_RESOLVER_H_
