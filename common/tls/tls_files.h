// TlsFiles: the certificate, the key and the authorities of a server or of a client, read from PEM
// files and read again when the files change.
//
// A changed set comes into force only if it can replace the former one:
// - The files fit together: the key belongs to the certificate, and each file has what it should.
// - It is valid now. An expired certificate, or one whose time has not begun, does not replace a
//   valid one. The files are judged again each second, so a certificate comes into force when its
//   time begins.
// Otherwise the former set stays in force, and a warning is logged once for that change.
//
// The first set must fit together. It may have expired: a process that starts with it can still be
// mended by new files (certificate_watch.h warns).
//
// A server asks for client certificates if the set has authorities. A client may have none, because
// API keys are the alternative. If it has one, it must be from them, otherwise its handshake fails.
//
// The services of the platform may have authorities of their own. No authority of other clients may
// be one of them or below one of them, because it could then make certificates of services.
//
// TLS 1.2 and 1.3. Sessions are not resumed, so each handshake checks the certificates in force.
//
// Threads: any.

#ifndef COMMON_TLS_TLS_FILES_H_
#define COMMON_TLS_TLS_FILES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

struct ssl_ctx_st;     // OpenSSL's SSL_CTX
struct x509_store_st;  // OpenSSL's X509_STORE

namespace escapement {

// Paths of PEM files. Empty: the set has no such file. The certificate and the key come together.
struct TlsPaths {
  std::string cert = {};        // the own certificate, then those between it and its authority
  std::string key = {};         // without a password
  std::string ca = {};          // the authorities whose peers are believed
  std::string service_ca = {};  // as `ca`, of clients that are services; empty: `ca` is theirs too
};

// A set of files that fit together.
struct TlsContents {
  std::string cert;
  std::string key;
  std::string ca;
  std::string service_ca;

  bool operator==(const TlsContents&) const = default;
};

// When a file can be used. The first certificate of a chain that ends, ends the chain. A file of
// authorities can be used while one of them can.
struct Validity {
  absl::Time begins = absl::InfinitePast();
  absl::Time ends = absl::InfiniteFuture();  // the first moment at which it is not valid

  bool Covers(absl::Time now) const { return begins <= now && now < ends; }
};

// Among the names of a client: its certificate may be that of a service. No certificate can have
// this name.
inline constexpr char kServiceAuthority[] = "authority:service";

class TlsFiles {
 public:
  // One set in force.
  struct Loaded {
    uint64_t version = 0;  // greater for each later set
    TlsContents contents;
    Validity cert;
    Validity ca;
    Validity service_ca;
    std::shared_ptr<ssl_ctx_st> context;           // for connections that a server accepts
    std::shared_ptr<x509_store_st> service_store;  // null: no authorities of services alone

    // The authorities of all clients, as PEM.
    std::string client_authorities() const;
  };
  struct Clocks {
    std::function<absl::Duration()> monotonic;
    std::function<absl::Time()> wall;
  };

  // INVALID_ARGUMENT: a sentence that names the file.
  static absl::StatusOr<std::shared_ptr<TlsFiles>> Load(TlsPaths paths);
  static absl::StatusOr<std::shared_ptr<TlsFiles>> Load(TlsPaths paths, Clocks clocks);

  // The set for a new connection. Reads the files if it has not read them for a second.
  std::shared_ptr<const Loaded> Current();

  // As of the last read, why the files on disk are not in force; empty: they are. The sentence
  // begins with the path of the file at fault.
  std::string Refusal();

  const TlsPaths& paths() const { return paths_; }
  bool AsksForClientCertificates() const {
    return !paths_.ca.empty() || !paths_.service_ca.empty();
  }

  // False: every accepted client certificate may be that of a service.
  bool KnowsServices() const { return !paths_.service_ca.empty(); }
  // True if this certificate of a client whose handshake is complete may be that of a service. PEM:
  // the certificate, then those between it and its authority. Answers are remembered, and true ones
  // outlive a change of the authorities, because open connections do.
  bool MayBeService(const std::string& chain);

 private:
  TlsFiles(TlsPaths paths, Clocks clocks);
  absl::Status Reload() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Loaded> Judge(TlsContents contents) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const TlsPaths paths_;
  const Clocks clocks_;
  absl::Mutex mutex_;
  std::shared_ptr<const Loaded> loaded_ ABSL_GUARDED_BY(mutex_);
  absl::Duration read_at_ ABSL_GUARDED_BY(mutex_);
  // The result of the last read, in force or not.
  TlsContents seen_ ABSL_GUARDED_BY(mutex_);
  std::string refusal_ ABSL_GUARDED_BY(mutex_);
  // Answers of MayBeService by certificate; emptied when they are too many.
  absl::flat_hash_map<std::string, bool> services_ ABSL_GUARDED_BY(mutex_);
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

// --tls_cert, --tls_key, --tls_client_ca, --tls_service_ca and --peer_ca: TLS of a process, by PEM
// files.

// Appends a sentence for each flag that cannot be used: a pair that is not complete, files that
// cannot be read or do not fit together. Starts no thread.
void ValidateTlsFlags(std::vector<std::string>& errors);

// True if the ports of this process use TLS.
bool ServesTls();

// True if every accepted client certificate may be that of a service, because the services have no
// authority of their own.
bool ClientsMayPassForServices();

// The TLS of this process's ports; null: none.
absl::StatusOr<std::shared_ptr<TlsFiles>> ServerTlsFromFlags();

// The TLS of channels to other processes of the platform; null: none.
absl::StatusOr<std::shared_ptr<TlsFiles>> PeerTlsFromFlags();

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

// When the certificates of a file can be used, as the own chain or as authorities.
absl::StatusOr<Validity> ValidityOfChain(Pem cert);
absl::StatusOr<Validity> ValidityOfAuthorities(Pem ca);

// Lets `context` accept peers whose certificates come from these authorities.
absl::Status TrustCa(Pem ca, ssl_ctx_st& context);

// A store of these authorities, roots or not.
absl::StatusOr<std::shared_ptr<x509_store_st>> NewAuthorityStore(Pem ca);

// True if the first certificate of `chain` comes from an authority of `store` by way of the others.
bool ComesFrom(x509_store_st& store, const std::string& chain);

// INVALID_ARGUMENT if an authority of `clients` is one of `services`, whose `store` this is, or
// below one of them.
absl::Status CheckApart(Pem clients, Pem services, x509_store_st& store);

}  // namespace escapement

#endif  // COMMON_TLS_TLS_FILES_H_
