// Session: the common part of all commands of escctl: the flags before the command, the channel and
// the API key, calls, printing, and the exit code.

#ifndef TOOLS_ESCCTL_BASE_SESSION_H_
#define TOOLS_ESCCTL_BASE_SESSION_H_

#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/tls/tls_files.h"
#include "grpcpp/grpcpp.h"
#include "tools/escctl/base/output.h"

namespace escapement::escctl {

// The deepest command that the command line names.
const CLI::App& CommandOf(const CLI::App& app);

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;  // refused, or any other error
inline constexpr int kExitUsage = 2;
inline constexpr int kExitNotFound = 3;
inline constexpr int kExitNotAllowed = 4;   // no key, or one that may not do this
inline constexpr int kExitUnavailable = 5;  // not reached, or no answer in time: worth a retry

// Adds --validate-only to a command that changes something. The value is set by parsing.
std::shared_ptr<bool> AddValidateOnly(CLI::App& command);
// Adds --request-id, which makes such a command safe to repeat. `request_id` outlives the parsing.
void AddRequestId(CLI::App& command, std::string& request_id);

class Session {
 public:
  // Adds --server, --context, --tenant, --timeout, -o and the flags of the key and of TLS to `app`.
  // The server is the first of --server, ESCAPEMENT_SERVER, the context and the default; the same
  // for the tenant. A context's TLS and key are for its own server. Its TLS counts unless a flag of
  // TLS is given. The key is the first of --key-file, ESCAPEMENT_KEY_FILE, ESCAPEMENT_KEY and the
  // context's.
  void AddFlags(CLI::App& app);

  // Throws CLI::ValidationError, which `main` catches, if the context cannot be found, the files of
  // the key or of TLS cannot be used, or the key would leave this machine without TLS.
  std::shared_ptr<grpc::Channel> channel();
  // From now on calls go to this server, with the same key and TLS.
  void CallServer(const std::string& server);
  // The file with the contexts.
  static std::string contexts_path();

  // "tenants/{tenant}", from --tenant.
  std::string parent() const;
  // `name` if it is a full resource name, otherwise "{parent}/{collection}/{name}".
  std::string FullName(absl::string_view collection, absl::string_view name) const;

  // Makes one call, with the deadline and the key. Throws as `channel` does.
  template <typename Stub, typename Request, typename Response>
  grpc::Status Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const std::type_identity_t<Request>& request,
                    std::type_identity_t<Response>& response) {
    Stub stub(channel());
    grpc::ClientContext context;
    SetDeadline(context);
    Authorize(context);
    return (stub.*method)(&context, request, &response);
  }
  // Adds the key to a call that `Call` cannot make, because it is a stream. Throws as `channel`
  // does.
  void Authorize(grpc::ClientContext& context);
  OutputFormat format() const;
  const std::string& server() const { return server_; }
  // Without a CA: no TLS.
  const PeerTls& tls() const { return tls_; }

  // Prints data on stdout.
  void Print(absl::string_view text) const;
  // Prints words on stderr, without the secrets of API keys.
  void Say(absl::string_view words) const;

  // Fail, FailUsage and SetFailed set the exit code.
  void Fail(const grpc::Status& status);
  void FailUsage(absl::string_view words);
  // The end of an error's line: what the user can do; may be "".
  std::string Advice(const absl::Status& status) const;
  void SetFailed() { exit_code_ = kExitFailed; }  // for errors that the command has printed itself
  int exit_code() const { return exit_code_; }

 private:
  // After parsing, before the command.
  void TakeContext();
  // INVALID_ARGUMENT: a sentence that names the flag or variable.
  absl::Status ReadKey();
  void SetDeadline(grpc::ClientContext& context) const;
  std::string AdviceOnKey(const absl::Status& status) const;

  const CLI::App* app_ = nullptr;
  CLI::Option* server_option_ = nullptr;
  CLI::Option* tenant_option_ = nullptr;
  std::string context_;
  std::string context_problem_;  // empty: none
  std::string server_ = "127.0.0.1:7410";
  std::string tenant_ = "default";
  PeerTls tls_;  // without a CA: no TLS
  std::string key_file_;
  bool insecure_key_ = false;
  std::string key_;         // empty: none, or not read yet
  std::string key_source_;  // "--key-file PATH" or "ESCAPEMENT_KEY"
  std::string output_ = "table";
  double timeout_seconds_ = 30;
  std::shared_ptr<grpc::Channel> channel_;
  int exit_code_ = kExitOk;
};

// --tls-ca, --tls-cert and --tls-key, and what to say if a connection fails for want of them.

void AddTlsFlags(CLI::App& app, PeerTls& tls);

// INVALID_ARGUMENT: a sentence that names the flag or file. OK without any of them.
absl::Status CheckTlsFlags(const PeerTls& tls);

// Advice to the user after a connection that failed with these words of gRPC; "" if TLS does not
// seem to be the reason. `tls`: the client used TLS.
absl::string_view TlsAdvice(absl::string_view words, bool tls);

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_BASE_SESSION_H_
