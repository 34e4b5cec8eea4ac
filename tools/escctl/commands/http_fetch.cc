#include "tools/escctl/commands/http_fetch.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace escapement::escctl {
namespace {

constexpr size_t kAnswerBytesMax = 16 << 20;
constexpr char kWanted[] = "is not a URL such as http://127.0.0.1:7411";

// Connects to the first address that accepts. Returns -1 if none does.
int Connect(const std::string& host, const std::string& port, absl::Duration timeout) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* addresses = nullptr;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &addresses) != 0) return -1;
  const absl::Cleanup free_addresses = [&] { freeaddrinfo(addresses); };
  const timeval limit = absl::ToTimeval(timeout);
  for (const addrinfo* address = addresses; address != nullptr; address = address->ai_next) {
    const int peer = socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC, 0);
    if (peer < 0) continue;
    setsockopt(peer, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);  // also for connect
    setsockopt(peer, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (connect(peer, address->ai_addr, address->ai_addrlen) == 0) return peer;
    close(peer);
  }
  return -1;
}

bool SendAll(int peer, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = send(peer, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    text.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

}  // namespace

absl::StatusOr<std::string> HttpFetch(const std::string& url, absl::Duration timeout) {
  absl::string_view rest = url;
  if (!absl::ConsumePrefix(&rest, "http://"))
    return absl::InvalidArgumentError(absl::StrCat("'", url, "' ", kWanted));
  const size_t slash = rest.find('/');
  const std::string path(slash == absl::string_view::npos || slash + 1 == rest.size()
                             ? "/metrics"
                             : rest.substr(slash));
  const absl::string_view authority = rest.substr(0, slash);
  const size_t colon = authority.rfind(':');
  if (colon == absl::string_view::npos || colon == 0 || colon + 1 == authority.size())
    return absl::InvalidArgumentError(absl::StrCat("'", url, "' ", kWanted));
  absl::string_view host = authority.substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");

  const int peer = Connect(std::string(host), std::string(authority.substr(colon + 1)), timeout);
  if (peer < 0) return absl::UnavailableError(absl::StrCat(url, " cannot be reached"));
  const absl::Cleanup close_peer = [peer] { close(peer); };
  // With HTTP/1.0 the body ends with the connection.
  if (!SendAll(peer, absl::StrCat("GET ", path, " HTTP/1.0\r\nHost: ", authority, "\r\n\r\n")))
    return absl::UnavailableError(absl::StrCat(url, " does not take requests"));
  std::string answer;
  std::string buffer(64 << 10, '\0');
  ssize_t got;
  while ((got = recv(peer, buffer.data(), buffer.size(), 0)) > 0) {
    answer.append(buffer, 0, static_cast<size_t>(got));
    if (answer.size() > kAnswerBytesMax)
      return absl::UnavailableError(absl::StrCat(url, " answers too much"));
  }
  const size_t body = answer.find("\r\n\r\n");
  if (got < 0 || body == std::string::npos)
    return absl::UnavailableError(absl::StrCat(url, " does not answer in time"));
  const std::string line = answer.substr(0, answer.find("\r\n"));
  if (!absl::StrContains(line, " 200"))
    return absl::UnavailableError(absl::StrCat(url, " answers ", line));
  return answer.substr(body + 4);
}

}  // namespace escapement::escctl
