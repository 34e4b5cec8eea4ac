// Done: the caller's end of an asynchronous call: who called, and where the answer goes.

#ifndef COMMON_RPC_DONE_H_
#define COMMON_RPC_DONE_H_

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/rpc/call_gate.h"

namespace escapement {

// Runs exactly once, on an executor of the service and never within the call; destroyed without
// being run only when the service is destroyed first.
template <typename Response>
class Done {
 public:
  // Must be assigned before it is called.
  Done() = default;
  // Any function of the answer. Without a caller it is AnonymousCaller().
  template <typename Function>
  requires(!std::same_as<std::remove_cvref_t<Function>, Done> &&
           std::invocable<Function&, absl::StatusOr<Response>>)
      Done(Function&& function,  // NOLINT(google-explicit-constructor): a lambda is a Done
           std::shared_ptr<const Caller> caller = AnonymousCaller())
      : function_(std::forward<Function>(function)), caller_(std::move(caller)) {}

  void operator()(absl::StatusOr<Response> answer) { function_(std::move(answer)); }

  const std::shared_ptr<const Caller>& caller() const { return caller_; }

 private:
  absl::AnyInvocable<void(absl::StatusOr<Response>)> function_;
  std::shared_ptr<const Caller> caller_;
};

}  // namespace escapement

#endif  // COMMON_RPC_DONE_H_
