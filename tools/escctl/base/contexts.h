// Contexts: servers that have a name, so that commands need no --server. They live in a file of the
// user:
//
//   current: prod
//   contexts:
//     prod: {server: "master.example:7410", tenant: "default", tls-ca: "/etc/ca.pem",
//            tls-cert: "/home/me/client.pem", tls-key: "/home/me/client.key",
//            key-file: "/home/me/api.key"}

#ifndef TOOLS_ESCCTL_BASE_CONTEXTS_H_
#define TOOLS_ESCCTL_BASE_CONTEXTS_H_

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace escapement::escctl {

struct Context {
  std::string server;  // host:port
  std::string tenant;  // empty: the default
  // Paths of PEM files. An empty CA: no TLS. An empty certificate and key: no client certificate.
  std::string tls_ca = {};
  std::string tls_cert = {};
  std::string tls_key = {};
  // Path of a file with an API key; empty: none. The key itself is never stored here.
  std::string key_file = {};

  bool operator==(const Context&) const = default;
};

struct Contexts {
  std::string current;  // empty: none
  std::map<std::string, Context> by_name;
};

// $ESCAPEMENT_CONFIG_DIR/escctl.yaml, else $HOME/.config/escapement/escctl.yaml; "" without both.
std::string ContextsPath(const std::function<std::optional<std::string>(const char*)>& environment);

// No contexts if there is no file. INVALID_ARGUMENT if it cannot be read.
absl::StatusOr<Contexts> LoadContexts(const std::string& path);

// Replaces the file in one step. It has mode 0600; folders that are missing are made.
absl::Status SaveContexts(const Contexts& contexts, const std::string& path);

// The context called `name`, or the current one if `name` is empty; nullopt: there is no current
// one. INVALID_ARGUMENT if no context has this name.
absl::StatusOr<std::optional<Context>> ChooseContext(const Contexts& contexts,
                                                     const std::string& name);

// INVALID_ARGUMENT unless it has 1–63 characters of a–z, A–Z, 0–9, '-', '_' and '.'.
absl::Status CheckContextName(absl::string_view name);

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_BASE_CONTEXTS_H_
