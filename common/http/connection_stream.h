// ConnectionStream: the bytes of one connection of an HTTP server, with or without TLS. Beast reads
// and writes HTTP on it.
//
// Only http_session.cc includes this header, because Boost is expensive to compile.
//
// Threads: the io thread only. At most one read and one write at a time. Timeouts are those of
// beast::tcp_stream: they apply to operations that begin later, and an operation that takes longer
// ends with beast::error::timeout.

#ifndef COMMON_HTTP_CONNECTION_STREAM_H_
#define COMMON_HTTP_CONNECTION_STREAM_H_

#include <openssl/ssl.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "common/rpc/host_port.h"
#include "common/tls/credentials_grpc.h"
#include "common/tls/tls_files.h"

namespace escapement {

class ConnectionStream {
 public:
  using tcp = boost::asio::ip::tcp;
  using error_code = boost::beast::error_code;
  using executor_type = boost::beast::tcp_stream::executor_type;

  // `tls` null: no TLS. Takes the certificates in force now.
  ConnectionStream(tcp::socket socket, TlsFiles* tls)
      : files_(tls), peer_(PeerOf(socket)), socket_(std::move(socket)) {
    if (tls == nullptr) return;
    SSL_CTX* const in_force = tls->Current()->context.get();
    SSL_CTX_up_ref(in_force);
    boost::asio::ssl::context context(in_force);  // takes that reference
    tls_.emplace(socket_, context);
  }

  // "ip:port" of the client.
  const std::string& peer() const { return peer_; }
  // The names of the verified client certificate, after the handshake.
  const std::vector<std::string>& client_names() const { return client_names_; }

  // Calls `done` with an error code: at once without TLS, else after the handshake.
  template <typename Done>
  void Handshake(Done done) {
    if (!tls_.has_value()) return done(error_code());
    tls_->async_handshake(boost::asio::ssl::stream_base::server,
                          [this, done = std::move(done)](error_code error) {
                            if (!error)
                              client_names_ = VerifiedClientNames(*tls_->native_handle(), *files_);
                            done(error);
                          });
  }

  // Tells a TLS client that nothing more will come, so that it can tell the end from a broken
  // connection. Calls `done` when the client has answered, sends further data, or lets the time
  // pass; at once without TLS.
  template <typename Done>
  void End(Done done) {
    if (!tls_.has_value()) return done();
    tls_->async_shutdown([done = std::move(done)](error_code) { done(); });
  }

  // After End: sends the end of the connection, then reads and drops bytes below TLS. Calls `done`
  // after `bytes_max` of them, at the client's end, or when the time has passed.
  template <typename Done>
  void Discard(size_t bytes_max, Done done) {
    error_code ignored;
    if (dropped_.empty()) socket_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    dropped_.resize(64 << 10);
    socket_.async_read_some(
        boost::asio::buffer(dropped_),
        [this, bytes_max, done = std::move(done)](error_code error, size_t bytes) mutable {
          if (error || bytes >= bytes_max) return done();
          Discard(bytes_max - bytes, std::move(done));
        });
  }
  void Close() {
    error_code ignored;
    socket_.socket().shutdown(tcp::socket::shutdown_both, ignored);
    socket_.close();
  }

  void expires_after(std::chrono::nanoseconds duration) { socket_.expires_after(duration); }
  void expires_never() { socket_.expires_never(); }

  // Boost's AsyncStream. Handlers lose their types here: so Asio's code for sockets and TLS is
  // compiled once, and not for each of Beast's operations.
  executor_type get_executor() noexcept { return socket_.get_executor(); }
  template <typename Buffers, typename Done>
  void async_read_some(const Buffers& buffers, Done&& done) {
    boost::asio::mutable_buffer into;
    for (boost::asio::mutable_buffer buffer : boost::beast::buffers_range_ref(buffers)) {
      if (into.size() == 0) into = buffer;
    }
    ReadSome(into, std::forward<Done>(done));
  }
  template <typename Buffers, typename Done>
  void async_write_some(const Buffers& buffers, Done&& done) {
    std::vector<boost::asio::const_buffer> from;
    for (boost::asio::const_buffer buffer : boost::beast::buffers_range_ref(buffers)) {
      if (buffer.size() > 0) from.push_back(buffer);
    }
    WriteSome(std::move(from), std::forward<Done>(done));
  }

 private:
  using SomeDone = absl::AnyInvocable<void(error_code, size_t)>;

  void ReadSome(boost::asio::mutable_buffer into, SomeDone done) {
    if (!tls_.has_value()) return socket_.async_read_some(into, std::move(done));
    tls_->async_read_some(into, std::move(done));
  }
  void WriteSome(std::vector<boost::asio::const_buffer> from, SomeDone done) {
    if (!tls_.has_value()) return socket_.async_write_some(from, std::move(done));
    tls_->async_write_some(from, std::move(done));
  }

  static std::string PeerOf(const tcp::socket& socket) {
    error_code gone;
    const tcp::endpoint end = socket.remote_endpoint(gone);
    if (gone) return {};
    boost::asio::ip::address address = end.address();
    // A socket for both families shows an IPv4 client as an IPv6 address.
    if (address.is_v6() && address.to_v6().is_v4_mapped())
      address = boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, address.to_v6());
    return HostPort{address.to_string(), end.port()}.ToString();
  }

  TlsFiles* const files_;  // null: no TLS; outlives the connections
  const std::string peer_;
  boost::beast::tcp_stream socket_;
  std::optional<boost::beast::ssl_stream<boost::beast::tcp_stream&>> tls_;
  std::vector<std::string> client_names_;
  std::string dropped_;
};

}  // namespace escapement

#endif  // COMMON_HTTP_CONNECTION_STREAM_H_
