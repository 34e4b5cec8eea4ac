#include "tools/escctl/session.h"

#include <chrono>
#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/printable_text.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"
#include "common/status/errors.h"

namespace escapement::escctl {

void Session::AddFlags(CLI::App& app) {
  app.add_option("--server", server_, "host:port of a master")
      ->envname("ESCAPEMENT_SERVER")
      ->capture_default_str();
  app.add_option("--tenant", tenant_, "tenant of short names")
      ->envname("ESCAPEMENT_TENANT")
      ->capture_default_str();
  app.add_option("--timeout", timeout_seconds_, "most seconds that one call may take")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("-o,--output", output_, "table, json or yaml")
      ->check(CLI::IsMember({"table", "json", "yaml"}))
      ->capture_default_str();
}

std::shared_ptr<grpc::Channel> Session::channel() {
  if (channel_ == nullptr) channel_ = NewChannel(server_);
  return channel_;
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

void Session::Fail(const grpc::Status& wire) {
  const absl::Status status = FromGrpcStatus(wire);
  const auto violations = FieldViolationsOf(status);
  if (violations.empty()) {
    Say(absl::StrCat("escctl: ", absl::StatusCodeToString(status.code()), ": ", status.message()));
  } else {
    Say(absl::StrCat("escctl: ", absl::StatusCodeToString(status.code())));
    for (const auto& [field, description] : violations)
      Say(absl::StrCat("  ", field, ": ", description));
  }
  exit_code_ = kExitFailed;
}

void Session::FailUsage(absl::string_view words) {
  Say(absl::StrCat("escctl: ", words));
  exit_code_ = kExitUsage;
}

}  // namespace escapement::escctl
