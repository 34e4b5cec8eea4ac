// AuditApi: what the master promises about the audit. The contract of each method is that of its
// RPC in escapement/v1/audit_service.proto; errors carry the details of common/status/errors.h.
//
// Threads: methods may be called from any thread and never block; see common/rpc/done.h for the
// answers.

#ifndef SERVICES_MASTER_API_AUDIT_API_H_
#define SERVICES_MASTER_API_AUDIT_API_H_

#include "escapement/v1/audit_service.pb.h"
#include "services/master/api/done.h"

namespace escapement::master {

class AuditApi {
 public:
  virtual ~AuditApi() = default;

  virtual void ListAuditEntries(v1::ListAuditEntriesRequest request,
                                Done<v1::ListAuditEntriesResponse> done) = 0;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_API_AUDIT_API_H_
