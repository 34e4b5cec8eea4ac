#include "tools/escctl/session.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/printable_text.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"
#include "common/status/errors.h"
#include "tools/escctl/context/contexts.h"
#include "tools/escctl/context/tls_options.h"

namespace escapement::escctl {

std::shared_ptr<bool> AddValidateOnly(CLI::App& command) {
  auto wanted = std::make_shared<bool>(false);
  command.add_flag("--validate-only", *wanted, "check and show the result, but change nothing");
  return wanted;
}

void Session::AddFlags(CLI::App& app) {
  server_option_ = app.add_option("--server", server_, "host:port of a master")
                       ->envname("ESCAPEMENT_SERVER")
                       ->capture_default_str();
  app.add_option("--context", context_,
                 "name of a server and tenant; default: the current context of escctl config");
  tenant_option_ = app.add_option("--tenant", tenant_, "tenant of short names")
                       ->envname("ESCAPEMENT_TENANT")
                       ->capture_default_str();
  AddTlsFlags(app, tls_);
  app.parse_complete_callback([this] { TakeContext(); });
  app.add_option("--timeout", timeout_seconds_, "most seconds that one call may take")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("-o,--output", output_, "table, json or yaml")
      ->check(CLI::IsMember({"table", "json", "yaml"}))
      ->capture_default_str();
}

std::shared_ptr<grpc::Channel> Session::channel() {
  if (!context_problem_.empty()) throw CLI::ValidationError("--context", context_problem_);
  if (channel_ != nullptr) return channel_;
  if (const absl::Status status = CheckTlsFlags(tls_); !status.ok())
    throw CLI::ValidationError(std::string(status.message()));
  ChannelOptions options;
  if (!tls_.ca.empty()) options.tls = tls_;
  channel_ = NewChannel(server_, options);
  return channel_;
}

std::string Session::contexts_path() {
  return ContextsPath([](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::make_optional<std::string>(value);
  });
}

void Session::TakeContext() {
  const bool server_given = server_option_->count() > 0;
  if (server_given && context_.empty()) return;
  const auto contexts = LoadContexts(contexts_path());
  const auto context = contexts.ok() ? ChooseContext(*contexts, context_) : contexts.status();
  if (!context.ok()) {
    context_problem_ = std::string(context.status().message());
    return;
  }
  if (!context->has_value()) return;
  if (server_given) {
    Say(absl::StrCat("escctl: the server is ", server_,
                     ", because --server and ESCAPEMENT_SERVER go before --context"));
  } else {
    server_ = (*context)->server;
    if (tls_.ca.empty() && tls_.cert.empty() && tls_.key.empty())
      tls_ = {(*context)->tls_ca, (*context)->tls_cert, (*context)->tls_key};
  }
  if (tenant_option_->count() == 0 && !(*context)->tenant.empty()) tenant_ = (*context)->tenant;
}

std::string Session::parent() const { return absl::StrCat("tenants/", tenant_); }

std::string Session::FullName(absl::string_view collection, absl::string_view name) const {
  if (absl::StartsWith(name, "tenants/")) return std::string(name);
  return absl::StrCat(parent(), "/", collection, "/", name);
}

void Session::Prepare(grpc::ClientContext& context) const {
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(static_cast<int64_t>(timeout_seconds_ * 1000)));
}

OutputFormat Session::format() const {
  if (output_ == "json") return OutputFormat::kJson;
  return output_ == "yaml" ? OutputFormat::kYaml : OutputFormat::kTable;
}

void Session::Print(absl::string_view text) const {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

void Session::Say(absl::string_view words) const {
  std::fprintf(stderr, "%s\n", EscapeForTerminal(words).c_str());
}

std::string Session::Advice(const absl::Status& status) const {
  if (absl::IsUnavailable(status)) {
    const absl::string_view tls = TlsAdvice(status.message(), !tls_.ca.empty());
    if (!tls.empty()) return absl::StrCat("; ", tls);
    return absl::StrCat("; is a master at ", server_, "? --server or --context names another one");
  }
  if (absl::IsDeadlineExceeded(status)) return "; --timeout gives the call more time";
  return "";
}

void Session::Fail(const grpc::Status& wire) {
  const absl::Status status = FromGrpcStatus(wire);
  const std::string code = absl::StatusCodeToString(status.code());
  const auto violations = FieldViolationsOf(status);
  for (const auto& [field, description] : violations)
    Say(absl::StrCat("escctl: ", code, ": ", field, ": ", description));
  if (violations.empty())
    Say(absl::StrCat("escctl: ", code, ": ", status.message(), Advice(status)));
  exit_code_ = kExitFailed;
}

void Session::FailUsage(absl::string_view words) {
  Say(absl::StrCat("escctl: ", words));
  exit_code_ = kExitUsage;
}

}  // namespace escapement::escctl
