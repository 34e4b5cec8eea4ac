#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "tests/bench/raw/raw_limits.h"
#include "tests/fixtures/attempts.h"

namespace escapement::bench {
namespace {

// Takes results from many threads in batches, as the handler's sink does.
class CountingSink final : public handler::DeliverySink {
 public:
  void OnResult(uint64_t, handler::DeliveryResult result) override {
    absl::MutexLock lock(&mutex_);
    ++answered_;
    if (result.status != handler::DeliveryStatus::kAccepted) ++refused_;
  }

  // Waits for `count` answers in all. Returns how many there are.
  uint64_t Await(uint64_t count) {
    const auto enough = [this, count]()
                            ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return answered_ >= count; };
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&enough));
    return answered_;
  }
  uint64_t refused() {
    absl::MutexLock lock(&mutex_);
    return refused_;
  }

 private:
  absl::Mutex mutex_;
  uint64_t answered_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t refused_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

double TransportRate(handler::DeliveryTransport& transport, const std::string& uri,
                     uint64_t deliveries, size_t payload_bytes, uint64_t outstanding) {
  return TransportRate(transport,
                       fixtures::MakeAttempts(
                           {.uri = uri, .payload = std::string(payload_bytes, 'r')}, 1, deliveries),
                       outstanding);
}

double TransportRate(handler::DeliveryTransport& transport,
                     std::vector<handler::DeliveryAttempt> attempts, uint64_t outstanding) {
  const auto sink = std::make_shared<CountingSink>();
  const uint64_t deliveries = attempts.size();
  const absl::Time begin = absl::Now();
  uint64_t sent = 0;
  uint64_t answered = 0;
  while (answered < deliveries) {
    const uint64_t more = std::min(outstanding - (sent - answered), deliveries - sent);
    std::vector<handler::DeliveryAttempt> batch(
        std::make_move_iterator(attempts.begin() + static_cast<ptrdiff_t>(sent)),
        std::make_move_iterator(attempts.begin() + static_cast<ptrdiff_t>(sent + more)));
    if (!batch.empty()) transport.Send(std::move(batch), sink);
    sent += more;
    answered = sink->Await(answered + (sent - answered + 3) / 4);  // until a quarter is free again
  }
  const double rate = static_cast<double>(deliveries) / absl::ToDoubleSeconds(absl::Now() - begin);
  return sink->refused() == 0 ? rate : 0;
}

}  // namespace escapement::bench
