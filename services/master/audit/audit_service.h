// AuditService: reads the audit. common/auth/audit_log.h writes it.
//
// Threads: as AuditApi.

#ifndef SERVICES_MASTER_AUDIT_AUDIT_SERVICE_H_
#define SERVICES_MASTER_AUDIT_AUDIT_SERVICE_H_

#include "services/master/api/audit_api.h"
#include "services/master/base/master_context.h"

namespace escapement::master {

class AuditService final : public AuditApi {
 public:
  // `context` outlives the service.
  explicit AuditService(MasterContext& context) : context_(context) {}

  void ListAuditEntries(v1::ListAuditEntriesRequest request,
                        Done<v1::ListAuditEntriesResponse> done) override;

 private:
  MasterContext& context_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_AUDIT_AUDIT_SERVICE_H_
