// ResultBatch: gathers results of attempts, so that each sink takes those of its attempts at once.
//
// Threads: one.

#ifndef SERVICES_HANDLER_DELIVERY_RESULT_BATCH_H_
#define SERVICES_HANDLER_DELIVERY_RESULT_BATCH_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "services/handler/delivery/delivery_transport.h"

namespace escapement::handler {

class ResultBatch {
 public:
  ResultBatch() = default;
  ~ResultBatch() { Give(); }
  ResultBatch(const ResultBatch&) = delete;
  ResultBatch& operator=(const ResultBatch&) = delete;

  // Results of another sink than the last one's are given first.
  void Add(const std::shared_ptr<DeliverySink>& sink, uint64_t tag, DeliveryResult result) {
    if (sink != sink_) {
      Give();
      sink_ = sink;
    }
    results_.push_back({.tag = tag, .result = std::move(result)});
  }
  // Gives what it has.
  void Give() {
    if (sink_ == nullptr) return;
    std::exchange(sink_, nullptr)->OnResults(std::exchange(results_, {}));
  }

 private:
  std::shared_ptr<DeliverySink> sink_;
  std::vector<TaggedResult> results_;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_RESULT_BATCH_H_
