// AccessSweepLoop: deletes audit entries that are older than their retention, and keys that were
// revoked or have expired as long ago, except those from a file (bootstrap_key_loop.h). Every
// master does it; deleting twice does nothing.
//
// Threads: the context's executor.

#ifndef SERVICES_MASTER_AUDIT_ACCESS_SWEEP_LOOP_H_
#define SERVICES_MASTER_AUDIT_ACCESS_SWEEP_LOOP_H_

#include <string>

#include "common/kv/kv_store.h"
#include "services/master/master_context.h"

namespace escapement::master {

class AccessSweepLoop {
 public:
  // `context` outlives it; its executor is stopped before the loop is destroyed.
  explicit AccessSweepLoop(MasterContext& context) : context_(context) {}

  void Start();

 private:
  // Each reads a page from `position` on, deletes what is old, and goes on.
  void SweepAudit(std::string position);
  void OnAuditPage(const kv::ScanResult& page);
  void SweepKeys(std::string position);
  void OnKeyPage(const kv::ScanResult& page);
  void StartLater();

  MasterContext& context_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_AUDIT_ACCESS_SWEEP_LOOP_H_
