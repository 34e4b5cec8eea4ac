#include "tools/escctl/base/session.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/printable_text.h"
#include "common/rpc/channel.h"
#include "common/rpc/host_port.h"
#include "common/rpc/status_conversion.h"
#include "common/status/errors.h"
#include "tools/escctl/base/contexts.h"
#include "tools/escctl/base/flags.h"
#include "tools/escctl/base/key_file.h"

namespace escapement::escctl {

namespace {

constexpr char kKeyVariable[] = "ESCAPEMENT_KEY";

std::string KeyOfEnvironment() {
  const char* value = std::getenv(kKeyVariable);
  return value == nullptr ? "" : std::string(absl::StripAsciiWhitespace(value));
}

int ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
      return kExitNotFound;
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return kExitNotAllowed;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return kExitUnavailable;
    default:
      return kExitFailed;
  }
}

bool IsLoopback(const std::string& server) {
  const auto address = ParseHostPort(server);
  return address.ok() && address->IsLoopback();
}

}  // namespace

std::shared_ptr<bool> AddValidateOnly(CLI::App& command) {
  auto wanted = std::make_shared<bool>(false);
  command.add_flag("--validate-only", *wanted, "check and show the result, but change nothing");
  return wanted;
}

void AddRequestId(CLI::App& command, std::string& request_id) {
  command.add_option("--request-id", request_id,
                     "makes it safe to repeat: the same id returns the first answer");
}

void Session::AddFlags(CLI::App& app) {
  app_ = &app;
  server_option_ = app.add_option("--server", server_, "host:port of a master")
                       ->envname("ESCAPEMENT_SERVER")
                       ->capture_default_str();
  app.add_option("--context", context_,
                 "name of a server and tenant; default: the current context of escctl config");
  tenant_option_ = app.add_option("--tenant", tenant_, "tenant of short names")
                       ->envname("ESCAPEMENT_TENANT")
                       ->capture_default_str();
  app.add_option("--key-file", key_file_,
                 "file with the API key that is sent with every call; ESCAPEMENT_KEY may hold the "
                 "key itself")
      ->envname("ESCAPEMENT_KEY_FILE");
  app.add_flag("--insecure-key", insecure_key_,
               "send the key to another machine without TLS: whoever sees the connection has it");
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
  if (const absl::Status status = ReadKey(); !status.ok())
    throw CLI::ValidationError(std::string(status.message()));
  ChannelOptions options;
  if (!tls_.ca.empty()) options.tls = tls_;
  channel_ = NewChannel(server_, options);
  return channel_;
}

void Session::CallServer(const std::string& server) {
  server_ = server;
  channel_ = nullptr;
}

std::string Session::contexts_path() {
  return ContextsPath([](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::make_optional<std::string>(value);
  });
}

absl::Status Session::ReadKey() {
  if (!key_file_.empty()) {
    auto key = ReadKeyFile(key_file_);
    if (!key.ok())
      return absl::InvalidArgumentError(absl::StrCat("--key-file: ", key.status().message()));
    key_ = *std::move(key);
    key_source_ = absl::StrCat("--key-file ", key_file_);
  } else if (std::string key = KeyOfEnvironment(); !key.empty()) {
    if (const absl::Status status = CheckKeyText(key); !status.ok())
      return absl::InvalidArgumentError(absl::StrCat(kKeyVariable, ": ", status.message()));
    key_ = std::move(key);
    key_source_ = kKeyVariable;
  }
  if (key_.empty() || !tls_.ca.empty() || insecure_key_ || IsLoopback(server_))
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--key-file: without TLS everybody on the way to ", server_,
                   " can read the key; give --tls-ca, or --insecure-key to send it all the same"));
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
    if (key_file_.empty() && KeyOfEnvironment().empty()) key_file_ = (*context)->key_file;
  }
  if (tenant_option_->count() == 0 && !(*context)->tenant.empty()) tenant_ = (*context)->tenant;
}

std::string Session::parent() const { return absl::StrCat("tenants/", tenant_); }

std::string Session::FullName(absl::string_view collection, absl::string_view name) const {
  if (absl::StartsWith(name, "tenants/")) return std::string(name);
  return absl::StrCat(parent(), "/", collection, "/", name);
}

void Session::Authorize(grpc::ClientContext& context) {
  channel();  // reads the key and checks that it may be sent
  if (!key_.empty()) context.AddMetadata("authorization", absl::StrCat("Bearer ", key_));
}

void Session::SetDeadline(grpc::ClientContext& context) const {
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
  std::fprintf(stderr, "%s\n", EscapeForTerminal(WithoutKeys(words)).c_str());
}

std::string Session::Advice(const absl::Status& status) const {
  if (absl::IsUnavailable(status)) {
    const absl::string_view tls = TlsAdvice(status.message(), !tls_.ca.empty());
    if (!tls.empty()) return absl::StrCat("; ", tls);
    // A master has answered, so the error is of what is behind it.
    if (channel_ != nullptr && channel_->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY)
      return "";
    return absl::StrCat("; is a master at ", server_, "? --server or --context names another one");
  }
  if (absl::IsDeadlineExceeded(status)) return "; --timeout gives the call more time";
  if (absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status))
    return AdviceOnKey(status);
  return "";
}

std::string Session::AdviceOnKey(const absl::Status& status) const {
  const std::string reason = ErrorReason(status);
  if (reason == "NEEDS_ALL_TENANTS")
    return "; --key-file or --context chooses a key for all tenants";
  if (absl::IsPermissionDenied(status))
    return "; --key-file or --context chooses a key with another role";
  if (key_.empty()) return "; --key-file gives a file with one, also in escctl config set-context";
  if (reason == "CREDENTIAL_REVOKED" || reason == "CREDENTIAL_EXPIRED") {
    return absl::StrCat("; it is from ", key_source_,
                        ", and an admin makes another one with escctl key create");
  }
  return absl::StrCat("; the key is from ", key_source_, ": is it for the server ", server_, "?");
}

const CLI::App& CommandOf(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  return *command;
}

void Session::Fail(const grpc::Status& wire) {
  const absl::Status status = FromGrpcStatus(wire);
  const std::string code = absl::StatusCodeToString(status.code());
  const auto violations = FieldViolationsOf(status);
  for (const auto& [field, description] : violations) {
    const std::string flag = app_ == nullptr ? "" : FlagOfField(CommandOf(*app_), field);
    Say(absl::StrCat("escctl: ", code, ": ", flag.empty() ? field : flag, ": ", description));
  }
  if (violations.empty())
    Say(absl::StrCat("escctl: ", code, ": ", status.message(), Advice(status)));
  exit_code_ = ExitCodeOf(status);
}

void Session::FailUsage(absl::string_view words) {
  Say(absl::StrCat("escctl: ", words));
  exit_code_ = kExitUsage;
}

void AddTlsFlags(CLI::App& app, PeerTls& tls) {
  app.add_option("--tls-ca", tls.ca,
                 "PEM file with the authorities of the server; escctl uses TLS if it is set");
  app.add_option("--tls-cert", tls.cert, "PEM file with your client certificate");
  app.add_option("--tls-key", tls.key, "PEM file with the key of --tls-cert");
}

absl::Status CheckTlsFlags(const PeerTls& tls) {
  if (tls.cert.empty() != tls.key.empty())
    return absl::InvalidArgumentError("--tls-cert and --tls-key: each needs the other one");
  if (!tls.ca.empty()) return CheckPeerTls(tls);
  if (tls.cert.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("--tls-cert: needs --tls-ca as well");
}

absl::string_view TlsAdvice(absl::string_view words, bool tls) {
  const auto has = [&](absl::string_view part) { return absl::StrContains(words, part); };
  if (!tls) {
    // A TLS server ends a connection that does not begin with a handshake.
    return has("Socket closed") || has("Connection reset")
               ? "does the server use TLS? Then --tls-ca is needed"
               : "";
  }
  if (has("WRONG_VERSION_NUMBER") || has("wrong version number"))
    return "the server does not use TLS; leave --tls-ca out";
  if (has("CERTIFICATE_VERIFY_FAILED") || has("certificate verify failed"))
    return "the server's certificate is not from the authorities in --tls-ca";
  if (has("Hostname Verification")) return "the server's certificate is for another host";
  if (has("Socket closed") || has("Connection reset"))
    return "the server may not accept the certificate in --tls-cert";
  return "";
}

}  // namespace escapement::escctl
