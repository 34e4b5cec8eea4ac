// `escctl tenant` and `escctl quota`.

#include <google/protobuf/util/time_util.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rest/json_bytes.h"
#include "escapement/v1/tenant_service.grpc.pb.h"
#include "tools/escctl/base/flags.h"
#include "tools/escctl/commands/commands.h"
#include "tools/escctl/commands/quota_flags.h"

namespace escapement::escctl {
namespace {

using google::protobuf::util::TimeUtil;
using v1::Tenant;
using TenantStub = v1::TenantService::Stub;

const Row& TenantHeader() {
  static const Row header = {"NAME", "STATE", "DISPLAY NAME", "CREATED", "VERSION", "CELL"};
  return header;
}

Row TenantRow(const Tenant& tenant) {
  return {tenant.name(),
          Tenant::State_Name(tenant.state()),
          tenant.display_name(),
          TimeUtil::ToString(tenant.create_time()),
          absl::StrCat(tenant.version()),
          tenant.cell()};
}

// The full name; without a name that of --tenant.
std::string TenantName(const Session& session, const std::string& name) {
  if (name.empty()) return session.parent();
  return absl::StartsWith(name, "tenants/") ? name : absl::StrCat("tenants/", name);
}

// Makes one call that answers with a tenant, and prints the tenant.
template <typename Request>
void CallAndPrint(Session& session, const Request& request,
                  grpc::Status (TenantStub::*method)(grpc::ClientContext*, const Request&,
                                                     Tenant*)) {
  Tenant tenant;
  const grpc::Status status = session.Call(method, request, tenant);
  if (!status.ok()) return session.Fail(status);
  if (session.format() != OutputFormat::kTable)
    return session.Print(FormatMessage(tenant, session.format()));
  session.Print(FormatTable(TenantHeader(), {TenantRow(tenant)}));
}

// Flags of create and update.
struct TenantFlags {
  std::optional<std::string> display_name;
  std::optional<std::string> state;
  std::optional<std::string> retention;
  std::optional<std::string> defaults;
  QuotaFlags quotas;

  void Add(CLI::App& command) {
    command.add_option("--display-name", display_name, "text for people");
    command
        .add_option("--state", state,
                    "ACTIVE, or SUSPENDED: nothing in the tenant can be changed, and its schedules "
                    "keep firing")
        ->transform(CLI::IsMember({"ACTIVE", "SUSPENDED"}, CLI::ignore_case));
    command.add_option(
        "--retention", retention,
        "how long outcomes are kept, for example 720h; 0: as long as the platform's");
    command.add_option(
        "--defaults", defaults,
        "what holds where an event or schedule is silent, as JSON (TenantDefaults), or @FILE");
    quotas.Add(command);
  }

  absl::Status Apply(Tenant& tenant, std::vector<std::string>& fields) const {
    if (display_name.has_value()) {
      tenant.set_display_name(*display_name);
      fields.push_back("display_name");
    }
    Tenant::State parsed{};
    if (state.has_value() && Tenant::State_Parse(*state, &parsed)) {  // CLI11 has checked it
      tenant.set_state(parsed);
      fields.push_back("state");
    }
    if (retention.has_value()) {
      ASSIGN_OR_RETURN(const auto parsed_retention, ParseDurationFlag("--retention", *retention));
      if (TimeUtil::DurationToNanoseconds(parsed_retention) != 0)
        *tenant.mutable_retention() = parsed_retention;
      fields.push_back("retention");
    }
    if (defaults.has_value()) {
      ASSIGN_OR_RETURN(const std::string text, TextOrFile(*defaults));
      if (absl::Status status = rest::MessageFromJson(text, *tenant.mutable_defaults());
          !status.ok())
        return absl::InvalidArgumentError(absl::StrCat("--defaults: ", status.message()));
      fields.push_back("defaults");
    }
    quotas.Apply(*tenant.mutable_quotas(), fields);
    return absl::OkStatus();
  }
};

void AddTenantCreate(CLI::App& group, Session& session) {
  struct Options {
    std::string id;
    std::string request_id;
    std::string cell;
    TenantFlags flags;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = group.add_subcommand("create", "create a tenant");
  command->add_option("id", o->id, "last part of its name: a-z, 0-9 and '-'")->required();
  AddRequestId(*command, o->request_id);
  command->add_option("--cell", o->cell,
                      "number of the cell that it is in, for good; default: the one with the "
                      "fewest tenants for its weight");
  auto dry = AddValidateOnly(*command);
  o->flags.Add(*command);
  command->callback([o, dry, &session] {
    v1::CreateTenantRequest request;
    if (!o->cell.empty()) request.mutable_tenant()->set_cell(absl::StrCat("cells/", o->cell));
    std::vector<std::string> fields;
    if (absl::Status status = o->flags.Apply(*request.mutable_tenant(), fields); !status.ok())
      return session.FailUsage(std::string(status.message()));
    request.set_tenant_id(o->id);
    request.set_request_id(o->request_id);
    request.set_validate_only(*dry);
    CallAndPrint(session, request, &TenantStub::CreateTenant);
  });
}

void AddGetAndList(CLI::App& group, Session& session) {
  auto name = std::make_shared<std::string>();
  CLI::App* get = group.add_subcommand("get", "show one tenant");
  get->add_option("name", *name, "id or full name; default: the tenant of --tenant");
  get->callback([name, &session] {
    v1::GetTenantRequest request;
    request.set_name(TenantName(session, *name));
    CallAndPrint(session, request, &TenantStub::GetTenant);
  });
  auto flags = std::make_shared<ListFlags>();
  CLI::App* list = group.add_subcommand("list", "show the tenants that you may see");
  flags->Add(*list, "tenants", "", "");
  list->callback([flags, &session] {
    flags->Run(
        session, TenantHeader(), &TenantStub::ListTenants, v1::ListTenantsRequest(),
        [](auto& page) { return page.mutable_tenants(); }, TenantRow);
  });
}

void AddUpdate(CLI::App& group, Session& session) {
  struct Options {
    std::string name;
    std::string etag;
    TenantFlags flags;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = group.add_subcommand("update", "change the given fields");
  command->add_option("name", o->name, "id or full name")->required();
  command->add_option("--etag", o->etag, "change it only if this is its current etag");
  auto dry = AddValidateOnly(*command);
  o->flags.Add(*command);
  command->callback([o, dry, &session] {
    v1::UpdateTenantRequest request;
    std::vector<std::string> fields;
    if (absl::Status status = o->flags.Apply(*request.mutable_tenant(), fields); !status.ok())
      return session.FailUsage(std::string(status.message()));
    if (fields.empty()) return session.FailUsage("give at least one flag that changes something");
    for (const std::string& field : fields) request.mutable_update_mask()->add_paths(field);
    request.mutable_tenant()->set_name(TenantName(session, o->name));
    request.mutable_tenant()->set_etag(o->etag);
    request.set_validate_only(*dry);
    CallAndPrint(session, request, &TenantStub::UpdateTenant);
  });
}

void AddDelete(CLI::App& group, Session& session) {
  auto name = std::make_shared<std::string>();
  auto etag = std::make_shared<std::string>();
  CLI::App* command = group.add_subcommand(
      "delete",
      "delete a tenant and its keys\n"
      "It must have been SUSPENDED for ten seconds and have no schedules and policies.");
  command->add_option("name", *name, "id or full name")->required();
  command->add_option("--etag", *etag, "change it only if this is its current etag");
  auto dry = AddValidateOnly(*command);
  command->callback([name, etag, dry, &session] {
    v1::DeleteTenantRequest request;
    request.set_name(TenantName(session, *name));
    request.set_etag(*etag);
    request.set_validate_only(*dry);
    google::protobuf::Empty nothing;
    const grpc::Status status = session.Call(&TenantStub::DeleteTenant, request, nothing);
    if (!status.ok()) return session.Fail(status);
    session.Say(absl::StrCat(*dry ? "can be deleted: " : "deleted ", request.name()));
  });
}

void PrintUsage(Session& session, const std::string& tenant) {
  v1::GetTenantUsageRequest request;
  request.set_name(tenant);
  v1::TenantUsage usage;
  const grpc::Status status = session.Call(&TenantStub::GetTenantUsage, request, usage);
  if (!status.ok()) return session.Fail(status);
  if (session.format() != OutputFormat::kTable)
    return session.Print(FormatMessage(usage, session.format()));
  session.Print(FormatTable(UsageHeader(), UsageRows(usage)));
}

}  // namespace

void AddTenantCommands(CLI::App& app, Session& session) {
  CLI::App* group = app.add_subcommand("tenant", "tenants: owners of schedules, policies and keys");
  group->require_subcommand(1);
  group->fallthrough();
  AddTenantCreate(*group, session);
  AddGetAndList(*group, session);
  AddUpdate(*group, session);
  AddDelete(*group, session);
}

void AddQuotaCommands(CLI::App& app, Session& session) {
  CLI::App* group = app.add_subcommand("quota", "quotas: what a tenant may use");
  group->require_subcommand(1);
  group->fallthrough();
  auto get_name = std::make_shared<std::string>();
  CLI::App* get = group->add_subcommand("get", "show what a tenant uses beside its bounds");
  get->add_option("tenant", *get_name, "id or full name; default: the tenant of --tenant");
  get->callback([get_name, &session] { PrintUsage(session, TenantName(session, *get_name)); });

  auto name = std::make_shared<std::string>();
  auto quotas = std::make_shared<QuotaFlags>();
  CLI::App* set = group->add_subcommand("set", "change the given bounds");
  set->add_option("tenant", *name, "id or full name")->required();
  quotas->Add(*set);
  set->callback([name, quotas, &session] {
    v1::UpdateTenantRequest request;
    std::vector<std::string> fields;
    quotas->Apply(*request.mutable_tenant()->mutable_quotas(), fields);
    if (fields.empty()) return session.FailUsage("give at least one flag that changes something");
    for (const std::string& field : fields) request.mutable_update_mask()->add_paths(field);
    request.mutable_tenant()->set_name(TenantName(session, *name));
    Tenant tenant;
    const grpc::Status status = session.Call(&TenantStub::UpdateTenant, request, tenant);
    if (!status.ok()) return session.Fail(status);
    PrintUsage(session, tenant.name());
  });
}

}  // namespace escapement::escctl
