#include "common/tls/server_tls.h"

#include <openssl/ssl.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/status/return_if_error.h"
#include "common/tls/pem.h"

namespace escapement {
namespace {

constexpr absl::Duration kReadEvery = absl::Seconds(1);

absl::Duration MonotonicNow() {
  return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

absl::StatusOr<ServerTlsContents> ReadFiles(const ServerTlsFiles& files) {
  ServerTlsContents contents;
  RETURN_IF_ERROR(ReadPemFile(files.cert, &contents.cert));
  RETURN_IF_ERROR(ReadPemFile(files.key, &contents.key));
  if (!files.client_ca.empty()) RETURN_IF_ERROR(ReadPemFile(files.client_ca, &contents.client_ca));
  return contents;
}

absl::StatusOr<std::shared_ptr<SSL_CTX>> NewContext(const ServerTlsFiles& files,
                                                    const ServerTlsContents& contents) {
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  if (context == nullptr) return absl::InternalError("OpenSSL has no TLS server");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context.get(), 0);
  // An idle connection keeps no buffers.
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS);
  RETURN_IF_ERROR(UseIdentity({files.cert, contents.cert}, {files.key, contents.key}, *context));
  if (!files.client_ca.empty()) {
    RETURN_IF_ERROR(TrustCa({files.client_ca, contents.client_ca}, *context));
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  }
  return context;
}

}  // namespace

ServerTls::ServerTls(ServerTlsFiles files, Clock clock)
    : files_(std::move(files)), clock_(std::move(clock)) {}

absl::StatusOr<std::shared_ptr<ServerTls>> ServerTls::Load(ServerTlsFiles files) {
  return Load(std::move(files), MonotonicNow);
}

absl::StatusOr<std::shared_ptr<ServerTls>> ServerTls::Load(ServerTlsFiles files, Clock clock) {
  std::shared_ptr<ServerTls> tls(new ServerTls(std::move(files), std::move(clock)));
  absl::MutexLock lock(&tls->mutex_);
  tls->read_at_ = tls->clock_();
  RETURN_IF_ERROR(tls->Reload());
  return tls;
}

std::shared_ptr<const ServerTls::Loaded> ServerTls::Current() {
  absl::MutexLock lock(&mutex_);
  const absl::Duration now = clock_();
  if (now - read_at_ < kReadEvery) return loaded_;
  read_at_ = now;
  const uint64_t before = loaded_->version;
  if (const absl::Status status = Reload(); !status.ok()) {
    Log(LogLevel::kWarning, "tls", "changed files are not usable; the former ones stay in force",
        {{"error", status.message()}});
  } else if (loaded_->version != before) {
    Log(LogLevel::kInfo, "tls", "changed files are in force", {{"cert", files_.cert}});
  }
  return loaded_;
}

// An error that it has returned before is OK until the files change again.
absl::Status ServerTls::Reload() {
  auto contents = ReadFiles(files_);
  if (!contents.ok()) {
    if (read_error_ == contents.status().message()) return absl::OkStatus();
    read_error_ = std::string(contents.status().message());
    return contents.status();
  }
  if (read_error_.empty() && *contents == seen_) return absl::OkStatus();
  read_error_.clear();
  seen_ = *contents;
  if (loaded_ != nullptr && *contents == loaded_->contents) return absl::OkStatus();
  auto context = NewContext(files_, *contents);
  if (!context.ok()) return context.status();
  loaded_ = std::make_shared<const Loaded>(
      Loaded{.version = loaded_ == nullptr ? 1 : loaded_->version + 1,
             .contents = *std::move(contents),
             .context = *std::move(context)});
  return absl::OkStatus();
}

}  // namespace escapement
