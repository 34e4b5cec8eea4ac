// TroubledOrigins: the origins whose last requests did not all get an answer. They have a thread of
// their own, so that their timeouts and their many new connections do not delay requests to others.
//
// Threads: any.

#ifndef SERVICES_HANDLER_DELIVERY_HTTP_TROUBLED_ORIGINS_H_
#define SERVICES_HANDLER_DELIVERY_HTTP_TROUBLED_ORIGINS_H_

#include <atomic>
#include <cstddef>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"

namespace escapement::handler {

class TroubledOrigins {
 public:
  // An origin is in trouble until so many requests in succession got an answer.
  static constexpr int kAnswersInSuccession = 64;
  // With more, all are forgotten, and those that still are in trouble are noted again.
  static constexpr size_t kOriginsMax = 4096;

  bool Has(const std::string& key) const;
  // A request ended. `answered`: with an answer, whatever its status.
  void OnEnd(const std::string& key, bool answered);

 private:
  std::atomic<bool> any_{false};  // so that without trouble an answer costs nothing
  mutable absl::Mutex mutex_;
  // Answers in succession.
  absl::flat_hash_map<std::string, int> origins_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_HTTP_TROUBLED_ORIGINS_H_
