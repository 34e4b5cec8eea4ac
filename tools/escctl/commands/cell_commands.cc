// `escctl cell`: the cells of an installation.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "common/kv/wire/leader_search.h"
#include "escapement/v1/cell_service.grpc.pb.h"
#include "tools/escctl/base/flags.h"
#include "tools/escctl/commands/commands.h"

namespace escapement::escctl {
namespace {

using CellStub = v1::CellService::Stub;

const Row& CellHeader() {
  static const Row header = {"NAME", "STATE", "WEIGHT", "TENANTS", "STORE"};
  return header;
}

Row CellRow(const v1::Cell& cell) {
  return {cell.name(), v1::Cell::State_Name(cell.state()), absl::StrCat(cell.weight()),
          absl::StrCat(cell.tenant_count()),
          cell.store_address().empty() ? "that of the masters" : cell.store_address()};
}

std::string CellName(const std::string& name) {
  return absl::StartsWith(name, "cells/") ? name : absl::StrCat("cells/", name);
}

// Makes one call that answers with a cell, and prints the cell.
template <typename Request>
void CallForCell(Session& session, const Request& request,
                 grpc::Status (CellStub::*method)(grpc::ClientContext*, const Request&,
                                                  v1::Cell*)) {
  v1::Cell cell;
  const grpc::Status status = session.Call(method, request, cell);
  if (!status.ok()) return session.Fail(status);
  if (session.format() != OutputFormat::kTable)
    return session.Print(FormatMessage(cell, session.format()));
  session.Print(FormatTable(CellHeader(), {CellRow(cell)}));
}

void AddCellCreate(CLI::App& group, Session& session) {
  auto id = std::make_shared<std::string>();
  auto store = std::make_shared<std::string>();
  auto weight = std::make_shared<double>(1);
  auto request_id = std::make_shared<std::string>();
  auto if_missing = std::make_shared<bool>(false);
  CLI::App* command = group.add_subcommand(
      "create", "add a cell\nIts store must run already, with the flag --cell.");
  command->add_option("id", *id, "number of the cell: 1 to 63")->required();
  command->add_option("--store", *store, "host:port of its store; several with commas")->required();
  command->add_option("--weight", *weight, "its share of new tenants, beside that of others")
      ->capture_default_str();
  command->add_flag("--if-missing", *if_missing,
                    "show the cell and change nothing if it exists with this store");
  AddRequestId(*command, *request_id);
  auto dry = AddValidateOnly(*command);
  command->callback([id, store, weight, request_id, if_missing, dry, &session] {
    v1::GetCellRequest get;
    get.set_name(CellName(*id));
    v1::Cell existing;
    if (*if_missing && session.Call(&CellStub::GetCell, get, existing).ok() &&
        existing.store_address() == *store)
      return CallForCell(session, get, &CellStub::GetCell);
    v1::CreateCellRequest request;
    request.set_cell_id(*id);
    request.mutable_cell()->set_store_address(*store);
    request.mutable_cell()->set_weight(*weight);
    request.set_request_id(*request_id);
    request.set_validate_only(*dry);
    CallForCell(session, request, &CellStub::CreateCell);
  });
}

void AddCellGetAndList(CLI::App& group, Session& session) {
  auto name = std::make_shared<std::string>();
  CLI::App* get = group.add_subcommand("get", "show one cell");
  get->add_option("name", *name, "number or full name")->required();
  get->callback([name, &session] {
    v1::GetCellRequest request;
    request.set_name(CellName(*name));
    CallForCell(session, request, &CellStub::GetCell);
  });
  group.add_subcommand("list", "show all cells")->callback([&session] {
    v1::ListCellsResponse response;
    const grpc::Status status =
        session.Call(&CellStub::ListCells, v1::ListCellsRequest(), response);
    if (!status.ok()) return session.Fail(status);
    PrintList(session, CellHeader(),
              std::vector<v1::Cell>(response.cells().begin(), response.cells().end()), CellRow);
  });
}

void AddCellState(CLI::App& group, Session& session, const char* word, const char* description,
                  v1::Cell::State state) {
  auto name = std::make_shared<std::string>();
  CLI::App* command = group.add_subcommand(word, description);
  command->add_option("name", *name, "number or full name")->required();
  command->callback([name, state, &session] {
    v1::UpdateCellRequest request;
    request.mutable_cell()->set_name(CellName(*name));
    request.mutable_cell()->set_state(state);
    request.mutable_update_mask()->add_paths("state");
    CallForCell(session, request, &CellStub::UpdateCell);
  });
}

void AddCellUpdate(CLI::App& group, Session& session) {
  auto name = std::make_shared<std::string>();
  auto weight = std::make_shared<double>();
  CLI::App* command = group.add_subcommand("update", "change the weight of a cell");
  command->add_option("name", *name, "number or full name")->required();
  command->add_option("--weight", *weight, "its share of new tenants, beside that of others")
      ->required();
  command->callback([name, weight, &session] {
    v1::UpdateCellRequest request;
    request.mutable_cell()->set_name(CellName(*name));
    request.mutable_cell()->set_weight(*weight);
    request.mutable_update_mask()->add_paths("weight");
    CallForCell(session, request, &CellStub::UpdateCell);
  });
}

std::string DurationText(const google::protobuf::Duration& duration) {
  return absl::FormatDuration(
      absl::Trunc(absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos()),
                  absl::Milliseconds(1)));
}

// The leader of its store, and how many of the other replicas are not behind.
std::string LeaderOf(const v1::CellStatus& status) {
  if (!status.has_store()) return "-";
  if (!status.store().has_replication()) return "not replicated";
  if (!kv::OfLeader(status.store())) return "none";
  int followers = 0;
  int behind = 0;
  for (const v1::StoreReplica& replica : status.store().replication().replicas()) {
    if (replica.role() == v1::StoreReplica::LEADER) continue;
    ++followers;
    if (replica.role() != v1::StoreReplica::FOLLOWER || replica.behind().seconds() > 0) ++behind;
  }
  return absl::StrCat(status.store().replication().leader_address(), ", ", followers - behind,
                      " of ", followers, " follow");
}

Row CellStatusRow(const v1::CellStatus& status) {
  if (!status.serving()) return {status.name(), "no: " + status.problem(), "-", "-", "-", "-", "-"};
  return {status.name(),
          "yes",
          LeaderOf(status),
          absl::StrCat(status.queued_count()),
          status.has_emission_behind() ? DurationText(status.emission_behind()) : "-",
          absl::StrFormat("%.1f", status.ended_per_second()),
          absl::StrCat(status.late_count(), ", ", DurationText(status.lateness_max()))};
}

void RunCellStatus(Session& session, const std::string& name) {
  std::vector<std::string> names;
  if (!name.empty()) {
    names.push_back(CellName(name));
  } else {
    v1::ListCellsResponse cells;
    const grpc::Status status = session.Call(&CellStub::ListCells, v1::ListCellsRequest(), cells);
    if (!status.ok()) return session.Fail(status);
    for (const v1::Cell& cell : cells.cells()) names.push_back(cell.name());
  }
  std::vector<v1::CellStatus> all;
  for (const std::string& one : names) {
    v1::GetCellStatusRequest request;
    request.set_name(one);
    const grpc::Status status = session.Call(&CellStub::GetCellStatus, request, all.emplace_back());
    if (!status.ok()) return session.Fail(status);
  }
  PrintList(session,
            {"NAME", "SERVED", "STORE'S LEADER", "QUEUED", "EMISSION BEHIND", "ENDED/S",
             "LATE, BY AT MOST"},
            all, CellStatusRow);
}

}  // namespace

void AddCellCommands(CLI::App& app, Session& session) {
  CLI::App* group =
      app.add_subcommand("cell", "cells: stores with their services, which share the tenants");
  group->require_subcommand(1);
  group->fallthrough();
  AddCellCreate(*group, session);
  AddCellGetAndList(*group, session);
  AddCellUpdate(*group, session);
  AddCellState(*group, session, "drain", "let a cell take no new tenants; those that it has stay",
               v1::Cell::DRAINING);
  AddCellState(*group, session, "open", "let a cell take new tenants again", v1::Cell::OPEN);
  auto name = std::make_shared<std::string>();
  CLI::App* status = group->add_subcommand(
      "status", "show who leads, what is queued and how late cells are, in the last full minute");
  status->add_option("name", *name, "number or full name; default: all cells");
  status->callback([name, &session] { RunCellStatus(session, *name); });
}

}  // namespace escapement::escctl
