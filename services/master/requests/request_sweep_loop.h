// RequestSweepLoop: drops remembered answers (request_id) that are older than their retention.
// Every master does it; dropping twice does nothing.
//
// Threads: the context's executor.

#ifndef SERVICES_MASTER_REQUESTS_REQUEST_SWEEP_LOOP_H_
#define SERVICES_MASTER_REQUESTS_REQUEST_SWEEP_LOOP_H_

#include <string>

#include "common/kv/kv_store.h"
#include "services/master/base/master_context.h"

namespace escapement::master {

class RequestSweepLoop {
 public:
  // `context` outlives it; its executor is stopped before the loop is destroyed.
  explicit RequestSweepLoop(MasterContext& context) : context_(context) {}

  // Looks at all rows, page by page with pauses; begins again a while after the end.
  void Start();

 private:
  void Step();
  void OnPage(kv::ScanResult page);
  void GoOn();
  void StartLater();

  MasterContext& context_;
  std::string position_;
  bool many_ = false;  // more than one page
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_REQUESTS_REQUEST_SWEEP_LOOP_H_
