// AuditService: reads the audit. common/auth/audit_log.h writes it.
//
// Threads: as master_apis.h.

#ifndef SERVICES_MASTER_AUDIT_AUDIT_SERVICE_H_
#define SERVICES_MASTER_AUDIT_AUDIT_SERVICE_H_

#include <vector>

#include "escapement/v1/audit_service.pb.h"
#include "services/master/api/master_apis.h"
#include "services/master/base/master_context.h"
#include "services/master/sweeps/sweep_loop.h"

namespace escapement::master {

class AuditService {
 public:
  // `home`: where the audit of the tenants' keys and of refused calls is, if the context is not
  // that of the home cell. Both outlive the service.
  AuditService(MasterContext& context, kv::KvClient* home) : context_(context), home_(home) {}

  void ListAuditEntries(v1::ListAuditEntriesRequest request,
                        Done<v1::ListAuditEntriesResponse> done);

 private:
  MasterContext& context_;
  kv::KvClient* const home_;  // null: the context is that of the home cell
};

// AccessSweep: audit entries that are older than their retention, and keys that were revoked or
// have expired as long ago, except those from a file (key_service.h); for a SweepLoop.

std::vector<SweptRows> AccessSweep();

}  // namespace escapement::master

#endif  // SERVICES_MASTER_AUDIT_AUDIT_SERVICE_H_
