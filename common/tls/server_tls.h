// ServerTls: the certificate, the key and the client CA of a server, read from PEM files and read
// again when the files change.
//
// The files of a set must fit together: the key belongs to the certificate, and the CA file has at
// least one certificate. If a changed set does not, for example because only one of two files has
// been replaced yet, the former set stays in force and a warning is logged once for that change.
//
// Client certificates are asked for if there is a client CA. A client may have none, because API
// keys are the alternative. If it has one, it must be from this CA, otherwise its handshake fails.
//
// TLS 1.2 and 1.3. Sessions are not resumed, so each handshake checks the certificates in force.
//
// Threads: any.

#ifndef COMMON_TLS_SERVER_TLS_H_
#define COMMON_TLS_SERVER_TLS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

struct ssl_ctx_st;  // OpenSSL's SSL_CTX

namespace escapement {

// Paths of PEM files.
struct ServerTlsFiles {
  std::string cert;            // the server's certificate, then those between it and its CA
  std::string key;             // without a password
  std::string client_ca = {};  // empty: client certificates are not asked for
};

// A set of files that fit together.
struct ServerTlsContents {
  std::string cert;
  std::string key;
  std::string client_ca;

  bool operator==(const ServerTlsContents&) const = default;
};

class ServerTls {
 public:
  // One set in force.
  struct Loaded {
    uint64_t version = 0;  // greater for each later set
    ServerTlsContents contents;
    std::shared_ptr<ssl_ctx_st> context;  // for connections of this set
  };
  // Monotonic time.
  using Clock = std::function<absl::Duration()>;

  // INVALID_ARGUMENT: a sentence that names the file.
  static absl::StatusOr<std::shared_ptr<ServerTls>> Load(ServerTlsFiles files);
  static absl::StatusOr<std::shared_ptr<ServerTls>> Load(ServerTlsFiles files, Clock clock);

  // The set for a new connection. Reads the files if it has not read them for a second.
  std::shared_ptr<const Loaded> Current();

  bool AsksForClientCertificates() const { return !files_.client_ca.empty(); }

 private:
  ServerTls(ServerTlsFiles files, Clock clock);
  absl::Status Reload() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ServerTlsFiles files_;
  const Clock clock_;
  absl::Mutex mutex_;
  std::shared_ptr<const Loaded> loaded_ ABSL_GUARDED_BY(mutex_);
  absl::Duration read_at_ ABSL_GUARDED_BY(mutex_);
  // The last contents or error that a read gave, in force or not.
  ServerTlsContents seen_ ABSL_GUARDED_BY(mutex_);
  std::string read_error_ ABSL_GUARDED_BY(mutex_);
};

// PeerTls: how this process proves the servers that it calls, and itself to them.

// Paths of PEM files.
struct PeerTls {
  std::string ca;         // the authorities whose servers are believed
  std::string cert = {};  // the client certificate, with its chain; empty: none
  std::string key = {};   // its key, without a password; empty: none
};

// INVALID_ARGUMENT: a sentence that names the file that cannot be used.
absl::Status CheckPeerTls(const PeerTls& tls);

// --tls_cert, --tls_key, --tls_client_ca and --peer_ca: TLS of a process, by PEM files.

// Appends a sentence for each flag that cannot be used: a pair that is not complete, files that
// cannot be read or do not fit together. Starts no thread.
void ValidateTlsFlags(std::vector<std::string>& errors);

// True if the ports of this process use TLS.
bool ServesTls();

// The TLS of this process's ports; null: none.
absl::StatusOr<std::shared_ptr<ServerTls>> ServerTlsFromFlags();

// The TLS of channels to other processes of the platform; nullopt: none.
std::optional<PeerTls> PeerTlsFromFlags();

// PEM files in an OpenSSL context. Errors are INVALID_ARGUMENT sentences that begin with the path.
//
// Threads: any; one at a time for each context.

// A file and its contents.
struct Pem {
  const std::string& path;
  const std::string& text;
};

// Reads a whole file of at most 1 MiB.
absl::Status ReadPemFile(const std::string& path, std::string* text);

// Gives `context` a certificate with its chain and the certificate's key.
absl::Status UseIdentity(Pem cert, Pem key, ssl_ctx_st& context);

// Lets `context` accept peers whose certificates come from these authorities.
absl::Status TrustCa(Pem ca, ssl_ctx_st& context);

}  // namespace escapement

#endif  // COMMON_TLS_SERVER_TLS_H_
