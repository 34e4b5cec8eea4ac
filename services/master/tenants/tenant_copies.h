// TenantCopies: keeps the copies of a cell's tenants as the home cell has them. NewerTenant: which
// of two records of a tenant counts.
//
// The services of a cell find its tenants, with their retention and defaults, in its own store. The
// home cell decides what they are. Every master brings the copies up to date; each is one commit,
// on condition that the copy is as it was read.
//
// A deleted tenant is deleted in its cell first, under the condition that it has nothing there
// (RetireTenant). When the cell has no row of it any more, that is noted in the home cell
// (cell_swept), so that the id can be used again. If a deletion is cut off between the two, the
// tenant cannot be used until the deletion is repeated, or the tenant is changed.
//
// Threads: the executor of the cell's context. Stop it, and that of the home cell's context, before
// the object is destroyed.

#ifndef SERVICES_MASTER_TENANTS_TENANT_COPIES_H_
#define SERVICES_MASTER_TENANTS_TENANT_COPIES_H_

#include <cstdint>

#include "escapement/storage/v1/access_records.pb.h"
#include "services/master/base/master_context.h"
#include "services/master/tenants/tenant_rules.h"

namespace escapement::master {

// True if `a` came after `b`: its tenant was created later, or it is a later version of the same
// one. An empty record comes before all.
bool NewerTenant(const storage::v1::TenantRecord& a, const storage::v1::TenantRecord& b);

class TenantCopies {
 public:
  // All outlive it.
  TenantCopies(MasterContext& home, TenantDirectory& home_tenants, MasterContext& cell,
               TenantDirectory& cell_tenants, uint32_t number)
      : home_(home),
        home_tenants_(home_tenants),
        cell_(cell),
        cell_tenants_(cell_tenants),
        number_(number) {}

  // Looks now, and after changes in either cell. On the executor of the home cell's context.
  void Start();

 private:
  void Wake();
  void Step();
  void OnWritten(bool written);

  MasterContext& home_;
  TenantDirectory& home_tenants_;
  MasterContext& cell_;
  TenantDirectory& cell_tenants_;
  const uint32_t number_;
  int writing_ = 0;      // commits under way
  bool again_ = false;   // something has changed since they began
  bool failed_ = false;  // one of them
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_TENANTS_TENANT_COPIES_H_
