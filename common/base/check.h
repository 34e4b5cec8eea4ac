// CHECK: ends the process if our own bookkeeping is wrong.
//
//   CHECK(out >= taken) << "target " << key;
//   CHECK_LE(held, limit);
//   shard.policies[*CheckNotNull(policy)];
//
// A failed check prints file, line, condition, values and the streamed text to stderr, then calls
// abort(). A check is always on. Use it only for bugs of this code: a state that no input, no store
// and no peer can cause. Input and I/O errors are an absl::Status. After an abort the owner's
// leases expire and another process continues from the store, so stopping is safer than going on
// with wrong counts.

#ifndef COMMON_BASE_CHECK_H_
#define COMMON_BASE_CHECK_H_

#include <cstdlib>
#include <ostream>
#include <sstream>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"

namespace escapement::check_internal {

// Collects the message of one failed check. The destructor prints it and aborts.
class Failure {
 public:
  Failure(const char* file, int line, const char* condition);
  Failure(const Failure&) = delete;
  Failure& operator=(const Failure&) = delete;
  [[noreturn]] ~Failure();
  std::ostream& stream() { return text_; }

 private:
  std::ostringstream text_;
};

// Gives both branches of CHECK the type void; binds weaker than << and stronger than ?:.
struct Voidify {
  void operator&(std::ostream&) const {}
};

}  // namespace escapement::check_internal

#define CHECK(condition)                      \
  ABSL_PREDICT_TRUE(condition)                \
  ? (void)0                                   \
  : ::escapement::check_internal::Voidify() & \
          ::escapement::check_internal::Failure(__FILE__, __LINE__, #condition).stream()

// Both sides are evaluated once if the check holds, and a second time to print them if it fails.
#define CHECK_OP(left, op, right) CHECK((left)op(right)) << (left) << " against " << (right) << ' '
#define CHECK_EQ(left, right) CHECK_OP(left, ==, right)
#define CHECK_NE(left, right) CHECK_OP(left, !=, right)
#define CHECK_LT(left, right) CHECK_OP(left, <, right)
#define CHECK_LE(left, right) CHECK_OP(left, <=, right)
#define CHECK_GT(left, right) CHECK_OP(left, >, right)
#define CHECK_GE(left, right) CHECK_OP(left, >=, right)

namespace escapement {

// Returns `pointer` (raw, unique or shared) after a check that it is not null.
template <typename Pointer>
Pointer&& CheckNotNull(Pointer&& pointer) {
  CHECK(pointer != nullptr);
  return std::forward<Pointer>(pointer);
}

namespace check_internal {
// Apart, so that a check which holds is a few instructions.
template <typename Counter>
[[noreturn]] ABSL_ATTRIBUTE_NOINLINE void FailTake(const Counter& counter, const Counter& amount) {
  CHECK_GE(counter, amount) << "more is taken than was counted";
  std::abort();
}
}  // namespace check_internal

// Takes `amount` from `counter`. Both must be of one type that can be compared and subtracted. In
// contrast to a subtraction that stops at zero, this finds the bug that took more than there was.
template <typename Counter>
void TakeFrom(Counter& counter, const Counter& amount) {
  if (ABSL_PREDICT_FALSE(counter < amount)) check_internal::FailTake(counter, amount);
  counter -= amount;
}

}  // namespace escapement

#endif  // COMMON_BASE_CHECK_H_
