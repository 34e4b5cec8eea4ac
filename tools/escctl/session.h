// Session: the common part of all commands of escctl: the flags before the command, the channel,
// printing, and the exit code.

#ifndef TOOLS_ESCCTL_SESSION_H_
#define TOOLS_ESCCTL_SESSION_H_

#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/tls/peer_tls.h"
#include "grpcpp/grpcpp.h"
#include "tools/escctl/output.h"

namespace escapement::escctl {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;

// Adds --validate-only to a command that changes something. The value is set by parsing.
std::shared_ptr<bool> AddValidateOnly(CLI::App& command);

class Session {
 public:
  // Adds --server, --context, --tenant, --timeout, -o and the flags of TLS to `app`. The server is
  // the first of --server, ESCAPEMENT_SERVER, the context and the default; the same for the tenant.
  // A context's TLS is for its own server, and counts unless a flag of TLS is given.
  void AddFlags(CLI::App& app);

  // Throws CLI::ValidationError, which `main` catches, if the context cannot be found or the files
  // of TLS cannot be used.
  std::shared_ptr<grpc::Channel> channel();
  // The file with the contexts.
  static std::string contexts_path();

  // "tenants/{tenant}", from --tenant.
  std::string parent() const;
  // `name` if it is a full resource name, otherwise "{parent}/{collection}/{name}".
  std::string FullName(absl::string_view collection, absl::string_view name) const;

  // Sets the deadline of a call.
  void Prepare(grpc::ClientContext& context) const;
  OutputFormat format() const;

  // Prints data on stdout.
  void Print(absl::string_view text) const;
  // Prints words on stderr.
  void Say(absl::string_view words) const;

  // All three set the exit code.
  void Fail(const grpc::Status& status);
  void FailUsage(absl::string_view words);
  void SetFailed() { exit_code_ = kExitFailed; }  // for errors that the command has printed itself
  int exit_code() const { return exit_code_; }

 private:
  // The end of an error's line: what the user can do.
  std::string Advice(const absl::Status& status) const;
  // After parsing, before the command.
  void TakeContext();

  CLI::Option* server_option_ = nullptr;
  CLI::Option* tenant_option_ = nullptr;
  std::string context_;
  std::string context_problem_;  // empty: none
  std::string server_ = "127.0.0.1:7410";
  std::string tenant_ = "default";
  PeerTls tls_;  // without a CA: no TLS
  std::string output_ = "table";
  double timeout_seconds_ = 30;
  std::shared_ptr<grpc::Channel> channel_;
  int exit_code_ = kExitOk;
};

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_SESSION_H_
