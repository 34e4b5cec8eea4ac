// `escctl operation`.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "escapement/v1/operation_service.grpc.pb.h"
#include "tools/escctl/base/flags.h"
#include "tools/escctl/base/resource_text.h"
#include "tools/escctl/base/watch.h"
#include "tools/escctl/commands/commands.h"

namespace escapement::escctl {
namespace {

using OperationStub = v1::OperationService::Stub;

void GetOperation(Session& session, const std::string& name, const WatchFlags& watch) {
  v1::GetOperationRequest request;
  request.set_name(session.FullName("operations", name));
  const auto get = [&](v1::Operation& operation) {
    return session.Call(&OperationStub::GetOperation, request, operation);
  };
  if (watch.wanted()) {
    return watch.Run(session, OperationHeader(), [&] {
      std::vector<v1::Operation> operation(1);
      grpc::Status status = get(operation[0]);
      return Reading::Of(std::move(status), std::move(operation), OperationRow);
    });
  }
  v1::Operation operation;
  const auto status = get(operation);
  if (!status.ok()) return session.Fail(status);
  PrintOperation(session, operation);
}

}  // namespace

void AddOperationCommands(CLI::App& app, Session& session) {
  CLI::App* group =
      app.add_subcommand("operation", "operations: long work such as a redrive of many events");
  group->require_subcommand(1);
  group->fallthrough();

  CLI::App* list = group->add_subcommand("list", "show operations, the newest first");
  auto flags = std::make_shared<ListFlags>();
  flags->Add(*list, "operations",
             "state (RUNNING, SUCCEEDED, FAILED, CANCELLED) and kind (REDRIVE, PURGE)", "");
  list->callback([flags, &session] {
    flags->Run(
        session, OperationHeader(), &OperationStub::ListOperations, v1::ListOperationsRequest(),
        [](auto& page) { return page.mutable_operations(); }, OperationRow);
  });

  CLI::App* get = group->add_subcommand("get", "show one operation and its progress");
  auto name = std::make_shared<std::string>();
  get->add_option("name", *name, "id or full name")->required();
  auto watch = std::make_shared<WatchFlags>();
  watch->Add(*get);
  get->callback([name, watch, &session] { GetOperation(session, *name, *watch); });

  CLI::App* cancel = group->add_subcommand("cancel", "end a running operation; what it did stays");
  auto request = std::make_shared<v1::CancelOperationRequest>();
  cancel->add_option("name", *name, "id or full name")->required();
  auto request_id = std::make_shared<std::string>();
  AddRequestId(*cancel, *request_id);
  auto dry = AddValidateOnly(*cancel);
  cancel->callback([name, request, request_id, dry, &session] {
    request->set_name(session.FullName("operations", *name));
    request->set_request_id(*request_id);
    request->set_validate_only(*dry);
    v1::Operation operation;
    const auto status = session.Call(&OperationStub::CancelOperation, *request, operation);
    if (!status.ok()) return session.Fail(status);
    PrintOperation(session, operation);
  });
}

}  // namespace escapement::escctl
