// `escctl audit`.

#include <google/protobuf/util/time_util.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "escapement/v1/audit_service.grpc.pb.h"
#include "tools/escctl/base/flags.h"
#include "tools/escctl/commands/commands.h"

namespace escapement::escctl {
namespace {

using google::protobuf::util::TimeUtil;
using v1::AuditEntry;
using AuditStub = v1::AuditService::Stub;

std::string Version(int64_t version) { return version == 0 ? "-" : absl::StrCat(version); }

Row ToRow(const AuditEntry& entry) {
  const bool versions = entry.version_before() != 0 || entry.version_after() != 0;
  return {TimeUtil::ToString(entry.time()),
          entry.principal(),
          entry.role() == v1::Access::ROLE_UNSPECIFIED ? "-" : v1::Access::Role_Name(entry.role()),
          entry.method(),
          entry.resource().empty() ? "-" : entry.resource(),
          versions ? absl::StrCat(Version(entry.version_before()), " to ",
                                  Version(entry.version_after()))
                   : "-",
          entry.reason().empty() ? entry.result()
                                 : absl::StrCat(entry.result(), " (", entry.reason(), ")"),
          entry.source()};
}

}  // namespace

void AddAuditCommands(CLI::App& app, Session& session) {
  CLI::App* group = app.add_subcommand("audit", "audit: who changed what");
  group->require_subcommand(1);
  group->fallthrough();
  CLI::App* list =
      group->add_subcommand("list", "show changes and refused calls, the newest first");
  auto flags = std::make_shared<ListFlags>();
  flags->AddWithoutWatch(*list, "entries",
                         "principal, method, resource, result and time, e.g. result != OK", "");
  auto all_tenants = std::make_shared<bool>(false);
  list->add_flag("--all-tenants", *all_tenants,
                 "show those that concern all tenants: tenants, their keys, the store");
  list->callback([flags, all_tenants, &session] {
    v1::ListAuditEntriesRequest request;
    if (*all_tenants) request.set_parent("tenants/-");
    flags->Run(
        session, {"TIME", "PRINCIPAL", "ROLE", "METHOD", "RESOURCE", "VERSION", "RESULT", "SOURCE"},
        &AuditStub::ListAuditEntries, request,
        [](auto& page) { return page.mutable_audit_entries(); }, ToRow);
  });
}

}  // namespace escapement::escctl
