// NotingLog: a log that knows the term in which this process appends. A leader appends its first
// row before it decides anything, so each decision belongs to the term noted last. It never trims:
// the judge reads the log from its beginning.
//
// Threads: any.

#ifndef TESTS_E2E_CHAOS_REPLICATED_NOTING_LOG_H_
#define TESTS_E2E_CHAOS_REPLICATED_NOTING_LOG_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include "common/kv/log/forwarding_log.h"

namespace escapement::chaos {

class NotingLog final : public kv::ForwardingLog {
 public:
  using ForwardingLog::ForwardingLog;

  // The highest epoch of an append so far.
  uint64_t epoch() const { return epoch_; }

  void Append(kv::AppendRequest request, std::function<void(kv::AppendResult)> done) override {
    uint64_t noted = epoch_;
    while (noted < request.term.epoch && !epoch_.compare_exchange_weak(noted, request.term.epoch)) {
    }
    inner_.Append(std::move(request), std::move(done));
  }
  void Trim(uint32_t snapshots_kept, Callback<kv::TrimResult> done) override {
    done(kv::TrimResult());
  }

 private:
  std::atomic<uint64_t> epoch_{0};
};

}  // namespace escapement::chaos

#endif  // TESTS_E2E_CHAOS_REPLICATED_NOTING_LOG_H_
